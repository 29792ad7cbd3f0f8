"""Hardware counters beside simulated ones: a table of both, and the trace with the readings in their places."""

from __future__ import annotations

import difflib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any, BinaryIO, TypeVar

import msgspec

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import parse_rational, plain_number
from kernbench.trace.compare.readings import Meaning, Reading
from kernbench.trace.compare.simulated import Simulated
from kernbench.trace.events import RECORDS, encode
from kernbench.trace.files import blocks
from kernbench.trace.reader import Trace, why


@dataclass(frozen=True, slots=True)
class Line:
    """A reading and what the simulation says of it."""

    reading: Reading
    cycle: int | None  #: when it was read; None at the end of the run
    measured: Fraction  #: the value, scaled
    counters: tuple[str, ...]  #: the simulated counters, whose sum is meant
    simulated: Fraction | None  #: None where there is none, or none at that time
    as_of: int | None  #: [cycle] up to which it is counted

    @property
    def ratio(self) -> Fraction | None:
        """Simulated over measured: 1 where they agree."""
        return self.simulated / self.measured if self.simulated is not None and self.measured else None


@dataclass(frozen=True)
class Aligned:
    """All readings."""

    trace: str
    source: str
    lines: list[Line]
    end: int  #: [cycle] of the run
    late: int  #: readings from after that; they stand at it


def align(trace: Trace, source: str, readings: Sequence[Reading], meanings: Mapping[str, Meaning] | None = None) -> Aligned:
    """Find the simulated counter of each reading.

    A name means what `meanings` says, else the simulated counter of that name, else that of its unit: `busy` of `te0` is
    `te0.busy`. InputError for a broken trace, a unit that it has not, and a meaning that fits no counter.
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
                near = difflib.get_close_matches(pattern, simulated.totals, n=1)
                remedy = f"did you mean {near[0]}?" if near else ""
                rule = "no simulated counter has that name"
                problems.append(Problem(f"mapping of {name}", rule, "simulated", pattern, remedy))
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
    """The table, exactly but for the ratios."""
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


class _Place(msgspec.Struct):
    event_type: str
    t_cycle: int


def merge(aligned: Aligned, out: BinaryIO) -> None:
    """Write the trace with a HW_COUNTER for every reading, behind all else of its cycle; other lines stay as they are."""
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


def _lines(path: str) -> Iterator[tuple[bytes, _Place]]:
    decoder, number = msgspec.json.Decoder(_Place), 0
    for block in blocks(path):
        for line in block.splitlines(keepends=True):
            number += 1
            yield line, _decoded(decoder, line, path, number)


def _decoded(decoder: msgspec.json.Decoder[_T], line: bytes, path: str, number: int) -> _T:
    """An event of a line. InputError where it has no type and time, or is no JSON: views before this pass such lines by."""
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        remedy = "kbsim trace validate lists all such lines"
        raise InputError(Problem(f"{path}:{number}", f"it is no event: {why(error)}", remedy=remedy)) from None


def _cycle(aligned: Aligned, index: int) -> int:
    cycle = aligned.lines[index].cycle
    return aligned.end if cycle is None else min(cycle, aligned.end)


def _reading_line(aligned: Aligned, index: int, cycle: int) -> bytes:
    reading = aligned.lines[index].reading
    number = plain_number(reading.value)
    value = float(reading.value) if isinstance(number, str) else number
    fields = {"counter": reading.counter, "value": value, "unit": reading.unit, "source": aligned.source}
    return encode(RECORDS["HW_COUNTER"](t_cycle=cycle, **fields)) + b"\n"
