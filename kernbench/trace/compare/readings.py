"""Files of hardware counters (`.csv`, `.json`, `.yaml`), and of what their names mean in a simulation."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from kernbench.common.errors import ABSENT, InputError, Problem
from kernbench.common.files import read_bounded
from kernbench.common.units import parse_rational
from kernbench.config.document import Document, read_document

MOST_NAME = 1000  #: characters of a name or pattern
MOST_BYTES = 64 * 2**20
COLUMNS = ("counter", "value", "unit", "t_cycle", "t_ns")
_NEEDED = ("counter", "value")


@dataclass(frozen=True, slots=True)
class Reading:
    """One value that was measured."""

    counter: str
    value: Fraction
    unit: str | None  #: of the trace, that it belongs to
    t_cycle: int | None
    t_ns: Fraction | None
    where: str  #: file and line, or item

    def cycle(self, freq_ghz: Fraction) -> int | None:
        """When: the cycle that was running; None of a reading at the end of the run."""
        return int(self.t_ns * freq_ghz // 1) if self.t_ns is not None else self.t_cycle


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a hardware counter counts."""

    patterns: tuple[str, ...]  #: simulated counters, `*` and `?` as in file names; their sum is meant
    scale: Fraction  #: of the measured value, to be in the unit of the simulated ones


def read_readings(path: str | os.PathLike[str]) -> list[Reading]:
    """The readings of a file, in its order; InputError says what is wrong with it."""
    source = os.fspath(path)
    rows = _csv_rows(source) if Path(source).suffix.lower() == ".csv" else _document_rows(source)
    found, problems = [], []
    for where, row in rows:
        try:
            found.append(_reading(where, row))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    if not found:
        raise InputError(Problem(source, "there are no counters in it"))
    return found


def _csv_rows(source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        text = read_bounded(source, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(Problem(source, f"it cannot be read: {error.reason}")) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        heads = [head.strip() for head in next(reader, [])]
        _check_columns(f"{source}:1", heads)
        for row in reader:
            if not row:
                continue
            where = f"{source}:{reader.line_num}"
            if len(row) != len(heads):
                raise InputError(Problem(where, f"it has {len(row)} cells, but the first line has {len(heads)}"))
            yield where, {head: cell.strip() for head, cell in zip(heads, row, strict=True) if cell.strip()}
    except csv.Error as error:
        raise InputError(Problem(f"{source}:{reader.line_num}", f"it is no CSV: {error}")) from None


def _check_columns(where: str, heads: list[str]) -> None:
    allowed = f"columns are {', '.join(COLUMNS)}; the first two are needed"
    for head in heads:
        if head not in COLUMNS or heads.count(head) > 1:
            raise InputError(Problem(where, f"{allowed}, each once", "column", head))
    for need in _NEEDED:
        if need not in heads:
            raise InputError(Problem(where, f"there is no column {need}; {allowed}"))


def _document_rows(source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    document = read_document(source, MOST_BYTES)
    rows = document.data.get("counters")
    if list(document.data) != ["counters"] or not isinstance(rows, list):
        raise InputError(document.problem((), 'it must be {"counters": [...]}: a list of mappings'))
    for i, row in enumerate(rows):
        path = ("counters", i)
        if not isinstance(row, dict):
            raise InputError(document.problem(path, "it must be a mapping", row))
        for key in row:
            if key not in COLUMNS:
                raise InputError(document.problem((*path, key), f"keys are {', '.join(COLUMNS)}"))
        yield f"{source}: counters[{i}]", {key: value for key, value in row.items() if value is not None}


def _reading(where: str, row: Mapping[str, Any]) -> Reading:
    for need in _NEEDED:
        if need not in row:
            raise InputError(Problem(where, "it must be there", need))
    for name in ("counter", "unit"):
        if name in row and not isinstance(row[name], str):
            raise InputError(Problem(where, "it must be a text", name, row[name]))
    if "t_cycle" in row and "t_ns" in row:
        raise InputError(Problem(where, "it has t_cycle and t_ns both", remedy="give one of them"))
    cycle = _number(where, "t_cycle", row)
    if cycle is not None and cycle.denominator != 1:
        raise InputError(Problem(where, "it must be a whole number", "t_cycle", row["t_cycle"]))
    value = _number(where, "value", row, least=None)
    assert value is not None
    ns = _number(where, "t_ns", row)
    return Reading(row["counter"], value, row.get("unit"), None if cycle is None else cycle.numerator, ns, where)


def _number(where: str, name: str, row: Mapping[str, Any], least: int | None = 0) -> Fraction | None:
    if name not in row:
        return None
    try:
        number = parse_rational(row[name])
    except ValueError as error:
        raise InputError(Problem(where, str(error), name, row[name])) from None
    if least is not None and number < least:
        raise InputError(Problem(where, f"it must be at least {least}", name, row[name]))
    return number


def read_meanings(path: str | os.PathLike[str]) -> dict[str, Meaning]:
    """A mapping file: hardware counters by name, each a simulated one, or `{simulated: one or a list, scale: number}`."""
    document = read_document(path, MOST_BYTES)
    return {str(name): _meaning(document, (name,), value) for name, value in document.data.items()}


def _meaning(document: Document, path: tuple[Any, ...], value: Any) -> Meaning:
    rule = "it must be the name of a simulated counter, or {simulated: ..., scale: ...}"
    given = value if isinstance(value, dict) else {"simulated": value}
    if "simulated" not in given or not given.keys() <= {"simulated", "scale"}:
        raise InputError(document.problem(path, rule, value))
    names = given["simulated"] if isinstance(given["simulated"], list) else [given["simulated"]]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InputError(document.problem(path, rule, value))
    longest = max(names, key=len)
    if len(longest) > MOST_NAME:
        raise InputError(document.problem(path, f"a name or pattern must have at most {MOST_NAME} characters", longest))
    scale = given.get("scale", 1)
    try:
        exact = parse_rational(scale)
    except ValueError as error:
        raise InputError(document.problem((*path, "scale"), str(error), scale)) from None
    if exact <= 0:
        raise InputError(document.problem((*path, "scale"), "it must be above 0", scale if scale is not None else ABSENT))
    return Meaning(tuple(names), exact)
