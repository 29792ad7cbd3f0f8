"""The elements of a suite: published figures as data, and rows that compare simulated figures with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from pydantic import ConfigDict, TypeAdapter, ValidationError

from kernbench.common.errors import ABSENT, InputError
from kernbench.config.document import MACHINE_BYTES, read_document

if TYPE_CHECKING:
    from kernbench.validate.run import Runner


Number = int | float | Fraction
STRICT = ConfigDict(extra="forbid")  # refuses unknown keys of a file
Verdict = Literal["pass", "fail", "info"]


class Skipped(Exception):
    """A suite cannot run here; the text says why and what to do about it."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of figures."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    title: str
    url: str  #: empty if the figures follow from this project's own documents
    licence: str  #: of the figures
    redo: str  #: how to obtain the figures again


@dataclass(frozen=True, slots=True)
class SuiteData:
    """A suite's data file."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    suite: str
    title: str
    about: str  #: a sentence that describes the comparison
    sources: dict[str, Source]
    cases: tuple[dict[str, Any], ...] = ()
    facts: dict[str, Any] | None = None

    def fact(self, name: str) -> Any:
        """One fact of the file. KeyError for an unknown name."""
        return (self.facts or {})[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One comparison. `expected`: a number, or the two ends of a range that must contain the simulated figure."""

    case: str
    source: str  #: a key of the data file's sources
    expected: Number | tuple[Number, Number]
    ours: Number
    unit: str
    allowed: Number | None  #: relative error; 0 for exact, None for rows that are reported and not judged
    why: str  #: the reason for this tolerance, in a sentence

    @property
    def error(self) -> Fraction:
        """(simulated - expected) / expected; for a range, 0 inside the range, else relative to the nearer end."""
        ours, ends = Fraction(self.ours), self.expected
        low, high = ends if isinstance(ends, tuple) else (ends, ends)
        near = Fraction(low) if ours < low else Fraction(high) if ours > high else ours
        return Fraction(0) if ours == near else (ours - near) / abs(near) if near else Fraction(1 if ours > near else -1)

    @property
    def points(self) -> Fraction | None:
        """(simulated - expected) of shares, in percentage points; None if the row compares no share of a whole."""
        if not self.unit.startswith("% of") or isinstance(self.expected, tuple):
            return None
        return Fraction(self.ours) - Fraction(self.expected)

    @property
    def verdict(self) -> Verdict:
        """Whether the error is allowed."""
        if self.allowed is None:
            return "info"
        return "pass" if abs(self.error) <= Fraction(self.allowed) else "fail"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        ends = self.expected
        return {
            "case": self.case,
            "source": self.source,
            "expected": [_plain(end) for end in ends] if isinstance(ends, tuple) else _plain(ends),
            "ours": _plain(self.ours),
            "unit": self.unit,
            "error": float(self.error),
            "allowed": None if self.allowed is None else float(self.allowed),
            "verdict": self.verdict,
            "why": self.why,
        } | ({} if self.points is None else {"points": float(self.points)})


def _plain(value: Number) -> int | float:
    exact = Fraction(value)
    return exact.numerator if exact.denominator == 1 else float(exact)


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one kind in a figure."""

    name: str
    points: Sequence[tuple[float, float]]
    kind: Literal["line", "points"] = "points"


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False


class Suite(Protocol):
    """A module of a suite. `figures(data, rows)` is optional; without it the errors of the suite's rows are drawn."""

    def rows(self, data: SuiteData, runner: Runner) -> Iterator[Row]:
        """The rows of the comparison; raises Skipped if the comparison is not possible here."""
        ...


_FILE = TypeAdapter(SuiteData)


def read_suite_data(name: str) -> SuiteData:
    """The data of a suite that is in the package."""
    return read_data_file(Path(str(resources.files("kernbench.validate"))) / "data" / f"{name}.yaml")


def read_data_file(path: Path) -> SuiteData:
    """A data file. InputError with file, line and key if it is not valid."""
    document = read_document(path, MACHINE_BYTES)
    try:
        data = _FILE.validate_python(document.data)
    except ValidationError as error:
        items = error.errors(include_url=False)
        found = [(item["loc"], *_rule(item["type"], item["msg"], item["input"]), "") for item in items]
        raise InputError(document.problems(found)) from None
    if data.suite != path.stem:
        raise InputError(document.problem(("suite",), "it must be the name of the file", data.suite))
    return data


def _rule(kind: str, message: str, value: Any) -> tuple[str, Any]:
    """The message of pydantic in the words of other errors of files, and the value."""
    if kind == "missing":
        return "the key is missing", ABSENT
    if kind == "unexpected_keyword_argument":
        return "there is no such key", ABSENT
    return message.lower(), value
