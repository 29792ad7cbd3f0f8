"""Lower bounds of a run's cycles, known before the run: no simulation of the program on this machine ends earlier.

Each bound follows from a rule of docs/model: a resource never moves more than its capacity times the cycles (sharing.md), an
engine works on one job at a time (compute.md) or on a limited number (dma.md), and a job starts when its dependencies have
ended (control.md). They hold for runs that end `done`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from kernbench.bounds.chains import earliest_ends, issue_order, with_implied
from kernbench.bounds.overlap import shared_cycles
from kernbench.cmdq.entries import TeEntry
from kernbench.cmdq.plan import Plan, plan_program
from kernbench.cmdq.program import Program
from kernbench.common.units import ceil_div
from kernbench.config import NpuConfig, SystemConfig
from kernbench_core.numbers import Opkind

CRITICAL_PATH = "critical path"
FAR = 1 << 62  # [cycle] sums that could reach it are computed with Python integers


class Bounds(msgspec.Struct, frozen=True):
    """Lower bounds of the cycles of a run, one bound for each reason."""

    critical_path: int  #: the longest chain of dependent jobs, each at its full speed
    path: tuple[int, ...]  #: ids along that chain
    depth: int  #: number of entries on the longest chain
    dram: dict[str, int]  #: per DRAM channel: its bytes at its capacity
    links: dict[str, int]  #: per mesh link that has traffic: its bytes at its capacity
    engines: dict[
        str, int
    ]  #: by engine with jobs: the sum of their service times, divided by the number of concurrent jobs
    stuck: tuple[int, ...]  #: ids that can never be issued: the run ends in a deadlock; no bound includes them

    @property
    def cycles(self) -> int:
        """The largest of the bounds."""
        return max([self.critical_path, *self.dram.values(), *self.links.values(), *self.engines.values()])

    @property
    def limit(self) -> str:
        """The name of the largest bound: `critical path`, or the name of a resource or engine. If bounds are equal, the first
        in this order."""
        named = {CRITICAL_PATH: self.critical_path, **self.dram, **self.links, **self.engines}
        return max(named, key=lambda name: named[name])

    def to_dict(self) -> dict[str, Any]:
        """The bounds for a result: the largest, its name, the critical path, then every resource and engine."""
        head = {"cycles": self.cycles, "limit": self.limit, "critical_path": self.critical_path}
        return {**head, **self.dram, **self.links, **self.engines}


def lower_bounds(program: Program, config: NpuConfig | SystemConfig) -> Bounds:
    """The bounds of a program on a machine; InputError if it is not valid there."""
    return plan_bounds(program, plan_program(program, config))


def plan_bounds(program: Program, plan: Plan) -> Bounds:
    """The bounds of a program from its plan."""
    return _Run(program, plan).bounds()


On = tuple[tuple[int, int], ...]  #: numbers of resources, and [byte] on each
Shape = tuple[int, int, int, tuple[int, ...]]  #: of a transfer: engine, memory, route, and [byte] on each channel
Array = npt.NDArray[Any]  #: int64, or Python integers where sums would be too large


class _Moves(NamedTuple):
    """The transfers of a program: the different shapes, and for each transfer the number of its shape."""

    shapes: list[Shape]
    numbers: npt.NDArray[np.int64]


class _Order(NamedTuple):
    """Data that follow from the dependencies alone."""

    dependents: list[list[int]]  #: of each entry, the entries that wait for it
    entries: list[int]  #: entries that can be issued, each after all its dependencies
    depth: int  #: number of entries on the longest chain
    stuck: list[int]  #: entries that can never be issued


class _Jobs(NamedTuple):
    """The jobs of the engines of a kind, transfers or others, in the order of the plan's table."""

    cycles: Array  #: [cycle] duration from start to end, at least
    period: Array  #: a job starts in a multiple of it
    occupies: Array  #: [cycle] for which its engine, or a slot of a DMA engine, is busy


class _Run:
    """The jobs of one program on one machine, each without contention, and their dependencies. All data come from the plan's
    columns.
    """

    def __init__(self, program: Program, plan: Plan) -> None:
        self.entries = plan.rows(program).entries
        self.plan = plan
        self.own = bool(plan.machine.get("own_routes"))  # an NPU has its own routes
        self.shared = shared_cycles(plan)
        #: [byte/cycle] of each resource, as fractions
        self.above, self.below = (plan.machine[name].tolist() for name in ("resource_num", "resource_den"))
        self.moves: _Moves = plan.kept("moves", self._moves)
        #: resources and bytes of each shape of transfer
        self.transfer_loads: list[On] = plan.kept("loads", lambda: [self._load(*shape) for shape in self.moves.shapes])
        self.dma, self.compute = self._transfers(), self._works()

    def _works(self) -> _Jobs:
        """The smallest number of cycles of a job: on an array whose jobs overlap, its load may be hidden."""
        jobs = self.plan.program["compute"]
        ticks = jobs["init"] + jobs["body"] + jobs["finalize"] - self.shared.hidden
        periods = np.array([engine["period"] for engine in self.plan.machine["compute"]], dtype=np.int64)
        if ticks.max(initial=0) * int(periods.max(initial=0)) * len(self.entries) >= FAR:
            ticks, periods = ticks.astype(object), periods.astype(object)
        period = periods[jobs["engine"]]
        return _Jobs((ticks - 1) * period + 1, period, (ticks - self.shared.tail) * period)

    def _transfers(self) -> _Jobs:
        """The smallest number of cycles of a transfer; bank conflicts with itself may add more."""
        engines = self.plan.machine["dma"]
        cycles, periods = [], []
        for shape, on in zip(self.moves.shapes, self.transfer_loads, strict=True):
            moving = max([1, *[-(-nbytes * self.below[r] // self.above[r]) for r, nbytes in on]])
            cycles.append(self._latency(*shape, moving))
            periods.append(engines[shape[0]]["period"])
        kind = object if max(cycles, default=0) * len(self.entries) >= FAR else np.int64
        each = np.array(cycles, dtype=kind)[self.moves.numbers]
        return _Jobs(each, np.array(periods, dtype=kind)[self.moves.numbers], each)

    def _moves(self) -> _Moves:
        """Programs move a few shapes very often."""
        jobs = self.plan.program["dma"]
        known: dict[Shape, int] = {}
        columns = (jobs[name].tolist() for name in ("engine", "memory", "route"))
        numbers = [known.setdefault(shape, len(known)) for shape in zip(*columns, self.plan.on_channels, strict=True)]
        return _Moves(list(known), np.array(numbers, dtype=np.int64))

    def _load(self, engine: int, memory: int, route: int, moved: tuple[int, ...]) -> On:
        """The bytes of such a transfer on each resource.

        A last-level cache may hit all bytes or none, so the bound assumes that every byte moves over the cache.
        """
        machine = self.plan.machine
        cache = machine["memories"][memory].get("cache", -1)
        if cache >= 0:
            return ((machine["caches"][cache]["resource"], sum(moved)),)
        start, path = machine["route_start"], machine["route_path"]
        on: dict[int, int] = {}
        for k, nbytes in enumerate(moved, route):
            if nbytes:
                for resource in path[start[k] : start[k + 1]].tolist():
                    on[resource] = on.get(resource, 0) + nbytes
        return tuple(on.items())

    def _latency(self, engine: int, memory: int, route: int, moved: tuple[int, ...], moving: int) -> int:
        """[cycle] The time of such a transfer without contention, if its resources need `moving` cycles for its bytes."""
        machine = self.plan.machine
        table = machine["memories"][memory]
        setup: int = table["setup"]
        if table.get("cache", -1) >= 0:  # the shorter of the head latencies of a hit and of a miss
            misses: list[int]
            *misses, hit = machine["route_latency"][route : route + table["channels"] + 1].tolist()
            farthest = max(at for at, nbytes in zip(misses, moved, strict=True) if nbytes)
            in_cache: int = machine["caches"][table["cache"]]["latency"] + hit
            return moving + min(setup + farthest, in_cache)
        pad = machine["spm"][machine["dma"][engine]["spm"]]
        row = pad["banks"] * pad["line"]  # the limit of the requests of a flow in a cycle
        ratio = 1 if self.plan.ratios is None else self.plan.ratios[memory]  # [B] requested for each byte on the channels
        latencies = machine["route_latency"][route : route + len(moved)].tolist()
        latency = max((at for at, nbytes in zip(latencies, moved, strict=True) if nbytes), default=0)
        return setup + latency + max(moving, ceil_div(max(moved, default=0) * ratio, row))

    def _totals(self, stuck: list[int]) -> dict[int, int]:
        """[byte] The traffic of each resource by all transfers that can be issued."""
        totals: dict[int, int] = {}
        counts = Counter(self.moves.numbers[self._issued("dma", stuck)].tolist())
        for number, count in counts.items():
            for resource, nbytes in self.transfer_loads[number]:
                totals[resource] = totals.get(resource, 0) + nbytes * count
        return totals

    def _resources(self, totals: Mapping[int, int], numbers: range, *, idle: bool = False) -> dict[str, int]:
        """The cycles of resources for their traffic; `idle`: include resources without traffic."""
        plan, controllers = self.plan, self.plan.machine.get("controllers")
        posted = controllers["write_queue"] * controllers["burst_bytes"] if controllers is not None else 0
        found = {}
        for r in numbers:
            if idle or r in totals:
                moved = totals.get(r, 0)
                moved = max(0, moved - posted) if r < plan.channels else moved  # the rest may be in queues at the end
                found[plan.resources[r]] = -(-moved * self.below[r] // self.above[r])
        return found

    def _issued(self, kind: str, stuck: list[int]) -> npt.NDArray[np.int64]:
        """The rows of the jobs of a kind that can be issued."""
        entries = self.plan.program[kind]["entry"]
        return np.flatnonzero(~np.isin(entries, stuck)) if stuck else np.arange(len(entries))

    def _engines(self, stuck: list[int]) -> dict[str, int]:
        """The cycles of each engine with jobs that can be issued.

        A TE or VE executes its jobs one by one; with a period, it waits for its clock after each job except the last. If jobs
        overlap, the load of the first and the drain of the last do not. A DMA engine has at most `max_concurrent_transfers` at
        a time, and as many as its channels have together.
        """
        plan = self.plan
        at_a_time = plan.pe.dma.at_a_time
        out = {plan.dma[k]: ceil_div(busy, at_a_time) for k, busy in self._busy("dma", self.dma, stuck)}
        engines = plan.machine["compute"]
        once = self._once(stuck) if self.shared.hidden.any() or self.shared.tail.any() else {}
        for k, busy in self._busy("compute", self.compute, stuck):
            out[plan.compute[k]] = busy + once.get(k, 0) - (engines[k]["period"] - 1)
        return out

    def _busy(self, kind: str, jobs: _Jobs, stuck: list[int]) -> list[tuple[int, int]]:
        """Each engine of a kind with jobs that can be issued, and the sum of the cycles for which they occupy it."""
        rows = self._issued(kind, stuck)
        engines = self.plan.program[kind]["engine"][rows]
        sums = np.zeros(len(self.plan.machine[kind]), dtype=jobs.occupies.dtype)
        np.add.at(sums, engines, jobs.occupies[rows])
        used = np.flatnonzero(np.bincount(engines, minlength=len(sums))).tolist()
        return [(k, int(sums[k])) for k in used]

    def _once(self, stuck: list[int]) -> dict[int, int]:
        """[cycle] Load and drain of each TE or VE, which overlap except at the first and the last job."""
        rows = self._issued("compute", stuck)
        columns = self.plan.program["compute"]["engine"], self.shared.hidden, self.shared.tail
        least: dict[int, tuple[int, int]] = {}
        for engine, hidden, tail in zip(*(column[rows].tolist() for column in columns), strict=True):
            known = least.get(engine, (hidden, tail))
            least[engine] = min(known[0], hidden), min(known[1], tail)
        periods = [engine["period"] for engine in self.plan.machine["compute"]]
        return {engine: sum(both) * periods[engine] for engine, both in least.items()}

    def bounds(self) -> Bounds:
        order: _Order = self.plan.kept("order", self._order)
        ends, latest = earliest_ends(order.entries, order.dependents, *self._cycles())
        length = max(ends, default=-1)
        path, at = [], -1 if length < 0 else ends.index(length)
        while at >= 0:
            path.append(self.entries[at].command_id)
            at = latest[at]
        totals: dict[int, int] = self.plan.kept("totals", lambda: self._totals(order.stuck))
        return Bounds(
            critical_path=max(0, length),
            path=tuple(dict.fromkeys(reversed(path))),
            depth=order.depth,
            dram=self._resources(totals, range(self.plan.channels), idle=self.own),
            links=self._resources(totals, range(self.plan.channels, len(self.plan.resources))),
            engines=self._engines(order.stuck),
            stuck=tuple(dict.fromkeys(self.entries[i].command_id for i in order.stuck)),
        )

    def _cycles(self) -> tuple[list[int], list[int]]:
        """[cycle] Duration and period of each entry; control entries take none."""
        kinds = [("dma", self.dma), ("compute", self.compute)]
        wide = any(jobs.cycles.dtype == object for _, jobs in kinds)
        cycles = np.zeros(len(self.entries), dtype=object if wide else np.int64)
        period = np.ones(len(self.entries), dtype=cycles.dtype)
        for kind, jobs in kinds:
            entries = self.plan.program[kind]["entry"]
            cycles[entries], period[entries] = jobs.cycles, jobs.period
        return cycles.tolist(), period.tolist()

    def _order(self) -> _Order:
        """An order in which the entries can be issued."""
        program = self.plan.program
        flat, after = program["dependents"].tolist(), program["after"].tolist()
        dependents = with_implied([flat[a:b] for a, b in pairwise(after)], *self._implied())
        entries, depths, stuck = issue_order(dependents)
        return _Order(dependents, entries, max(map(depths.__getitem__, entries), default=0), stuck)

    def _implied(self) -> tuple[list[int], list[int], list[int]]:
        """The positions of barriers, of ENDs, and of jobs that follow the previous job of their command on its engine."""
        op = self.plan.program["op"]
        chained: list[int] = []
        if self.plan.jobs is not None:
            overlap = self.plan.pe.te.overlaps_jobs
            later = (entry for entry in self.entries if entry.meta["job"])
            chained = [entry.index for entry in later if not (overlap and isinstance(entry, TeEntry))]
        barriers, ends = (np.flatnonzero(op == int(kind)).tolist() for kind in (Opkind.OP_BARRIER, Opkind.OP_END))
        return barriers, ends, chained
