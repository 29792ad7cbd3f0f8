"""Hardware counters compared with simulated counters: a table of both, and the trace with the readings inserted."""

from __future__ import annotations

import csv
import io
import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from kernbench.common.errors import ABSENT, InputError, Problem
from kernbench.common.files import read_bounded
from kernbench.common.spelling import meant
from kernbench.common.units import cycles_to_ns, parse_rational, plain_number
from kernbench.config.document import Document, read_document
from kernbench.trace.events import RECORDS, Record, encode
from kernbench.trace.files import blocks
from kernbench.trace.reader import Trace, why

MAX_NAME = 1000  #: characters of a name or pattern
MAX_BYTES = 64 * 2**20
COLUMNS = ("counter", "value", "unit", "t_cycle", "t_ns")
_NEEDED = ("counter", "value")


@dataclass(frozen=True, slots=True)
class Reading:
    """One measured value."""

    counter: str
    value: Fraction
    unit: str | None  #: the unit of the trace to which the reading belongs
    t_cycle: int | None
    t_ns: Fraction | None
    where: str  #: file and line, or item

    def cycle(self, freq_ghz: Fraction) -> int | None:
        """The cycle of the reading; None for a reading at the end of the run."""
        return int(self.t_ns * freq_ghz // 1) if self.t_ns is not None else self.t_cycle


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a hardware counter."""

    patterns: tuple[str, ...]  #: simulated counters, with `*` and `?` as in file names; their sum is the value
    scale: Fraction  #: factor that converts the measured value to the unit of the simulated ones


def read_readings(path: str | os.PathLike[str]) -> list[Reading]:
    """The readings of a file, in order; InputError if the map is not valid."""
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
        text = read_bounded(source, MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(Problem(source, f"the file cannot be read: {error.reason}")) from None
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
        raise InputError(Problem(f"{source}:{reader.line_num}", f"it is not CSV: {error}")) from None


def _check_columns(where: str, heads: list[str]) -> None:
    allowed = f"columns are {', '.join(COLUMNS)}; the first two are needed"
    for head in heads:
        if head not in COLUMNS or heads.count(head) > 1:
            raise InputError(Problem(where, f"{allowed}, each once", "column", head))
    for need in _NEEDED:
        if need not in heads:
            raise InputError(Problem(where, f"there is no column {need}; {allowed}"))


def _document_rows(source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    document = read_document(source, MAX_BYTES)
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
    document = read_document(path, MAX_BYTES)
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
    if len(longest) > MAX_NAME:
        raise InputError(document.problem(path, f"a name or pattern must have at most {MAX_NAME} characters", longest))
    scale = given.get("scale", 1)
    try:
        exact = parse_rational(scale)
    except ValueError as error:
        raise InputError(document.problem((*path, "scale"), str(error), scale)) from None
    if exact <= 0:
        raise InputError(document.problem((*path, "scale"), "it must be above 0", scale if scale is not None else ABSENT))
    return Meaning(tuple(names), exact)


Number = int | float
#: By type of sample: pairs of a field and the counter to which the field is added. Fields of channels are joined: bytes are
#: read and written.
_SAMPLED: dict[str, tuple[tuple[str, str], ...]] = {
    "BANDWIDTH_SAMPLE": (
        ("read_bytes", "bytes"), ("write_bytes", "bytes"), ("busy_cycles", "busy"), ("member_cycles", "member_cycles"),
    ),
    "ENGINE_SAMPLE": (
        ("busy_cycles", "busy"), ("backpressure_cycles", "stalled.backpressure"),
        ("bank_conflict_cycles", "stalled.bank_conflict"),
    ),
    "BANK_SAMPLE": (("requests", "requests"), ("grants", "grants"), ("denials", "denials")),
    "ENERGY_SAMPLE": tuple((f"{part}_pj", f"energy_pj.{part}") for part in ("dram", "noc", "spm", "mac", "ve", "static")),
}  # fmt: skip
_READ = {name: ("t_cycle", *(() if name == "ENERGY_SAMPLE" else ("unit",)), *dict(fields)) for name, fields in _SAMPLED.items()}


class Simulated:
    """The counters of a run."""

    def __init__(self, trace: Trace) -> None:
        series: dict[str, dict[int, Number]] = {}
        for records in trace.batches(only=_READ):
            for record in records:
                for name, value in _sampled(record):
                    steps = series.setdefault(name, {})
                    steps[record.t_cycle + 1] = steps.get(record.t_cycle + 1, 0) + value
        if trace.broken is not None or trace.end is None:
            remedy = "only a whole run has counters"
            raise InputError(Problem(trace.path, f"the trace breaks off: {trace.broken}", remedy=remedy))
        self.end: Record = trace.end
        self.totals: dict[str, Number] = dict(_totals(trace.end, trace.freq_ghz))
        #: By counter: the ends of the windows in which it changed, its first value, and its value after each of these windows.
        self.steps: dict[str, tuple[list[int], list[Number]]] = {}
        for name, steps in ((name, steps) for name, steps in series.items() if name in self.totals):
            ends = sorted(steps)
            self.steps[name] = ends, [0, *accumulate(steps[end] for end in ends)]
        self._window = max(trace.meta.window_cycles, 1)
        if "cycles" in (trace.meta.filter or {}):  # samples of a part of the cycles do not give the value of a counter
            self.steps.clear()

    def at(self, name: str, cycle: int) -> tuple[Number, int] | None:
        """The value of the counter at the end of the last window that ends at or before `cycle`, and the cycle of this end;
        None if the counter is not sampled.

        At and after the end of the run, the value is the total. A counter whose total is 0 is always 0.
        """
        if cycle >= self.end.t_cycle:
            return (self.totals[name], self.end.t_cycle) if name in self.totals else None
        if name == "cycles":
            return cycle, cycle
        window = cycle // self._window * self._window
        if name in self.steps:
            ends, sums = self.steps[name]
            return sums[bisect_right(ends, window)], window
        return (0, window) if self.totals.get(name) == 0 else None


def _sampled(record: Record) -> Iterator[tuple[str, Number]]:
    fields = _SAMPLED.get(record.event.name)
    for field, counter in fields or ():
        name = counter if record.event.name == "ENERGY_SAMPLE" else f"{record.unit}.{counter}"
        value = getattr(record, field)
        if isinstance(value, list):
            yield name, sum(value)
            yield from ((f"{name}[{i}]", item) for i, item in enumerate(value))
        else:
            yield name, value


def _totals(end: Record, freq_ghz: Fraction) -> Iterator[tuple[str, Number]]:
    """Every number of TRACE_END by its path; lists are also included as their sums."""
    yield "cycles", end.cycles
    ns = plain_number(cycles_to_ns(end.cycles, freq_ghz))
    yield "t_ns", ns if not isinstance(ns, str) else float(cycles_to_ns(end.cycles, freq_ghz))
    yield from _numbers("", end.counters)
    yield from _numbers("energy_pj", end.energy_pj or {})


def _numbers(path: str, value: Any) -> Iterator[tuple[str, Number]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _numbers(f"{path}.{name}" if path else str(name), inner)
    elif isinstance(value, list) and all(isinstance(item, (int, float)) for item in value):
        yield path, sum(value)
        yield from ((f"{path}[{i}]", item) for i, item in enumerate(value))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


@dataclass(frozen=True, slots=True)
class Line:
    """A reading of a counter, and the simulated value."""

    reading: Reading
    cycle: int | None  #: cycle of the reading; None at the end of the run
    measured: Fraction  #: the measured value in the unit of the simulated counters
    counters: tuple[str, ...]  #: the simulated counters, whose sum is compared
    simulated: Fraction | None  #: None if there is no such counter, or if it has no value at that time
    as_of: int | None  #: [cycle] the simulated value counts up to this cycle

    @property
    def ratio(self) -> Fraction | None:
        """Simulated value over measured value; 1 if they are equal."""
        return self.simulated / self.measured if self.simulated is not None and self.measured else None


@dataclass(frozen=True)
class Aligned:
    """All readings of a comparison."""

    trace: str
    source: str
    lines: list[Line]
    end: int  #: [cycle] of the run
    late: int  #: number of readings after the end of the run, which are placed at the end


def align(trace: Trace, source: str, readings: Sequence[Reading], meanings: Mapping[str, Meaning] | None = None) -> Aligned:
    """Find the simulated counter of each reading.

    A name is looked up in `meanings`, then among simulated counters, then among those of its unit: `busy` of `te0` is
    `te0.busy`. InputError for a broken trace, a unit that is not in the trace, and a meaning that matches no counter.
    """
    simulated = Simulated(trace)
    freq = trace.freq_ghz
    known = _meant(meanings or {}, simulated)
    _check_units(trace, readings)
    lines = [_line(reading, freq, simulated, known, meanings or {}) for reading in readings]
    end = simulated.end.t_cycle
    return Aligned(trace.path, source, lines, end, sum(line.cycle is not None and line.cycle > end for line in lines))


def _meant(meanings: Mapping[str, Meaning], simulated: Simulated) -> dict[str, tuple[str, ...]]:
    """The counters that each meaning names."""
    found: dict[str, tuple[str, ...]] = {}
    problems = []
    for name, meaning in meanings.items():
        hits: dict[str, None] = {}
        for pattern in meaning.patterns:
            fits = [pattern] if pattern in simulated.totals else [one for one in simulated.totals if fnmatchcase(one, pattern)]
            if not fits:
                rule = "no simulated counter has that name"
                problems.append(Problem(f"mapping of {name}", rule, "simulated", pattern, meant(pattern, simulated.totals)))
            hits.update(dict.fromkeys(fits))
        found[name] = tuple(hits)
    if problems:
        raise InputError(problems)
    return found


def _check_units(trace: Trace, readings: Sequence[Reading]) -> None:
    units = [str(unit.get("unit")) for unit in trace.meta.units]
    wrong = [
        Problem(one.where, f"the trace has no such unit; its units are {_some(units)}", "unit", one.unit)
        for one in readings
        if one.unit is not None and one.unit not in units
    ]
    if wrong:
        raise InputError(wrong)


def _some(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


Known = Mapping[str, tuple[str, ...]]
Meanings = Mapping[str, Meaning]


def _line(reading: Reading, freq: Fraction, simulated: Simulated, known: Known, meanings: Meanings) -> Line:
    cycle = reading.cycle(freq)
    measured, counters = reading.value, known.get(reading.counter, ())
    if counters:
        measured *= meanings[reading.counter].scale
    else:
        names = [reading.counter, *([f"{reading.unit}.{reading.counter}"] if reading.unit is not None else [])]
        counters = tuple(name for name in names if name in simulated.totals)[:1]
    values = [simulated.at(name, simulated.end.t_cycle if cycle is None else cycle) for name in counters]
    if not values or any(value is None for value in values):
        return Line(reading, cycle, measured, counters, None, None)
    total = sum((parse_rational(value[0]) for value in values if value is not None), Fraction(0))
    return Line(reading, cycle, measured, counters, total, min(value[1] for value in values if value is not None))


def to_dict(aligned: Aligned) -> dict[str, Any]:
    """The table with exact values; only the ratios are rounded."""
    head = {"trace": aligned.trace, "source": aligned.source, "late": aligned.late}
    return {**head, "counters": [_plain(line) for line in aligned.lines]}


def _plain(line: Line) -> dict[str, Any]:
    number = {"measured": line.measured, "simulated": line.simulated}
    return {
        "counter": line.reading.counter,
        "unit": line.reading.unit,
        "cycle": line.cycle,
        **{name: None if value is None else plain_number(value) for name, value in number.items()},
        "ratio": None if line.ratio is None else float(line.ratio),
        "as_of": line.as_of,
        "simulated_counters": list(line.counters),
    }


_T = TypeVar("_T")


# The merged trace -------------------------------------------------------------------------------------------------


class _LineHead(msgspec.Struct):
    event_type: str
    t_cycle: int


def merge(aligned: Aligned, out: BinaryIO) -> None:
    """Write the trace with a HW_COUNTER for every reading, after all other events of its cycle; other lines are unchanged."""
    order = sorted(range(len(aligned.lines)), key=lambda i: _cycle(aligned, i))
    times = [_cycle(aligned, i) for i in order]
    done = 0
    for number, (line, place) in enumerate(_lines(aligned.trace), 1):
        last = place.event_type == "TRACE_END"
        before = len(order) if last else bisect_right(times, place.t_cycle - 1)
        while done < before:
            out.write(_reading_line(aligned, order[done], times[done]))
            done += 1
        if last:
            end: Any = _decoded(msgspec.json.Decoder(RECORDS["TRACE_END"]), line, aligned.trace, number)
            line = encode(msgspec.structs.replace(end, events=end.events + len(order))) + b"\n"
        out.write(line)


def _lines(path: str) -> Iterator[tuple[bytes, _LineHead]]:
    decoder, number = msgspec.json.Decoder(_LineHead), 0
    for block in blocks(path):
        for line in block.splitlines(keepends=True):
            number += 1
            yield line, _decoded(decoder, line, path, number)


def _decoded(decoder: msgspec.json.Decoder[_T], line: bytes, path: str, number: int) -> _T:
    """An event of a line. InputError for a line without type and time, or that is not JSON; other views skip such lines."""
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        remedy = "to list all such lines, use kbsim trace validate"
        raise InputError(Problem(f"{path}:{number}", f"it is not an event: {why(error)}", remedy=remedy)) from None


def _cycle(aligned: Aligned, index: int) -> int:
    cycle = aligned.lines[index].cycle
    return aligned.end if cycle is None else min(cycle, aligned.end)


def _reading_line(aligned: Aligned, index: int, cycle: int) -> bytes:
    reading = aligned.lines[index].reading
    number = plain_number(reading.value)
    value = float(reading.value) if isinstance(number, str) else number
    fields = {"counter": reading.counter, "value": value, "unit": reading.unit, "source": aligned.source}
    return encode(RECORDS["HW_COUNTER"](t_cycle=cycle, **fields)) + b"\n"
