"""A recorded profile of hardware compared with a simulated run: operations with different names are matched, and times are
compared by class.

A profile is a table of operations: `name`, `type` (optional), `duration_us`; other columns are not read. A simulated operation
consists of the commands of one layer and phase (or opcode, if commands name no phase), from their first start to their last
end. Rules map names to operations; names without a rule get proposals by similarity, which are used only when they are
approved.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from fractions import Fraction
from functools import cache
from typing import Any

import yaml

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import read_bounded
from kernbench.common.spelling import meant
from kernbench.common.units import parse_rational
from kernbench.config.document import MACHINE_BYTES, read_document
from kernbench.trace.reader import Trace

MAX_BYTES = 64 * 2**20
MAX_PATTERN = 1000  #: characters
COLUMNS = ("name", "type", "duration_us")
MAX_STARS = 3  #: the most stars of a pattern
_PLACE = re.compile(r"(?:\*|\{([a-zA-Z]\w*)\})")
LEAST = 0.4  #: proposals have at least this similarity
KINDS = {"TE": "product", "VE": "vector", "DMA": "transfer"}  #: class of an operation, by the engine that works longest for it
_READ: dict[str, tuple[str, ...]] = {
    "CMD_ENQUEUE": ("cmd_id", "cmd_type", "layer_id", "phase"),
    "CMD_START": ("t_cycle", "cmd_id"),
    "CMD_END": ("t_cycle", "cmd_id"),
    "TE_START": ("t_cycle", "cmd_id", "job_id"),
    "VE_START": ("t_cycle", "cmd_id", "job_id"),
    "DMA_START": ("t_cycle", "cmd_id", "job_id"),
    "TE_END": ("t_cycle", "job_id"),
    "VE_END": ("t_cycle", "job_id"),
    "DMA_END": ("t_cycle", "job_id"),
}


@dataclass(slots=True)
class Operation:
    """A simulated operation."""

    layer: int | None
    phase: str
    start: int | None = None  #: [cycle]
    end: int = 0
    work: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))  #: [job-cycle] by kind of engine

    @property
    def name(self) -> str:
        """`3 QKV_PROJ`: its name in rules and reports."""
        return self.phase if self.layer is None else f"{self.layer} {self.phase}"

    @property
    def cycles(self) -> int:
        """The cycles from the first start to the last end of its commands."""
        return 0 if self.start is None else self.end - self.start

    @property
    def kind(self) -> str:
        """Its class; the transfers of a product or vector operation belong to the operation."""
        compute = {kind: self.work[kind] for kind in ("TE", "VE") if self.work[kind]}
        return KINDS[max(compute, key=lambda kind: compute[kind])] if compute else KINDS["DMA"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A row of a profile, which has one measured operation."""

    name: str
    type: str
    us: Fraction
    where: str


@dataclass(frozen=True, slots=True)
class Rule:
    """Names that `pattern` matches as a whole mean `operation`.

    In a pattern, `*` matches any text and `{x}` matches a number, which also replaces `{x}` in `operation`.
    """

    pattern: str
    operation: str
    kind: str  #: the reported class; if it is empty, the class of the simulated operation
    exact: bool = False  #: the pattern is a literal name

    def meaning(self, name: str) -> str | None:
        """The operation that a name means; None if the rule does not match the name."""
        if self.exact:
            return self.operation if name == self.pattern else None
        found = _compiled(self.pattern).fullmatch(name)
        return None if found is None else _filled(self.operation, found.groupdict())


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """The compiled pattern. Numbers have at most 18 digits, and a pattern has at most MAX_STARS stars, so the time of a match
    is bounded."""
    parts = []
    for part in _pieces(pattern):
        place = _PLACE.fullmatch(part)
        if part == "*":
            parts.append(".*?")
        elif place is not None:
            parts.append(f"(?P={place[1]})" if f"(?P<{place[1]}>" in "".join(parts) else f"(?P<{place[1]}>[0-9]{{1,18}})")
        else:
            parts.append(re.escape(part))
    return re.compile("".join(parts), re.DOTALL)


def _pieces(pattern: str) -> list[str]:
    """The texts, stars and numbers of a pattern, in order."""
    return [part for part in re.split(r"(\*|\{[a-zA-Z]\w*\})", pattern) if part]


def _filled(operation: str, numbers: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda place: str(int(numbers[place[1]])), operation)


@dataclass(frozen=True, slots=True)
class Proposal:
    """An operation that a name may mean."""

    name: str
    operation: str
    likeness: float


@dataclass(frozen=True, slots=True)
class Pair:
    """A simulated operation and the rows of the profile that mean this operation."""

    operation: Operation
    names: tuple[str, ...]
    kind: str
    measured_us: Fraction  #: [us] sum of the rows
    simulated_us: Fraction

    @property
    def error(self) -> Fraction | None:
        """The relative error: (simulated - measured) / measured."""
        return (self.simulated_us - self.measured_us) / self.measured_us if self.measured_us else None


@dataclass(frozen=True, slots=True)
class ClassError:
    """All pairs of one class."""

    kind: str
    pairs: int
    measured_us: Fraction
    simulated_us: Fraction
    mean: Fraction  #: mean of the pairs' absolute errors

    @property
    def error(self) -> Fraction:
        """The relative error of the summed times."""
        return (self.simulated_us - self.measured_us) / self.measured_us


@dataclass(frozen=True)
class Alignment:
    """A profile aligned with a trace."""

    trace: str
    source: str
    pairs: list[Pair]
    proposals: list[Proposal]  #: proposals for names without a rule that were not approved
    unknown: list[Measured]  #: rows without a rule or an approved proposal, which are not used
    missing: list[Operation]  #: simulated operations without a row

    def classes(self) -> list[ClassError]:
        """The error of each class; the class with the most measured time is first."""
        found = []
        for kind in sorted({pair.kind for pair in self.pairs}):
            of = [pair for pair in self.pairs if pair.kind == kind and pair.error is not None]
            if not of:
                continue
            measured = sum((one.measured_us for one in of), Fraction(0))
            simulated = sum((one.simulated_us for one in of), Fraction(0))
            mean = sum((abs(one.error or Fraction(0)) for one in of), Fraction(0)) / len(of)
            found.append(ClassError(kind, len(of), measured, simulated, mean))
        return sorted(found, key=lambda one: (-one.measured_us, one.kind))


def read_profile(path: str | os.PathLike[str]) -> list[Measured]:
    """The rows of a profile, a CSV file. InputError, with file and line, for a row that is not valid."""
    source = os.fspath(path)
    try:
        text = read_bounded(source, MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(Problem(source, f"the file cannot be read: {error.reason}")) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    found: list[Measured] = []
    problems: list[Problem] = []
    try:
        heads = [head.strip() for head in next(reader, [])]
        for need in ("name", "duration_us"):
            if need not in heads:
                rule = f"there is no column {need}; columns are {', '.join(COLUMNS)}, and others are not read"
                raise InputError(Problem(f"{source}:1", rule, remedy=meant(need, heads)))
        for cells in reader:
            if not cells:
                continue
            where = f"{source}:{reader.line_num}"
            if len(cells) != len(heads):
                problems.append(Problem(where, f"it has {len(cells)} cells, but the first line has {len(heads)}"))
                continue
            row = dict(zip(heads, (cell.strip() for cell in cells), strict=True))
            try:
                us = parse_rational(row["duration_us"])
            except ValueError as error:
                problems.append(Problem(where, str(error), "duration_us", row["duration_us"]))
                continue
            if us < 0 or not row["name"]:
                rule = "it needs a name, and a duration of at least 0"
                problems.append(Problem(where, rule, "duration_us", row["duration_us"]))
                continue
            found.append(Measured(row["name"], row.get("type", ""), us, where))
    except csv.Error as error:
        raise InputError(Problem(f"{source}:{reader.line_num}", f"it is not CSV: {error}")) from None
    if problems:
        raise InputError(problems)
    if not found:
        raise InputError(Problem(source, "the profile has no operations"))
    return found


_FORM = "it must be {match: PATTERN, means: OPERATION} or {name: NAME, means: OPERATION}, each also with class: NAME"


def read_rules(path: str | os.PathLike[str]) -> list[Rule]:
    """The rules of a file `{rules: [{match: PATTERN, means: OPERATION, class: NAME}]}`; the first rule that matches a name is
    used."""
    document = read_document(path, MACHINE_BYTES)
    rows = document.data.get("rules")
    if list(document.data) != ["rules"] or not isinstance(rows, list):
        raise InputError(document.problem((), "it must be {rules: [...]}, each " + _FORM.removeprefix("it must be ")))
    found, problems = [], []
    for i, row in enumerate(rows):
        texts = isinstance(row, dict) and all(isinstance(value, str) for value in row.values())
        keys = {*row} - {"class"} if texts else set()
        if keys not in ({"match", "means"}, {"name", "means"}):
            problems.append(document.problem(("rules", i), _FORM, row))
            continue
        pattern = row.get("match", row.get("name"))
        known = {place[1] for place in map(_PLACE.fullmatch, _pieces(pattern)) if place is not None}
        lost = sorted({*re.findall(r"\{(\w+)\}", row["means"])} - known) if "match" in row else []
        if len(pattern) > MAX_PATTERN or ("match" in row and pattern.count("*") > MAX_STARS):
            rule = f"it must have at most {MAX_PATTERN} characters and {MAX_STARS} stars"
            problems.append(document.problem(("rules", i, "match"), rule, pattern))
        elif lost:
            rule = f"it names a number {{{lost[0]}}} that the pattern does not have"
            problems.append(document.problem(("rules", i, "means"), rule, row["means"]))
        else:
            found.append(Rule(pattern, row["means"], row.get("class", ""), exact="name" in row))
    if problems:
        raise InputError(problems)
    return found


def rules_text(rules: Sequence[Rule]) -> str:
    """The text of a rules file with these rules."""
    rows = [
        {
            "name" if rule.exact else "match": rule.pattern,
            "means": rule.operation,
            **({"class": rule.kind} if rule.kind else {}),
        }
        for rule in rules
    ]
    return str(yaml.safe_dump({"rules": rows}, sort_keys=False, width=1000, allow_unicode=True))


def operations(trace: Trace) -> dict[str, Operation]:
    """The simulated operations of a trace by name, in the order of their first commands. InputError for a broken trace."""
    found = _Operations()
    for batch in trace.batches(_READ):
        for record in batch:
            if record.event.name in _READ:
                found.take(record)
    if trace.broken is not None or trace.end is None:
        rule = f"the trace breaks off: {trace.broken}"
        remedy = "a trace of a part of a run cannot be aligned with a profile; record the whole run"
        raise InputError(Problem(trace.path, rule, remedy=remedy))
    return found.by_name


class _Operations:
    """The operations of the records that were read so far."""

    def __init__(self) -> None:
        self.by_name: dict[str, Operation] = {}
        self._of: dict[int, Operation] = {}  # by the id of a command
        self._began: dict[int, tuple[Operation, str, int]] = {}  # jobs at work: operation, kind and first cycle

    def take(self, record: Any) -> None:
        """Add what a record says of its operation."""
        event = record.event.name
        if event == "CMD_ENQUEUE":
            if record.cmd_type not in ("END", "BARRIER", "NOP"):
                made = Operation(record.layer_id, record.phase or record.cmd_type)
                self._of[record.cmd_id] = self.by_name.setdefault(made.name, made)
        elif event in ("CMD_START", "CMD_END"):
            one = self._of.get(record.cmd_id)
            if one is not None:
                _lengthen(one, record.t_cycle, begins=event == "CMD_START")
        elif event.endswith("_START"):
            if record.cmd_id in self._of:
                self._began[record.job_id] = self._of[record.cmd_id], event.removesuffix("_START"), record.t_cycle
        elif record.job_id in self._began:
            one, kind, start = self._began.pop(record.job_id)
            one.work[kind] += record.t_cycle - start


def _lengthen(one: Operation, cycle: int, *, begins: bool) -> None:
    """A command of the operation begins or ends in this cycle."""
    if begins:
        one.start = cycle if one.start is None else min(one.start, cycle)
    else:
        one.end = max(one.end, cycle)


def align_profile(
    trace: Trace, source: str, rows: Sequence[Measured], rules: Sequence[Rule], approved: Sequence[str] = ()
) -> tuple[Alignment, list[Rule]]:
    """Align a profile with a trace. `approved`: names whose proposals are used, or `*` for all names; these proposals are also
    returned as rules.

    InputError for a rule whose operation is not in the trace, and for an approved name without a proposal.
    """
    simulated = operations(trace)
    meanings: dict[str, tuple[str, str]] = {}
    problems = []
    for name in dict.fromkeys(row.name for row in rows):
        for rule in rules:
            operation = rule.meaning(name)
            if operation is None:
                continue
            if operation not in simulated:
                problem = f"the rule {rule.pattern} says that {name} means an operation that the trace does not have"
                problems.append(Problem(source, problem, "means", operation, meant(operation, simulated)))
            meanings[name] = operation, rule.kind
            break
    if problems:
        raise InputError(problems)
    open_names = [name for name in dict.fromkeys(row.name for row in rows) if name not in meanings]
    proposals = list(_proposals(open_names, simulated))
    wanted = {one.name for one in proposals} if "*" in approved else set(approved)
    proposed = {one.name: one for one in proposals}
    for name in sorted(wanted):
        if name not in proposed:
            raise InputError(Problem(source, "there is no proposal for this name", "--approve", name, meant(name, proposed)))
    added = [Rule(name, proposed[name].operation, "", exact=True) for name in proposed if name in wanted]
    meanings |= {name: (proposed[name].operation, "") for name in wanted}
    return _aligned(trace, source, rows, simulated, meanings, [p for p in proposals if p.name not in wanted]), added


def _aligned(
    trace: Trace,
    source: str,
    rows: Sequence[Measured],
    simulated: dict[str, Operation],
    meanings: dict[str, tuple[str, str]],
    proposals: list[Proposal],
) -> Alignment:
    names: dict[str, dict[str, Fraction]] = {}
    kinds: dict[str, str] = {}
    unknown = []
    for row in rows:
        if row.name not in meanings:
            unknown.append(row)
            continue
        operation, kind = meanings[row.name]
        of = names.setdefault(operation, {})
        of[row.name] = of.get(row.name, Fraction(0)) + row.us
        kinds[operation] = kind or kinds.get(operation, "")
    pairs = []
    for operation, of in names.items():
        one = simulated[operation]
        us = one.cycles / trace.freq_ghz / 1000
        pairs.append(Pair(one, tuple(of), kinds[operation] or one.kind, sum(of.values(), Fraction(0)), us))
    missing = [one for name, one in simulated.items() if name not in names]
    return Alignment(trace.path, source, pairs, proposals, unknown, missing)


def _proposals(names: Sequence[str], simulated: dict[str, Operation]) -> Iterator[Proposal]:
    """The most similar operation for each name if the similarity is high enough; of equally similar operations, the first in
    the trace."""
    words = {operation: _words(operation) for operation in simulated}
    for name in names:
        mine = _words(name)
        scored = [(likeness(mine, theirs), operation) for operation, theirs in words.items()]
        best = max((score for score, _ in scored), default=0.0)
        if best >= LEAST:
            yield Proposal(name, next(operation for score, operation in scored if score == best), best)


#: words that do not distinguish operations
_EMPTY = frozenset({"layer", "gemm", "batch", "kernel", "op", "fwd", "forward", "aten", "model"})
#: Words that other programs use, each with the word of kernbench.
SYNONYMS = {
    "matmul": "gemm", "mm": "gemm", "linear": "proj", "dense": "proj", "fc": "proj", "o": "out", "attn": "attention",
    "ffn": "mlp", "feed": "mlp", "norm": "rmsnorm", "ln": "layernorm", "qk": "score", "scores": "score", "av": "apply",
    "pv": "apply", "context": "apply", "blk": "layer", "block": "layer", "layers": "layer", "h": "layer",
}  # fmt: skip


def _words(name: str) -> tuple[frozenset[str], frozenset[str], str]:
    """The numbers, the words and the letters of a name: `blk.3/ffn_gate` has 3, and mlp, gate."""
    parts = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+", name)
    words = [SYNONYMS.get(part.lower(), part.lower()) for part in parts]
    plain = frozenset(word for word in words if not word.isdigit() and word not in _EMPTY)
    return frozenset(str(int(word)) for word in words if word.isdigit()), plain, "".join(sorted(plain))


Words = tuple[frozenset[str], frozenset[str], str]


def likeness(mine: Words, theirs: Words) -> float:
    """0 to 1: by the words of ours that the name has too, and by like letters; 0 if the name lacks a number of ours."""
    if not theirs[0] <= mine[0]:
        return 0.0
    common = len(mine[1] & theirs[1]) / max(len(theirs[1]), 1)
    letters = SequenceMatcher(None, mine[2], theirs[2], autojunk=False).ratio()
    return round(0.7 * common + 0.3 * letters, 3)


def profile_to_dict(found: Alignment) -> dict[str, Any]:
    """Plain JSON."""
    return {
        "trace": found.trace,
        "source": found.source,
        "operations": [
            {
                "operation": pair.operation.name,
                "class": pair.kind,
                "names": list(pair.names),
                "measured_us": float(pair.measured_us),
                "simulated_us": float(pair.simulated_us),
                "error": None if pair.error is None else float(pair.error),
            }
            for pair in found.pairs
        ],
        "classes": [
            {
                "class": one.kind,
                "operations": one.pairs,
                "measured_us": float(one.measured_us),
                "simulated_us": float(one.simulated_us),
                "error": float(one.error),
                "mean_absolute_error": float(one.mean),
            }
            for one in found.classes()
        ],
        "proposals": [{"name": one.name, "operation": one.operation, "likeness": one.likeness} for one in found.proposals],
        "unknown": sorted({row.name for row in found.unknown}),
        "missing": [one.name for one in found.missing],
    }
