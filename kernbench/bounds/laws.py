"""Conservation laws that hold in every run; they are checked once, for the counters at the end of the run.

Counters are compared with the work of the program and with the limits of the machine. A broken law is a bug of the simulator
or of a plugged-in engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kernbench.bounds.overlap import shared_cycles
from kernbench.cmdq.controller_timing import COMMANDS
from kernbench.cmdq.plan import Plan
from kernbench.common.errors import KernbenchError

LAWS: dict[str, str] = {
    "time": "busy and stalled cycles of an engine are none below 0, and no more than those of the run",
    "order": "a job is issued when what it waits for has ended, starts then or later, and ends later",
    "bytes": "a DMA engine moves the bytes of its transfers, and the channels move what engines move",
    "work": "a tensor or vector engine is busy for the cycles of its jobs, and does their work",
    "capacity": "a resource moves at most its capacity in each cycle in which it has a member",
    "ports": "a bank grants at most as many requests as it has ports in each cycle",
    "conserving": "while a flow is a member, some resource moves all that it can",
}
Array = npt.NDArray[np.int64]
ENDED = ("done", "aborted", "deadlock")  #: statuses in which no cycle is incomplete
LIMIT = 5  #: most violations in a report
NEAR = 1e-9  #: relative: a result in floating point that is nearer to the limit is checked exactly


class BrokenLaw(KernbenchError):
    """A run violated a law of LAWS; the text gives the law, the place and the difference."""

    exit_code = 5


class Ran(msgspec.Struct, frozen=True):
    """The state of a run after its end."""

    plan: Plan
    done: bool
    cycles: int
    entries: tuple[Array, Array, Array]  #: issue, start, end [cycle]; -1 if it has not happened
    dma: Array  #: of each engine: busy, stalled by backpressure, by banks [cycle], [byte]
    compute: Array  #: by engine: busy, stalled by banks [cycle]
    work: list[int]  #: by engine: MACs, operations or launches
    resources: Array  #: by resource: [B] in each direction, cycles with a member, member-cycles
    banks: Array  #: by scratchpad: grants and denials of each bank
    plugged: bool  #: the run had components, whose jobs count too
    foreign: int  #: [byte] bytes of flows that components opened
    #: for each last-level cache: its table, and the number of lines that it wrote back
    written_back: list[tuple[dict[str, Any], int]]


def check_laws(plan: Plan, cycles: int, status: str, core: Any, components: Sequence[str]) -> None:
    """Check a `kernbench_core.Core` after its last cycle. BrokenLaw if a law does not hold."""
    if status not in ENDED:
        return
    found = [f"{law}: {text}" for law, text in broken_laws(what_ran(plan, cycles, status, core, components))]
    if found:
        more = f"; and {len(found) - LIMIT} more" if len(found) > LIMIT else ""
        raise BrokenLaw("the run broke a law, which is a mistake of the simulator: " + "; ".join(found[:LIMIT]) + more)


def check_counters(plan: Plan, cycles: int, status: str, core: Any) -> None:
    """Check a core that was restored from a file, at any point of its run; BrokenLaw if no run can have these counters.

    Laws of whole runs are not checked, because a run that is done would not continue.
    """
    so_far = "aborted" if status == "running" else status
    if so_far not in ENDED:
        return
    found = [f"{law}: {text}" for law, text in broken_laws(what_ran(plan, cycles, so_far, core, ()))]
    if found:
        raise BrokenLaw("; ".join(found[:LIMIT]))


def what_ran(plan: Plan, cycles: int, status: str, core: Any, components: Sequence[str]) -> Ran:
    """The counters of a finished core that the laws need."""
    dma, compute, resources, banks, _ = core.totals()
    written_back = []
    if plan.caches:
        counted = core.counters()["resources"]
        written_back = [(table, counted[number]["write_backs"]) for number, table in plan.caches.items()]
    return Ran(
        plan=plan,
        done=status == "done",
        cycles=cycles,
        entries=core.entries(),
        dma=dma,
        compute=compute,
        work=[] if components else core.work(),
        resources=resources,
        banks=plan.bank_counts(banks),
        plugged=bool(components),
        foreign=sum(one["bytes"] for one in core.component_counters()),
        written_back=written_back,
    )


def broken_laws(ran: Ran) -> Iterator[tuple[str, str]]:
    """(law, description) of each violation."""
    for law, look in _LOOKS:
        for text in look(ran):
            yield law, text


def _time(ran: Ran) -> Iterator[str]:
    for names, spent in ((ran.plan.dma, ran.dma[:, :3]), (ran.plan.compute, ran.compute)):
        if spent.min(initial=0) >= 0 and spent.sum(axis=1).max(initial=0) <= ran.cycles:
            continue
        for k in np.flatnonzero((spent < 0).any(axis=1) | (spent.sum(axis=1) > ran.cycles)):
            yield f"{names[k]} says {spent[k].tolist()} busy and stalled cycles of {ran.cycles}"


def _order(ran: Ran) -> Iterator[str]:
    issue, start, end = ran.entries
    program = ran.plan.program
    before = ran.plan.kept("sources", lambda: np.repeat(np.arange(len(end)), np.diff(program["after"])))
    after = program["dependents"]
    if ran.done and _in_order(ran, before, after):
        return
    late = ((start >= 0) & ((issue < 0) | (start < issue))) | ((end >= 0) & ((start < 0) | (end < start))) | (end > ran.cycles)
    if ran.done:
        late |= end < 0
    for k in np.flatnonzero(late):
        yield f"entry {k}: issued {issue[k]}, started {start[k]}, ended {end[k]} of {ran.cycles} cycles"
    early = (issue[after] >= 0) & ((end[before] < 0) | (issue[after] < end[before]))
    for k in np.flatnonzero(early):
        one, other = after[k], before[k]
        yield f"entry {one} was issued at {issue[one]}, but waits for entry {other}, which ended at {end[other]}"


def _in_order(ran: Ran, before: Array, after: Array) -> bool:
    """Whether all entries ended, in the right order. `before`, `after`: each dependency and the entry that waits for it."""
    issue, start, end = ran.entries
    if not len(end):
        return True
    in_time = issue.min() >= 0 and end.max() <= ran.cycles
    return bool(in_time and (issue <= start).all() and (start <= end).all() and (end[before] <= issue[after]).all())


def _bytes(ran: Ran) -> Iterator[str]:
    moved = ran.dma[:, 3]
    to_memory = None
    if not ran.plugged:
        asked, to_memory = ran.plan.kept("asked", lambda: _asked(ran.plan, len(moved)))
        wrong = moved != asked if ran.done else moved > asked
        for k in np.flatnonzero(wrong):
            yield f"{ran.plan.dma[k]} moved {moved[k]} bytes, and its transfers have {asked[k]}"
    on_channels = int(ran.resources[: ran.plan.channels, :2].sum())
    if ran.plan.caches:
        yield from _bytes_of_caches(ran, on_channels)
        return
    if _routed(ran) and not ran.done:  # some bytes that the channels delivered are in flight in the routers
        return
    if ran.plugged or not ran.done:  # on a system, engines also move bytes that pass no channel
        whole = not ran.plan.machine.get("own_routes") or ran.plan.ratios is not None
        right = on_channels <= moved.sum() if whole else on_channels == moved.sum()
        if not ran.foreign and not right:
            yield f"channels moved {on_channels} bytes, and DMA engines {int(moved.sum())}"
    elif on_channels != to_memory:
        yield f"channels moved {on_channels} bytes, and transfers have {to_memory} there"


def _bytes_of_caches(ran: Ran, on_channels: int) -> Iterator[str]:
    """Behind a last-level cache, a channel moves missed bytes and write-backs; the cache moves these bytes and the bytes of
    hits."""
    over = sum(int(ran.resources[k, :2].sum()) for k in ran.plan.caches)
    if on_channels > over:
        yield f"channels moved {on_channels} bytes, and last-level caches {over}"
    if ran.plugged or ran.foreign or not ran.plan.machine.get("own_routes"):
        return
    moved, back = int(ran.dma[:, 3].sum()), sum(table["line"] * lines for table, lines in ran.written_back)
    if not moved <= over <= moved + back:
        yield f"the last-level cache moved {over} bytes, DMA engines {moved}, and {back} were to be written back"


def _routed(ran: Ran) -> bool:
    """Whether transfers move over routers, which may hold flows back."""
    return ran.plan.machine.get("network") is not None


def _asked(plan: Plan, engines: int) -> tuple[Array, int]:
    """[byte] The bytes of the program's transfers: by engine, and of transfers with channels."""
    jobs = plan.program["dma"]
    channels = np.array([table["first"] >= 0 for table in plan.machine["memories"]], dtype=np.bool_)[jobs["memory"]]
    by_engine = np.zeros(engines, dtype=np.int64)
    np.add.at(by_engine, jobs["engine"], jobs["nbytes"])
    there = channels & (jobs["peer"] < 0)
    if plan.ratios is None:
        return by_engine, int(jobs["nbytes"][there].sum())
    moved = zip(jobs["memory"][there].tolist(), jobs["nbytes"][there].tolist(), strict=True)
    return by_engine, sum(int(nbytes / plan.ratios[memory]) for memory, nbytes in moved)


def _worked(plan: Plan) -> tuple[Array, Array, Array]:
    """By engine: the cycles of its jobs, their work, and their cycles if they overlap as much as possible."""
    jobs, count = plan.program["compute"], len(plan.compute)
    total, shared = jobs["init"] + jobs["body"] + jobs["finalize"], shared_cycles(plan)
    cycles, work, least = np.zeros((3, count), dtype=np.int64)
    np.add.at(cycles, jobs["engine"], total)
    np.add.at(work, jobs["engine"], jobs["work"])
    np.add.at(least, jobs["engine"], total - shared.hidden - shared.tail)
    return cycles, work, least


def _work(ran: Ran) -> Iterator[str]:
    if ran.plugged or not ran.done:
        return
    period = np.array([engine["period"] for engine in ran.plan.machine["compute"]], dtype=np.int64)
    cycles, work, least = ran.plan.kept("worked", lambda: _worked(ran.plan))
    busy = ran.compute[:, 0]
    for k in np.flatnonzero((period == 1) & ((busy > cycles) | (busy < least))):
        take = cycles[k] if cycles[k] == least[k] else f"at least {least[k]}, at most {cycles[k]}"
        yield f"{ran.plan.compute[k]} was busy for {busy[k]} cycles, and its jobs take {take}"
    for k in np.flatnonzero(np.array(ran.work, dtype=np.int64) != work):
        yield f"{ran.plan.compute[k]} did {ran.work[k]} operations, and its jobs have {work[k]}"


def reads_beside_writes(controllers: Mapping[str, Any]) -> bool:
    """Return whether the data bus may carry the data of an RD and of a later WR at the same time.

    The rule from RD to WR of another rank does not count the latencies of the two commands.
    """
    pseudo, ranks = controllers["nodes"][:2]
    turn = controllers["to_read"] + controllers["burst"] - controllers["to_write"]
    _, other, after, before, clocks = controllers["rules"].T
    of_turns = (after == COMMANDS.index("RD")) & (before == COMMANDS.index("WR"))
    own, others = clocks[of_turns & (other == 0)], clocks[of_turns & (other == 1)]
    return bool(own.max(initial=0) < turn or (ranks > pseudo and others.max(initial=0) < turn))


def _capacity(ran: Ran) -> Iterator[str]:
    moved, busy, members = ran.resources[:, 0] + ran.resources[:, 1], ran.resources[:, 2], ran.resources[:, 3]
    for k in np.flatnonzero((moved < 0) | (busy > ran.cycles) | (busy < 0) | (members < busy)).tolist():
        yield f"{ran.plan.resources[k]}: {busy[k]} cycles with a member, {members[k]} member-cycles, of {ran.cycles}"
    controllers = ran.plan.machine.get("controllers")
    if controllers is not None:  # the bus fills buffers in all cycles, and does not wait for writes in the queue
        busy, moved, channels = busy.copy(), moved.copy(), slice(ran.plan.channels)
        busy[channels] = ran.cycles
        moved[channels] -= controllers["write_queue"] * controllers["burst_bytes"]
        if reads_beside_writes(controllers):
            moved[channels] = np.maximum(moved[channels] - ran.resources[channels, 0], ran.resources[channels, 0])
    network = ran.plan.machine.get("network")
    if network is not None:  # a flit arrives although it occupies its link for longer, up to the end of the run or beyond
        links = np.unique(network["resources"][network["resources"] >= 0])
        moved = moved.copy()
        moved[links] -= network["flit_bytes"]
    near = np.flatnonzero(moved * _float(ran, "resource_den") > busy * _float(ran, "resource_num") * (1 - NEAR))
    for k in near.tolist():
        capacity = ran.plan.capacities[k]
        if int(moved[k]) * capacity.denominator > int(busy[k]) * capacity.numerator:
            yield f"{ran.plan.resources[k]} moved {moved[k]} bytes in {busy[k]} cycles, and can move {capacity} in each"


def _float(ran: Ran, name: str) -> npt.NDArray[np.float64]:
    table: npt.NDArray[np.float64] = ran.plan.machine[name][: len(ran.resources)].astype(np.float64)
    return table


def _ports(ran: Ran) -> Iterator[str]:
    for k, (grants, denials) in enumerate(ran.banks):
        table = ran.plan.machine["spm"][k]
        most = (sum(table["ports"]) if table["split"] else table["ports"][0]) * ran.cycles
        for bank in np.flatnonzero((grants > most) | (grants < 0) | (denials < 0)).tolist():
            yield f"bank {bank} of {ran.plan.scratchpads[k]} granted {grants[bank]} requests, and has ports for {most}"


def _conserving(ran: Ran) -> Iterator[str]:
    """Under every allocation rule, the scarcest resource of a cycle is used completely. However, held flows wait for banks, and
    a partial burst of DRAM rows takes the time of a whole one.
    """
    if ran.plan.machine.get("devices") is not None or ran.plan.machine.get("controllers") is not None or _routed(ran):
        return
    if ran.plan.ratios is not None:  # the unused capacity at the end of a flow depends on its ratio
        return
    if ran.plugged or not ran.done or ran.banks[:, 1].any() or not _uncut(ran):
        return
    moved, busy = (ran.resources[:, 0] + ran.resources[:, 1]).astype(np.float64), ran.resources[:, 2]
    spare = _spare(ran)
    # [cycle] upper bound of the cycles in which it was used completely
    full = (moved + spare) * _float(ran, "resource_den") / _float(ran, "resource_num")
    alone = ran.plan.machine.get("own_routes") and len(ran.resources) == ran.plan.channels
    reached = full if alone else np.full(len(full), full[busy > 0].sum())
    for k in np.flatnonzero(busy > reached * (1 + NEAR) + (ran.cycles >> 20) + 1):
        yield f"{ran.plan.resources[k]} had members for {busy[k]} cycles, and only {reached[k]:.0f} cycles of capacity are used"


def _uncut(ran: Ran) -> bool:
    """No flow conflicts with itself: the credit of one cycle never covers two lines of one bank, so one request spends all of
    it.

    The lines of a flow are consecutive; after an interleave chunk they continue after the chunks of the other channels.
    """
    machine, jobs = ran.plan.machine, ran.plan.program["dma"]
    if ran.plan.caches:  # the lines of a flow may be any lines
        return False
    starts, path = machine["route_start"], machine["route_path"]
    if len(path) == 0 or (np.diff(starts) == 0).any():
        return False
    rates = machine["resource_num"].astype(np.float64) / machine["resource_den"]
    most = int(np.minimum.reduceat(rates[path], starts[:-1]).max()) + 1  # [byte] that a flow earns in a cycle, plus one
    for table in machine["spm"][: len(ran.plan.scratchpads)]:
        line, banks = table["line"], table["banks"]
        lines = 2 + most // line
        if table["blocked"] or lines >= banks:
            return False
        for memory in machine["memories"]:
            chunk, channels = memory["interleave"] // line, memory["channels"]
            behind = (channels - 1) * chunk % banks
            if channels > 1 and (lines > chunk // 2 or behind + lines >= banks or (jobs["rows"] > 1).any()):
                return False
    return True


def _spare(ran: Ran) -> float:
    """[byte] The capacity of a resource that may stay unused: for each flow, less than a line and a cycle at its end, and for
    each member, less than a byte when rates change."""
    jobs = len(ran.plan.program["dma"]["rows"])
    memories, engines = ran.plan.machine["memories"], ran.plan.machine["dma"]
    flows = jobs * max((max(1, table["channels"]) for table in memories), default=1)
    lines: int = max((table["line"] for table in ran.plan.machine["spm"]), default=1)
    most: int = min(flows, sum(engine["max_concurrent"] for engine in engines))
    rate = max((float(capacity) for capacity in ran.plan.capacities), default=0.0)
    return float(flows * (lines + rate + 2 * most))


_LOOKS: Any = (
    ("time", _time),
    ("order", _order),
    ("bytes", _bytes),
    ("work", _work),
    ("capacity", _capacity),
    ("ports", _ports),
    ("conserving", _conserving),
)
