"""A run at a glance: what `kbsim run` and a notebook show, as plain data computed from a result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import Any

from kernbench.cmdq import Program
from kernbench.cmdq.plan import Plan
from kernbench.common import naming
from kernbench.common.json_shapes import counted
from kernbench.common.look.css import hatch
from kernbench.common.look.palette import colour, resource_of
from kernbench.common.look.plots import waiting
from kernbench.common.units import ceil_div
from kernbench.sim_engine.result import Result
from kernbench.sim_engine.run.waits import Wait, longest_waits, waits_of

ENGINE_KINDS = {"dma": "bytes", "te": "macs", "ve": "ops", "cpu": "launches"}  #: kind of engine: the counter of its work
LONGEST = 5  # waits that a summary names


@dataclass(frozen=True, slots=True)
class BoundShare:
    """The largest lower bound compared with the run."""

    name: str  #: `critical path`, or the resource or engine that it is of
    cycles: int
    achieved: int  #: cycles that the run took
    others: tuple[tuple[str, int], ...]  #: largest bound of each other kind, in falling order

    @property
    def kind(self) -> str:
        """How the bound is called: `DRAM`, `link`, `critical path`, or the engine's name."""
        return {"dram": "DRAM", "noc": "link"}.get(naming.counted(self.name), self.name)

    @property
    def share(self) -> float:
        """Bound / achieved: 1 where nothing could have been faster."""
        return self.cycles / self.achieved if self.achieved else 1.0


@dataclass(frozen=True, slots=True)
class EngineUse:
    """The cycles of one engine by state: busy + bank_conflict + backpressure + idle = cycles of the run."""

    name: str
    kind: str  #: dma, te, ve, cpu
    busy: int
    bank_conflict: int
    backpressure: int  #: DMA engines only, else 0
    idle: int
    queue_full: int  #: [job-cycle] DMA engines only
    priority_deferred: int  #: [job-cycle] DMA engines only
    jobs: int  #: completed
    work: int  #: bytes moved, MACs or ops

    @property
    def cycles(self) -> int:
        """Cycles of the run."""
        return self.busy + self.bank_conflict + self.backpressure + self.idle

    @property
    def utilisation(self) -> float:
        """Busy cycles / cycles."""
        return self.busy / self.cycles if self.cycles else 0.0


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """The traffic of a DRAM channel or a mesh link."""

    name: str
    bytes: int
    busy: int  #: cycles with a member
    cycles: int  #: of the run
    capacity: Fraction  #: [byte/cycle] that it can carry
    freq_ghz: Fraction

    @property
    def achieved(self) -> float:
        """Bytes per cycle over the whole run."""
        return self.bytes / self.cycles if self.cycles else 0.0

    @property
    def share(self) -> float:
        """Achieved / capacity."""
        return self.achieved / float(self.capacity)

    @property
    def gb_per_s(self) -> float:
        """10^9 bytes per second: bytes per ns."""
        return self.achieved * float(self.freq_ghz)


@dataclass(frozen=True, slots=True)
class BankConflicts:
    """Askings of all banks, and the bank that denied most."""

    requests: int
    denials: int
    worst: int | None  #: the bank with most denials (the first of equals); None without any
    worst_requests: int
    worst_denials: int
    where: str = ""  #: the scratchpad that the worst bank is in; empty if there is one

    @property
    def rate(self) -> float:
        """Denials / requests."""
        return self.denials / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Everything that `kbsim run` prints of a result."""

    result: Result
    freq_ghz: Fraction
    max_cycles: int
    bound: BoundShare
    engines: tuple[EngineUse, ...]
    channels: tuple[ResourceUse, ...]
    links: tuple[ResourceUse, ...]  #: mesh links with traffic, busiest first
    banks: BankConflicts
    waits: tuple[Wait, ...]  #: the longest
    waits_in_all: int
    entries: int
    unfinished: int  #: entries that have not ended
    not_started: int


def summarise_run(result: Result, program: Program, plan: Plan) -> RunSummary:
    """The summary of a result of `program` by its plan, also of a run that stands still or ended badly."""
    waits = waits_of(result, program, plan.units)
    resources = list(_resources(result, plan))
    return RunSummary(
        result=result,
        freq_ghz=plan.pe.freq_ghz,
        max_cycles=plan.machine["max_cycles"],
        bound=bound_share(result),
        engines=tuple(engine_uses(result)),
        channels=tuple(use for use in resources if naming.counted(use.name) == "dram"),
        links=tuple(sorted((use for use in resources if naming.counted(use.name) == "noc"), key=lambda link: -link.bytes)),
        banks=bank_conflicts(result),
        waits=tuple(longest_waits(waits, result, plan.units, LONGEST)),
        waits_in_all=len(waits),
        entries=len(result.entries),
        unfinished=sum(times.end is None for times in result.entries),
        not_started=sum(times.start is None for times in result.entries),
    )


def bound_share(result: Result) -> BoundShare:
    """The bounds in the result's metrics; of each kind only the largest is named."""
    bounds = {name: n for name, n in result.metrics["bounds"].items() if name not in ("cycles", "limit")}
    bounds["critical path"] = bounds.pop("critical_path")
    limit = result.metrics["bounds"]["limit"]
    largest: dict[str, tuple[str, int]] = {}
    for name, cycles in bounds.items():
        kind = naming.counted(name)
        if kind not in largest or cycles > largest[kind][1]:
            largest[kind] = name, cycles
    others = sorted((pair for pair in largest.values() if pair[0] != limit and pair[1]), key=lambda pair: -pair[1])
    return BoundShare(limit, bounds[limit], result.cycles, tuple(others))


def engine_uses(result: Result) -> Iterator[EngineUse]:
    """The engines of a result in the order of its counters."""
    for name, counters in result.counters.items():
        kind = naming.counted(name)
        if kind in ENGINE_KINDS:
            yield EngineUse(
                name=name,
                kind=kind,
                busy=counters["busy"],
                bank_conflict=counters["stalled"]["bank_conflict"],
                backpressure=counters["stalled"].get("backpressure", 0),
                idle=counters["idle"],
                queue_full=counters.get("queue_full", 0),
                priority_deferred=counters.get("priority_deferred", 0),
                jobs=counters["jobs"],
                work=counters[ENGINE_KINDS[kind]],
            )


def _resources(result: Result, plan: Plan) -> Iterator[ResourceUse]:
    for name, capacity in zip(plan.resources, plan.capacities, strict=True):
        if name in result.counters:
            used = result.counters[name]
            yield ResourceUse(name, used["bytes"], used["busy"], result.cycles, capacity, plan.pe.freq_ghz)


def bank_conflicts(result: Result) -> BankConflicts:
    """The scratchpads' counters, summed, and the worst bank of all."""
    pads = {name: c for name, c in result.counters.items() if naming.counted(name) == "spm"}
    requests = sum(sum(pad["requests"]) for pad in pads.values())
    denials = sum(sum(pad["denials"]) for pad in pads.values())
    banks = ((name, bank, denied) for name, pad in pads.items() for bank, denied in enumerate(pad["denials"]))
    name, bank, denied = max(banks, key=lambda item: item[2], default=("", 0, 0))
    if not denied:
        return BankConflicts(requests, 0, None, 0, 0)
    return BankConflicts(requests, denials, bank, pads[name]["requests"][bank], denied, name if len(pads) > 1 else "")


_IDS = {"dma": ("DMA engine", "dma_id"), "te": ("tensor engine", "te_id"), "ve": ("vector engine", "ve_id")}


def idle_advice(uses: Iterable[EngineUse]) -> str:
    """Advice for a program that left engines idle while others of the same PE had several jobs.

    A line about the kind with most idle engines, or an empty text.
    """
    places: dict[tuple[str, str], list[EngineUse]] = {}
    for use in uses:
        if use.kind in _IDS:
            places.setdefault((use.kind, naming.parent(use.name)), []).append(use)
    found = []
    for (kind, place), engines in places.items():
        used, jobs = sum(use.jobs > 0 for use in engines), sum(use.jobs for use in engines)
        if 0 < used < len(engines) and jobs > used:
            noun, field = _IDS[kind]
            all_ = f"{field} 0 to {len(engines) - 1}"
            at = f" of {place}" if place else ""
            line = f"{used} of {counted(len(engines), noun)}{at} had work: give the program's entries {all_} (the default is 0)"
            found.append((used - len(engines), line))
    return min(found, default=(0, ""))[1]


STATUS_COLORS = {"done": "good", "running": "accent", "aborted": "warn"}  # by name; others are failures
MOST_ROWS = 32  # engines and resources of a kind; of more the first
MOST_LINES = 5  # of warnings, and of entries that wait in a deadlock
WORK_UNITS = {"dma": "B", "te": "MAC", "ve": "op", "cpu": "launch"}


def result_html(result: Result) -> str:
    """The result's cycles, bound, engines, channels, banks and end. Everything that is not ours is escaped."""
    color = colour(STATUS_COLORS.get(result.status, "fail"))
    head = (
        f'<p style="margin:0"><b style="color:{color}">{escape(result.status)}</b> '
        f"<b>{counted(result.cycles, 'cycle')}</b>, {result.t_ns:,.6g} ns<br>"
        f"{escape(result.program or 'a program')} on {escape(result.machine)}, {counted(len(result.entries), 'entry')}"
        f"{_bound(result)}</p>"
    )
    parts = [head, *_ending(result), _engines(result), _resource_rows(result), _banks(result)]
    return f'<div style="font-size:90%">{"".join(parts)}</div>'


def _bound(result: Result) -> str:
    """The largest bound, on a line of its own; of nothing there is none."""
    bound = bound_share(result)
    if not bound.cycles:
        return ""
    text = f"{bound.kind} bound {bound.cycles:,}"
    if result.status == "done":
        text += f", achieved {bound.achieved:,}, {bound.share:.1%}"
    return "<br>" + escape(text if bound.kind == bound.name else f"{text} ({bound.name})")


def _ending(result: Result) -> list[str]:
    lines = []
    unfinished = sum(times.end is None for times in result.entries)
    if unfinished:
        lines.append(f"{counted(unfinished, 'entry')} {'has' if unfinished == 1 else 'have'} not ended")
    if result.failure is not None:
        lines.append(str(result.failure["message"]))
    for item in result.waiting[:MOST_LINES]:
        ids = ", ".join(map(str, item["waits_for"][:MOST_LINES]))
        what, why = (ids, f" ({item['reason']})") if ids else (item["reason"], "")
        lines.append(f"{item['id']} {item['opcode']} waits for {what} since cycle {item['since']:,}{why}")
    lines += [f"warning: {warning['message']}" for warning in result.warnings[:MOST_LINES]]
    rest = max(0, len(result.waiting) - MOST_LINES) + max(0, len(result.warnings) - MOST_LINES)
    if rest:
        lines.append(f"and {rest:,} more")
    return [f"<p>{'<br>'.join(map(escape, lines))}</p>"] if lines else []


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, names on the left and numbers on the right of their columns; cells are HTML already."""
    sides = ["left", *["right"] * (len(heads) - 1)]
    cell = '<{tag} style="text-align:{side};padding:0 0.5em">{text}</{tag}>'
    lines = [[cell.format(tag="td", side=side, text=text) for side, text in zip(sides, row, strict=True)] for row in rows]
    body = [f"<tr>{''.join(line)}</tr>" for line in lines]
    more = len(body) - MOST_ROWS
    if more > 0:
        style = "text-align:left;padding:0 0.5em"
        body[MOST_ROWS:] = [f'<tr><td colspan="{len(heads)}" style="{style}">and {more:,} more</td></tr>']
    head = "".join(cell.format(tag="th", side=side, text=text) for side, text in zip(sides, heads, strict=True))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _bar(parts: Sequence[tuple[float, str]]) -> str:
    """A bar of parts, each a share of 1 and its colour."""
    spans = "".join(
        f'<span style="display:inline-block;height:100%;width:{share:.2%};background:{color}"></span>' for share, color in parts
    )
    return (
        '<span style="display:inline-block;width:10em;height:0.8em;white-space:nowrap;text-align:left;font-size:100%;'
        f'line-height:0;background:{colour("line")}">{spans}</span>'
    )


def _engines(result: Result) -> str:
    heads = ("engine", "", "use", "busy", "bank conflict", "backpressure", "idle", "jobs", "work")
    return _table(heads, (_engine(engine) for engine in engine_uses(result)))


def _engine(engine: EngineUse) -> list[str]:
    stalled = engine.bank_conflict + engine.backpressure
    hue = colour(resource_of(engine.kind))
    parts = [
        (engine.utilisation, hue),
        (stalled / engine.cycles if engine.cycles else 0.0, hatch(hue)),
    ]
    counts = (engine.busy, engine.bank_conflict, engine.backpressure, engine.idle, engine.jobs)
    work = f"{engine.work:,} {WORK_UNITS[engine.kind]}"
    return [escape(engine.name), _bar(parts), f"{engine.utilisation:.1%}", *(f"{count:,}" for count in counts), work]


def _resource_rows(result: Result) -> str:
    rows = []
    shared = [(name, counters) for name, counters in result.counters.items() if "member_cycles" in counters]
    for name, counters in sorted(shared, key=lambda one: -one[1]["bytes"]):  # rows without room moved the least
        rate = counters["bytes"] / result.cycles if result.cycles else 0.0
        active = counters["busy"] / result.cycles if result.cycles else 0.0
        rows.append([escape(name), f"{counters['bytes']:,}", f"{rate:.4g}", f"{active:.1%}"])
    return _table(("channel or link", "bytes", "bytes per cycle", "active"), rows)


def _banks(result: Result) -> str:
    banks = bank_conflicts(result)
    text = f"scratchpad banks: {banks.requests:,} requests, {banks.denials:,} denied"
    if banks.worst is not None:
        text += f" ({banks.rate:.2%}), most at bank {banks.worst}: {banks.worst_denials:,}"
    return f"<p>{text}</p>"


def draw_engines(ax: Any, result: Result) -> None:
    """A bar an engine on a matplotlib `Axes`: busy, stalled and idle, of the first MOST_ROWS."""
    uses = list(engine_uses(result))[:MOST_ROWS]
    names, left = [use.name for use in uses], [0] * len(uses)
    parts = {
        "busy": [use.busy for use in uses],
        "stalled": [use.bank_conflict + use.backpressure for use in uses],
        "idle": [use.idle for use in uses],
    }
    hues = [colour(resource_of(use.kind)) for use in uses]
    pale = [waiting(hue)["color"] for hue in hues]
    looks: dict[str, dict[str, Any]] = {
        "busy": {"color": hues},
        "stalled": {"color": pale, "edgecolor": hues, "hatch": "////", "linewidth": 0},
        "idle": {"color": colour("line")},
    }
    for name, cycles in parts.items():
        ax.barh(names, cycles, left=left, label=name, **looks[name])
        left = [before + more for before, more in zip(left, cycles, strict=True)]
    ax.invert_yaxis()
    ax.set_xlabel("cycles")
    ax.legend(ncols=3, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), frameon=False)


@dataclass(frozen=True, slots=True)
class Roof:
    """One bound."""

    name: str  #: the channel or link, or the engines of a PE: `sip0.cube0.pe0 te`
    kind: str  #: DRAM, link, te, ve
    cycles: int


def roofs(result: Result, plan: Plan) -> list[Roof]:
    """The highest bound of each kind, falling.

    A channel or link needs its bytes over its capacity; the tensor (vector) engines of a PE need their busy cycles, spread over
    all of them.
    """
    found: dict[str, Roof] = {}
    for name, capacity in zip(plan.resources, plan.capacities, strict=True):
        if name in result.counters:
            kind = {"dram": "DRAM", "noc": "link"}[naming.counted(name)]
            _keep(found, Roof(name, kind, ceil_div(result.counters[name]["bytes"], capacity)))
    busy: dict[tuple[str, str], list[int]] = {}
    for name, counters in result.counters.items():
        kind = naming.counted(name)
        if kind in ("te", "ve"):
            busy.setdefault((naming.parent(name), kind), []).append(counters["busy"])
    for (place, kind), cycles in busy.items():
        _keep(found, Roof(f"{place} {kind}".strip(), kind, ceil_div(sum(cycles), len(cycles))))
    return sorted(found.values(), key=lambda roof: -roof.cycles)


def _keep(found: dict[str, Roof], roof: Roof) -> None:
    if roof.kind not in found or roof.cycles > found[roof.kind].cycles:
        found[roof.kind] = roof


def roof_share(result: Result, bounds: Sequence[Roof]) -> BoundShare:
    """The highest roof beside what the run took, and the others by their names."""
    best = bounds[0]
    others = tuple((roof.name, roof.cycles) for roof in bounds[1:] if roof.cycles)
    return BoundShare(best.name, best.cycles, result.cycles, others)
