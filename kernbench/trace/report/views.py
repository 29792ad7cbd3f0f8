"""The numbers of the views: selected spans, their totals, totals by phase or layer, and the roofline.

The functions have no side effects: they take a `Timeline` and return numbers. The script of the report's page computes the same
numbers from the same tables, and its tests compare the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernbench.trace.columns import NULL, Column, Ints, Table
from kernbench.trace.schema import STALL_REASONS
from kernbench.trace.timeline import JOBS, KINDS, Timeline, Unit

Mask = NDArray[np.bool_]

#: The axes by which spans can be grouped, each with the column of the command that has the value. The values of `component` and
#: `unit` are in the span itself.
COMMAND_AXES: dict[str, str] = {
    "phase": "phase", "layer": "layer_id", "tenant": "tenant_id", "opcode": "cmd_type", "model": "model_name",
    "block": "block_id", "head": "head_id", "token": "token_idx", "precision": "precision", "core": "core_id",
    "npu": "npu_id", "thread": "thread_id", "cmd": "cmd_id",
}  # fmt: skip
AXES: tuple[str, ...] = ("component", "unit", *COMMAND_AXES, "job")
COLOURS: tuple[str, ...] = ("phase", "layer", "tenant", "opcode")  #: axes by which the Gantt chart can be coloured
_RATE = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?(/[0-9]{1,18})?")
NONE = "none"  #: label of spans without a value on an axis
#: components of spans, by kind; the SRAM has events but no spans
COMPONENTS: tuple[str, ...] = ("DMA", "TE", "VE", "CPU", "DRAM", "NOC", "SRAM")


@dataclass(frozen=True)
class Axis:
    """The values of all spans on one axis: indices into the labels."""

    codes: Ints
    labels: list[str]


def axis(timeline: Timeline, name: str) -> Axis:
    """The axis with this name, one of `AXES`. Labels that are numbers are in ascending order, and texts in the order of the
    commands; `NONE` is last."""
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
    """Whether each span is in `[from, to)` and has one of the wanted labels on each axis that is named."""
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
    """Sums over some spans. Cycles are added up, so two jobs that run at the same time count twice."""

    spans: int
    jobs: int
    first: int | None  #: [cycle] the earliest start
    last: int | None  #: [cycle] the latest end
    cycles: dict[str, int]  #: of jobs, by component: DMA, TE, VE
    bytes: int  #: [B] of DMA jobs, aligned
    dram_bytes: int  #: [B] of these, to or from DRAM
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
    """The amounts that each span adds to the totals."""

    cycles: Ints
    bytes: Ints
    dram_bytes: Ints
    macs: Ints
    ops: Ints
    queued: Ints
    waits: list[Ints]  #: by reason


def amounts(timeline: Timeline) -> Amounts:
    """The amounts of each span; 0 for kinds of spans that do not have the amount."""
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
    """Sums over the spans of a mask, or over all spans. `given`: the amounts, if the caller has them already."""
    one = np.zeros(len(timeline.spans), np.int64)
    keep = np.ones(len(one), bool) if mask is None else mask
    return _summed(timeline, np.where(keep, one, 1), 2, given or amounts(timeline))[0]


def grouped(timeline: Timeline, by: str = "phase", mask: Mask | None = None) -> dict[str, Totals]:
    """Totals by the labels of an axis, in the axis's order; labels without spans are left out."""
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
    """[cycle] The length of the union of the spans of each code; spans with a code below 0 are not counted."""
    rows = np.flatnonzero(codes >= 0)
    rows = rows[np.lexsort((start[rows], codes[rows]))]
    total = np.zeros(size, np.int64)
    if not len(rows):
        return total
    first = int(start[rows].min())
    apart = int(end[rows].max()) - first + 1  # the times of the codes are shifted so that they do not overlap
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
    """The peak rates of the machine, and the rates of phases or layers of the run."""

    macs_per_cycle: float | None  #: of all tensor engines at width factor 1; None if the trace does not state the rate
    peak: float | None  #: the same for the fastest number width of the run
    bytes_per_cycle: float | None  #: of all DRAM channels
    points: list[Point]
    left_out: list[str]  #: labels without MACs or without DRAM bytes, which have no intensity

    @property
    def ridge(self) -> float | None:
        """[MAC/B] The intensity from which on the tensor engines are the limit."""
        return None if self.peak is None or not self.bytes_per_cycle else self.peak / self.bytes_per_cycle


def roofline(timeline: Timeline, by: str = "phase", mask: Mask | None = None) -> Roofline:
    """The roofline of the whole run, and of its parts by the labels of an axis."""
    groups = grouped(timeline, by, mask)
    everything = {"all": totals(timeline, mask), **groups}
    able = {label: one for label, one in everything.items() if one.macs and one.dram_bytes and one.active}
    points = [Point(label, one.macs, one.dram_bytes, one.active) for label, one in able.items()]
    macs, dram = _capacity(timeline.units, "TE", "macs_per_cycle"), _capacity(timeline.units, "DRAM", "capacity")
    peak = None if macs is None else float(macs * _factor(timeline))
    left_out = [label for label in groups if label not in able]
    return Roofline(None if macs is None else float(macs), peak, None if dram is None else float(dram), points, left_out)


def exact(value: Any) -> Fraction | None:
    """A positive rate of TRACE_META, which is an integer, a decimal or `p/q`; None for anything else."""
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
    """The smallest product of the machine's width factors that is not below the rate of the fastest body; bodies are rounded up
    to whole cycles, so their rates are never too high."""
    table = timeline.details["TE"]
    section = timeline.meta.get("sim_config", {}).get("te", {})
    rates = {exact(unit.facts.get("macs_per_cycle")) for unit in timeline.units if unit.component == "TE"} - {None}
    if not len(table) or not rates or not isinstance(section, Mapping) or section.get("timing", "macs") != "macs":
        return Fraction(1)
    macs, body = table.filled("mac_count"), table.filled("body_cycles")
    rows = np.flatnonzero(body > 0)
    # the fastest and some more, because floats are not exact
    fastest = rows[np.argsort(-macs[rows] / body[rows], kind="stable")[:8]]
    best = max((Fraction(int(macs[i]), int(body[i])) for i in fastest), default=Fraction(0))
    reached = best / max(rate for rate in rates if rate is not None)
    factors = sorted(w * a for w in _factors(section.get("f_w")) for a in _factors(section.get("f_a")))
    return next((factor for factor in factors if factor >= reached), Fraction(1))


def _factors(table: Any) -> set[Fraction]:
    found = {exact(value) for value in table.values()} if isinstance(table, Mapping) else set()
    return {value for value in found if value is not None} | {Fraction(1)}


MAX_COMMANDS = 60  #: the most lanes of a chart with one lane a command
LANES = ("engine", "command")


@dataclass(frozen=True)
class Lane:
    """A lane of the chart, and the number of its rows."""

    label: str
    rows: int


@dataclass(frozen=True)
class Bars:
    """The chart. The arrays have one item for each bar, in the order of lane, row and start."""

    lanes: list[Lane]
    first: int  #: [cycle] the chart shows [first, last)
    last: int
    lane: Ints
    row: Ints
    start: Ints
    end: Ints
    busy: Ints  #: [cycle] of the bar that spans fill; less than its length only if the bar stands for several spans
    spans: Ints  #: number of spans that the bar stands for
    code: Ints  #: index into the labels; of the longest of its spans
    colours: Axis
    left_out: int  #: number of lanes that the chart has no room for


def gantt(timeline: Timeline, lanes: str = "engine", colour: str = "phase", cycles: tuple[int, int] | None = None,
          pixels: int = 1200, mask: Mask | None = None) -> Bars:  # fmt: skip
    """The bars of jobs and control commands on a chart of the given width in pixels."""
    first, last = (timeline.first, max(timeline.last, timeline.first + 1)) if cycles is None else cycles
    spans, colours = timeline.spans, axis(timeline, colour)
    keep = chosen(timeline, cycles) & (spans["kind"] <= KINDS.index("CONTROL"))
    rows = np.flatnonzero(keep if mask is None else keep & mask)
    places, made, left_out = _lanes(timeline, lanes, rows)
    row = spans["row"][rows] if lanes == "engine" else np.zeros(len(rows), np.int64)
    inside = places >= 0
    rows, row, places = rows[inside], row[inside], places[inside]
    start, end = np.maximum(spans["start"][rows], first), np.minimum(spans["end"][rows], last)
    return _merged(made, (first, last), (places, row, start, end), colours.codes[rows], colours, left_out, pixels)


def _lanes(timeline: Timeline, by: str, rows: Ints) -> tuple[Ints, list[Lane], int]:
    """The lane of each span (-1 if there is no room), the lanes, and the number of lanes without room."""
    spans = timeline.spans
    if by == "engine":
        depth = np.zeros(len(timeline.units), np.int64)
        np.maximum.at(depth, spans["unit"][rows], spans["row"][rows] + 1)
        wanted = [i for i, unit in enumerate(timeline.units) if unit.component in JOBS or depth[i]]
        places = np.full(len(timeline.units) + 1, -1)
        places[wanted] = np.arange(len(wanted))
        return places[spans["unit"][rows]], [Lane(timeline.units[i].name, max(1, int(depth[i]))) for i in wanted], 0
    commands = spans["command"][rows]
    used = np.unique(commands[commands >= 0])
    shown = used[:MAX_COMMANDS]
    opcode = timeline.commands.columns["cmd_type"]
    labels = [f"{int(timeline.commands['cmd_id'][i])} {opcode[int(i)] or ''}".rstrip() for i in shown]
    places = np.searchsorted(shown, commands)
    there = (commands >= 0) & (places < len(shown))
    return np.where(there, places, -1), [Lane(label, 1) for label in labels], len(used) - len(shown)


def _merged(lanes: list[Lane], seen: tuple[int, int], bars: tuple[Ints, Ints, Ints, Ints], codes: Ints, colours: Axis,
            left_out: int, pixels: int) -> Bars:  # fmt: skip
    """One bar for all spans that begin in the same pixel and are narrower than a pixel."""
    lane, row, start, end = bars
    first, last = seen
    pixel = (start - first) * pixels // (last - first)
    small = (end - start) * pixels < (last - first)
    alone = np.where(small, 0, np.arange(1, len(start) + 1))
    order = np.lexsort((start, alone, pixel, row, lane))
    keys = np.stack([lane, row, pixel, alone])[:, order]
    begins = np.flatnonzero(np.r_[True, (np.diff(keys) != 0).any(axis=0)] if len(order) else [])
    length = (end - start)[order]
    if not len(begins):
        none = np.zeros(0, np.int64)
        return Bars(lanes, first, last, none, none, none, none, none, none, none, colours, left_out)
    counts = np.diff(np.append(begins, len(order)))
    longest = _longest(length, begins, counts)
    ends = np.maximum.reduceat(end[order], begins)
    lane, row, starts = lane[order][begins], row[order][begins], np.minimum.reduceat(start[order], begins)
    busy = np.add.reduceat(length, begins)
    return Bars(lanes, first, last, lane, row, starts, ends, busy, counts, codes[order][longest], colours, left_out)


def _longest(length: Ints, begins: Ints, counts: Ints) -> Ints:
    """The index of the longest span of each group; the first of several."""
    group = np.repeat(np.arange(len(begins)), counts)
    order = np.lexsort((-length, group))
    return order[begins]


MAX_BINS = 4096  #: if there are more windows, a fixed number of windows is joined into each bin


@dataclass(frozen=True)
class Heat:
    """One heatmap: one row for each unit, one column for each bin of time."""

    name: str
    title: str
    what: str  #: what a value is a share of
    unit: str  #: of `part`
    rows: list[str]
    first: int  #: [cycle] start of the first bin
    bin_cycles: int
    last: int  #: [cycle] end of the last bin, which may be shorter
    part: Ints  #: rows x bins
    whole: NDArray[np.float64] | Ints  #: the whole of each row in one cycle, or rows x bins

    @property
    def shares(self) -> NDArray[np.float64]:
        """`part` divided by the whole; 0 if the whole is 0."""
        whole = self.whole
        if whole.ndim == 1:
            starts = self.first + self.bin_cycles * np.arange(self.part.shape[1])
            lengths = np.minimum(starts + self.bin_cycles, max(self.last, self.first + 1)) - starts
            whole = whole[:, None] * lengths[None, :]
        return np.divide(self.part, whole, out=np.zeros(self.part.shape), where=whole > 0)


def heatmaps(timeline: Timeline, most_bins: int = MAX_BINS) -> list[Heat]:
    """All heatmaps for which the trace has samples."""
    grid = _Grid(timeline, most_bins)
    made = [_engines(timeline, grid, *one) for one in (("TE", "te"), ("VE", "ve"), ("DMA", "dma"))]
    made += [
        _bandwidth(timeline, grid, "DRAM", "dram", "DRAM bandwidth"),
        _bandwidth(timeline, grid, "NOC", "noc", "NoC links"),
    ]
    return [heat for heat in (*made, *_banks(timeline, grid)) if heat is not None]


class _Grid:
    """The bins, and the bin of each sample."""

    def __init__(self, timeline: Timeline, most_bins: int) -> None:
        window = timeline.window
        self.first = timeline.first // window * window
        windows = max(1, -(-(timeline.last - self.first) // window))
        self.bin_cycles = window * -(-windows // most_bins)
        self.bins = max(1, -(-(timeline.last - self.first) // self.bin_cycles))
        # For a part of a run, only the sampled cycles of the last window count.
        sampled = max((int(table["t_cycle"].max()) + 1 for table in timeline.samples.values() if len(table)), default=0)
        self.last = max(timeline.last, min(sampled, self.first + self.bins * self.bin_cycles))

    def bins_of(self, samples: Table) -> Ints:
        """The bins of samples by the first cycle of their windows, because a sample event is in the last cycle of its
        window."""
        starts = samples["t_cycle"] + 1 - samples["window_cycles"]
        return np.asarray(np.clip((starts - self.first) // self.bin_cycles, 0, self.bins - 1), np.int64)

    def sums(self, rows: Ints, samples: Table, values: Ints, count: int) -> Ints:
        """The values added up by row and bin; a negative row means that the value belongs to another heatmap."""
        made = np.zeros((count, self.bins), np.int64)
        keep = rows >= 0
        np.add.at(made, (rows[keep], self.bins_of(samples)[keep]), values[keep])
        return made

    def heat(
        self, name: str, title: str, what: str, unit: str, rows: list[str], part: Ints, whole: NDArray[np.float64] | Ints
    ) -> Heat:
        """A heatmap with these bins."""
        return Heat(name, title, what, unit, rows, self.first, self.bin_cycles, self.last, part, whole)


def _rows(timeline: Timeline, samples: Table, component: str) -> tuple[list[Unit], Ints]:
    """The units of a component, and the row of each sample."""
    numbers = [i for i, unit in enumerate(timeline.units) if unit.component == component]
    places = np.full(len(timeline.units) + 1, -1)
    places[numbers] = np.arange(len(numbers))
    return [timeline.units[i] for i in numbers], places[samples["unit"]]


def _engines(timeline: Timeline, grid: _Grid, component: str, name: str) -> Heat | None:
    samples = timeline.samples["ENGINE_SAMPLE"]
    units, rows = _rows(timeline, samples, component)
    if not len(samples) or not units:
        return None
    busy = grid.sums(rows, samples, samples.filled("busy_cycles"), len(units))
    names = [unit.name for unit in units]
    return grid.heat(name, f"{component} utilisation", "busy, of all cycles", "cycle", names, busy, np.ones(len(units)))


def _bandwidth(timeline: Timeline, grid: _Grid, component: str, name: str, title: str) -> Heat | None:
    samples = timeline.samples["BANDWIDTH_SAMPLE"]
    units, rows = _rows(timeline, samples, component)
    if not (rows >= 0).any():
        return None
    moved = grid.sums(rows, samples, samples.filled("read_bytes") + samples.filled("write_bytes"), len(units))
    known = [exact(unit.facts.get("capacity")) for unit in units]
    # if the trace does not state the capacity of a unit, the unit's largest observed rate
    best = moved.max(axis=1) / grid.bin_cycles
    whole = np.array([best[i] if value is None else float(value) for i, value in enumerate(known)])
    what = "of capacity" if all(value is not None for value in known) else "of capacity, or of the most it moved"
    return grid.heat(name, title, what, "B", [unit.name for unit in units], moved, whole)


def _banks(timeline: Timeline, grid: _Grid) -> list[Heat]:
    samples = timeline.samples["BANK_SAMPLE"]
    counts = {name: samples.columns[name] for name in ("requests", "grants", "denials")}
    units = sorted(set(samples["unit"].tolist()))
    made = []
    for unit in units:
        rows = np.flatnonzero(samples["unit"] == unit)
        own, name = samples.take(rows), timeline.units[unit].name
        banks = int(own["requests"].max(initial=0))
        sums = {key: _by_bank(grid, own, key, banks) for key in counts}
        labels = [f"{name} bank {i}" if len(units) > 1 else f"bank {i}" for i in range(banks)]
        suffix = "" if len(units) == 1 else f" of {name}"
        ports = _ports(timeline) or max(1, -(-int(sums["grants"].max(initial=0)) // grid.bin_cycles))
        whole = np.full(banks, float(ports))
        what = f"granted requests a cycle, of {ports}"
        made.append(grid.heat(f"grants.{name}", f"Bank traffic{suffix}", what, "grant", labels, sums["grants"], whole))
        what = "denied, of all requests"
        requests = sums["requests"]
        made.append(grid.heat(f"denials.{name}", f"Bank conflicts{suffix}", what, "denial", labels, sums["denials"], requests))
    return made


def _ports(timeline: Timeline) -> int:
    """The number of read and write ports of a bank; 0 if unknown."""
    section = timeline.meta.get("sim_config", {}).get("spm", {})
    counts = [section.get(name) for name in ("ports", "read_ports", "write_ports")] if isinstance(section, dict) else []
    return sum(count for count in counts if isinstance(count, int))


def _by_bank(grid: _Grid, samples: Table, name: str, banks: int) -> Ints:
    column = samples.columns[name]
    counts = np.maximum(column.values, 0)
    items = column.items if column.items is not None else np.zeros(0, np.int64)
    bank = np.arange(len(items)) - np.repeat(np.cumsum(counts) - counts, counts)
    made = np.zeros((max(banks, int(counts.max(initial=0))), grid.bins), np.int64)
    np.add.at(made, (bank, np.repeat(grid.bins_of(samples), counts)), items)
    return made[:banks]
