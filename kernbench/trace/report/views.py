"""What the views show, as numbers: which spans are meant, their totals, totals by phase or layer, and the roofline.

Pure: a `Timeline` in, numbers out. The report's page computes the same from the same tables; its tests compare the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernbench.trace.schema import STALL_REASONS
from kernbench.trace.store.columns import NULL, Column, Ints
from kernbench.trace.timeline import JOBS, KINDS, Timeline, Unit

Mask = NDArray[np.bool_]

#: What spans can be told apart by: axis: the column of the command that says it. `component` and `unit` are the span's own.
COMMAND_AXES: dict[str, str] = {
    "phase": "phase", "layer": "layer_id", "tenant": "tenant_id", "opcode": "cmd_type", "model": "model_name",
    "block": "block_id", "head": "head_id", "token": "token_idx", "precision": "precision", "core": "core_id",
    "npu": "npu_id", "thread": "thread_id", "cmd": "cmd_id",
}  # fmt: skip
AXES: tuple[str, ...] = ("component", "unit", *COMMAND_AXES, "job")
COLOURS: tuple[str, ...] = ("phase", "layer", "tenant", "opcode")  #: axes that the Gantt chart is coloured by
_RATE = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?(/[0-9]{1,18})?")
NONE = "none"  #: label of what has no value on an axis
COMPONENTS: tuple[str, ...] = ("DMA", "TE", "VE", "CPU", "DRAM", "NOC", "SRAM")  #: of spans, by kind; SRAM has events alone


@dataclass(frozen=True)
class Axis:
    """The values of all spans on one axis: indices into the labels."""

    codes: Ints
    labels: list[str]


def axis(timeline: Timeline, name: str) -> Axis:
    """One of `AXES`. Labels stand in the order of their numbers or, of texts, of the commands; `NONE` last."""
    spans = timeline.spans
    if name == "component":
        return Axis(spans["kind"], list(COMPONENTS))
    if name == "unit":
        return Axis(spans["unit"], [unit.name for unit in timeline.units])
    if name == "job":
        return _labelled(Column(spans["job"]), np.arange(len(spans)))
    column = timeline.commands.columns.get(COMMAND_AXES[name], Column(np.full(len(timeline.commands), NULL)))
    return _labelled(column, spans["command"])


def _labelled(column: Column, rows: Ints) -> Axis:
    used, first, codes = np.unique(column.values, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable") if column.texts is not None else np.arange(len(used))
    order = order[np.argsort(used[order] == NULL, kind="stable")]
    places = np.empty(len(used), np.int64)
    places[order] = np.arange(len(used))
    texts = column.texts
    labels = [NONE if value == NULL else str(value) if texts is None else texts[value] for value in used[order].tolist()]
    if NONE not in labels:
        labels.append(NONE)
    none = labels.index(NONE)
    if len(codes) == 0:
        return Axis(np.full(len(rows), none), labels)
    return Axis(np.where(rows < 0, none, places[codes][np.maximum(rows, 0)]), labels)


def chosen(timeline: Timeline, cycles: tuple[int, int] | None = None, **wanted: Sequence[str]) -> Mask:
    """Which spans are in `[from, to)` and have one of the wanted labels on each axis that is named."""
    spans = timeline.spans
    mask = np.ones(len(spans), bool)
    if cycles is not None:
        first, last = cycles
        mask &= (spans["start"] < last) & ((spans["end"] > first) | (spans["start"] >= first))
    for name, labels in wanted.items():
        found = axis(timeline, name)
        mask &= np.isin(found.codes, [i for i, label in enumerate(found.labels) if label in labels])
    return mask


@dataclass(frozen=True)
class Totals:
    """Sums over some spans. Cycles are added up: two jobs that run side by side count twice."""

    spans: int
    jobs: int
    first: int | None  #: [cycle] the earliest start
    last: int | None  #: [cycle] the latest end
    cycles: dict[str, int]  #: of jobs, by component: DMA, TE, VE
    bytes: int  #: of DMA jobs, aligned
    dram_bytes: int  #: of those, to or from DRAM
    macs: int
    ops: int
    queued: int  #: [cycle] from issue to start
    waits: dict[str, int]  #: [cycle] of the jobs' stalls, by reason
    active: int  #: [cycle] in which at least one of the jobs ran

    @property
    def elapsed(self) -> int:
        """[cycle] from the earliest start to the latest end."""
        return 0 if self.first is None or self.last is None else self.last - self.first


@dataclass(frozen=True)
class Amounts:
    """What each span adds to the totals."""

    cycles: Ints
    bytes: Ints
    dram_bytes: Ints
    macs: Ints
    ops: Ints
    queued: Ints
    waits: list[Ints]  #: by reason


def amounts(timeline: Timeline) -> Amounts:
    """Per span; 0 where a kind of span has none of it."""
    spans = timeline.spans
    of_dram = Column(spans["detail"])
    size, direction = _detail(timeline, "DMA", "size_bytes"), timeline.details["DMA"].columns.get("direction")
    ways = () if direction is None else direction.texts or ()
    inside = ways.index("SRAM_TO_SRAM") if "SRAM_TO_SRAM" in ways else -1
    is_job = np.isin(spans["kind"], [KINDS.index(kind) for kind in JOBS])
    outside = np.ones(len(spans), bool)
    if direction is not None:
        rows = np.flatnonzero(spans["kind"] == KINDS.index("DMA"))
        outside[rows] = direction.values[of_dram.values[rows]] != inside
    issue = spans["issue"]
    queued = np.where(is_job & (issue != NULL), spans["start"] - issue, 0)
    return Amounts(
        np.where(is_job, spans["end"] - spans["start"], 0), size, np.where(outside, size, 0),
        _detail(timeline, "TE", "mac_count"), _detail(timeline, "VE", "op_count"), queued, _waits(timeline),
    )  # fmt: skip


def _detail(timeline: Timeline, kind: str, name: str) -> Ints:
    made = np.zeros(len(timeline.spans), np.int64)
    rows = np.flatnonzero(timeline.spans["kind"] == KINDS.index(kind))
    if len(rows):
        made[rows] = timeline.details[kind].filled(name)[timeline.spans["detail"][rows]]
    return made


def _waits(timeline: Timeline) -> list[Ints]:
    waits = timeline.waits
    made = []
    for reason in range(len(STALL_REASONS)):
        total = np.zeros(len(timeline.spans), np.int64)
        rows = np.flatnonzero((waits["reason"] == reason) & (waits["span"] != NULL))
        np.add.at(total, waits["span"][rows], (waits["end"] - waits["start"])[rows])
        made.append(total)
    return made


def totals(timeline: Timeline, mask: Mask | None = None, given: Amounts | None = None) -> Totals:
    """Sums over the spans of a mask, or over all. `given`: the amounts, where they are known already."""
    one = np.zeros(len(timeline.spans), np.int64)
    keep = np.ones(len(one), bool) if mask is None else mask
    return _summed(timeline, np.where(keep, one, 1), 2, given or amounts(timeline))[0]


def grouped(timeline: Timeline, by: str = "phase", mask: Mask | None = None) -> dict[str, Totals]:
    """Totals by the labels of an axis, in the axis's order; labels without a span are left out."""
    found = axis(timeline, by)
    keep = np.ones(len(found.codes), bool) if mask is None else mask
    codes = np.where(keep, found.codes, len(found.labels))
    sums = _summed(timeline, codes, len(found.labels) + 1, amounts(timeline))
    return {label: total for label, total in zip(found.labels, sums, strict=False) if total.spans}


def _summed(timeline: Timeline, codes: Ints, size: int, one: Amounts) -> list[Totals]:
    spans = timeline.spans
    kind = spans["kind"]
    first, last = np.full(size, 2**62), np.full(size, NULL)
    np.minimum.at(first, codes, spans["start"])
    np.maximum.at(last, codes, spans["end"])

    def add(values: Ints) -> Ints:
        total = np.zeros(size, np.int64)
        np.add.at(total, codes, values)
        return total

    cycles = {name: add(np.where(kind == KINDS.index(name), one.cycles, 0)) for name in JOBS}
    columns = [
        add(values) for values in (np.ones(len(codes), np.int64), (kind <= 2).astype(np.int64), one.bytes, one.dram_bytes)
    ]
    columns += [add(values) for values in (one.macs, one.ops, one.queued)]
    waits = [add(values) for values in one.waits]
    active = _active(np.where(kind <= KINDS.index("VE"), codes, -1), spans["start"], spans["end"], size)
    made = []
    for i in range(size):
        count, jobs, moved, dram, macs, ops, queued = (int(column[i]) for column in columns)
        reasons = {name: int(column[i]) for name, column in zip(STALL_REASONS, waits, strict=True)}
        parts = {name: int(column[i]) for name, column in cycles.items()}
        begin, end = (int(first[i]), int(last[i])) if count else (None, None)
        made.append(Totals(count, jobs, begin, end, parts, moved, dram, macs, ops, queued, reasons, int(active[i])))
    return made


def _active(codes: Ints, start: Ints, end: Ints, size: int) -> Ints:
    """Cycles that the spans of each code cover together; those of a code below 0 count nowhere."""
    rows = np.flatnonzero(codes >= 0)
    rows = rows[np.lexsort((start[rows], codes[rows]))]
    total = np.zeros(size, np.int64)
    if not len(rows):
        return total
    first = int(start[rows].min())
    apart = int(end[rows].max()) - first + 1  # the codes' times are put one behind the other
    shift = codes[rows] * apart - first
    low, high = start[rows] + shift, end[rows] + shift
    reached = np.concatenate(([0], np.maximum.accumulate(high)[:-1]))
    np.add.at(total, codes[rows], np.maximum(high - np.maximum(low, reached), 0))
    return total


@dataclass(frozen=True)
class Point:
    """One dot of the roofline."""

    label: str
    macs: int
    dram_bytes: int
    cycles: int  #: in which at least one of its jobs ran

    @property
    def intensity(self) -> float:
        """[MAC/B]"""
        return self.macs / self.dram_bytes

    @property
    def rate(self) -> float:
        """[MAC/cycle]"""
        return self.macs / self.cycles


@dataclass(frozen=True)
class Roofline:
    """What the machine can do at most, and what parts of the run did."""

    macs_per_cycle: float | None  #: all tensor engines at factor 1; None where the trace does not say
    peak: float | None  #: the same at the fastest width of numbers that the run used
    bytes_per_cycle: float | None  #: all DRAM channels
    points: list[Point]
    left_out: list[str]  #: labels without MACs or without bytes of DRAM: they have no intensity

    @property
    def ridge(self) -> float | None:
        """[MAC/B] from here on the tensor engines are the bound."""
        return None if self.peak is None or not self.bytes_per_cycle else self.peak / self.bytes_per_cycle


def roofline(timeline: Timeline, by: str = "phase", mask: Mask | None = None) -> Roofline:
    """The whole run and its parts by an axis."""
    groups = grouped(timeline, by, mask)
    everything = {"all": totals(timeline, mask), **groups}
    able = {label: one for label, one in everything.items() if one.macs and one.dram_bytes and one.active}
    points = [Point(label, one.macs, one.dram_bytes, one.active) for label, one in able.items()]
    macs, dram = _capacity(timeline.units, "TE", "macs_per_cycle"), _capacity(timeline.units, "DRAM", "capacity")
    peak = None if macs is None else float(macs * _factor(timeline))
    left_out = [label for label in groups if label not in able]
    return Roofline(None if macs is None else float(macs), peak, None if dram is None else float(dram), points, left_out)


def exact(value: Any) -> Fraction | None:
    """A rate of TRACE_META above 0: an integer, a decimal, `p/q`; None where it is none of these."""
    text = str(value).strip()
    if not _RATE.fullmatch(text):
        return None
    top, _, bottom = text.partition("/")
    if Fraction(top) == 0 or (bottom and int(bottom) == 0):
        return None
    return Fraction(top) / int(bottom or 1)


def _capacity(units: Sequence[Unit], component: str, fact: str) -> Fraction | None:
    found = [exact(unit.facts.get(fact)) for unit in units if unit.component == component]
    known = [value for value in found if value is not None]
    return sum(known, Fraction(0)) if known else None


def _factor(timeline: Timeline) -> Fraction:
    """The smallest product of the machine's width factors that the fastest body of a job reaches: ceilings keep it below."""
    table = timeline.details["TE"]
    section = timeline.meta.get("sim_config", {}).get("te", {})
    rates = {exact(unit.facts.get("macs_per_cycle")) for unit in timeline.units if unit.component == "TE"} - {None}
    if not len(table) or not rates or not isinstance(section, Mapping) or section.get("timing") == "systolic":
        return Fraction(1)
    macs, body = table.filled("mac_count"), table.filled("body_cycles")
    rows = np.flatnonzero(body > 0)
    fastest = rows[np.argsort(-macs[rows] / body[rows], kind="stable")[:8]]  # some, as floats are not exact
    best = max((Fraction(int(macs[i]), int(body[i])) for i in fastest), default=Fraction(0))
    reached = best / max(rate for rate in rates if rate is not None)
    factors = sorted(w * a for w in _factors(section.get("f_w")) for a in _factors(section.get("f_a")))
    return next((factor for factor in factors if factor >= reached), Fraction(1))


def _factors(table: Any) -> set[Fraction]:
    found = {exact(value) for value in table.values()} if isinstance(table, Mapping) else set()
    return {value for value in found if value is not None} | {Fraction(1)}
