"""Lower bounds of a run's cycles, known before the run: no simulation of the program on this machine ends earlier.

Each bound follows from a rule of docs/model: a resource never moves more than its capacity times the cycles (sharing.md), an
engine works on one job at a time (compute.md) or on a limited number (dma.md), and a job starts when its dependencies have
ended (control.md). They hold for runs that end `done`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from typing import Any, NamedTuple

import msgspec

from kernbench.bounds.overlap import shared_cycles
from kernbench.cmdq.entries import TeEntry
from kernbench.cmdq.plan import Plan, plan_program
from kernbench.cmdq.program import Program
from kernbench.common.units import ceil_div
from kernbench.config import NpuConfig, SystemConfig
from kernbench_core.numbers import Opkind

CRITICAL_PATH = "critical path"
NEVER = -(1 << 63)  # earlier than all cycles


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


class _Moves(NamedTuple):
    """The transfers of a program: the different shapes, and for each transfer its entry and the number of its shape."""

    shapes: list[Shape]
    entries: list[int]
    numbers: list[int]


class _Order(NamedTuple):
    """Data that follow from the dependencies alone."""

    entries: list[int]  #: entries that can be issued, each after all its dependencies
    depths: list[int]  #: per entry, the length of its longest chain, counted in entries
    stuck: list[int]  #: entries that can never be issued


class _Run:
    """The jobs of one program on one machine, each without contention, and their dependencies. All data come from the plan's
    columns.
    """

    def __init__(self, program: Program, plan: Plan) -> None:
        self.entries = plan.rows(program).entries
        self.plan = plan
        self.own = bool(plan.machine.get("own_routes"))  # an NPU has its own routes
        count = len(self.entries)
        # [cycle] duration from start to end; a job starts in multiples of the period
        self.cycles, self.period = [0] * count, [1] * count
        self.occupies = [0] * count  # [cycle] for which its engine, or a slot of a DMA engine, is busy
        self.shared = shared_cycles(plan)
        self.once: dict[int, tuple[int, int]] = {}  # [cycle] load and drain, which overlap except at the first and the last job
        self.moves: _Moves = plan.kept("moves", self._moves)
        #: resources and bytes of each shape of transfer
        self.transfer_loads: list[On] = plan.kept("loads", lambda: [self._load(*shape) for shape in self.moves.shapes])
        self._add_transfers()
        self._add_works()

    def _add_works(self) -> None:
        """The smallest number of cycles of a job: on an array whose jobs overlap, its load may be hidden."""
        jobs, engines = self.plan.program["compute"], self.plan.machine["compute"]
        least = jobs["init"] + jobs["body"] + jobs["finalize"] - self.shared.hidden
        columns = (jobs["entry"], jobs["engine"], least, self.shared.hidden, self.shared.tail)
        for entry, engine, ticks, hidden, tail in zip(*(one.tolist() for one in columns), strict=True):
            period = engines[engine]["period"]
            self.cycles[entry], self.period[entry] = (ticks - 1) * period + 1, period
            self.occupies[entry] = (ticks - tail) * period
            self.once[entry] = (hidden * period, tail * period)

    def _add_transfers(self) -> None:
        """The smallest number of cycles of a transfer; bank conflicts with itself may add more."""
        engines = self.plan.machine["dma"]
        rates = [(rate.numerator, rate.denominator) for rate in self.plan.capacities]
        found = []
        for shape, on in zip(self.moves.shapes, self.transfer_loads, strict=True):
            moving = max([1, *[-(-nbytes * rates[r][1] // rates[r][0]) for r, nbytes in on]])
            found.append((self._latency(*shape, moving), engines[shape[0]]["period"]))
        for entry, number in zip(self.moves.entries, self.moves.numbers, strict=True):
            self.cycles[entry], self.period[entry] = found[number]
            self.occupies[entry] = found[number][0]

    def _moves(self) -> _Moves:
        """Programs move a few shapes very often."""
        jobs = self.plan.program["dma"]
        known: dict[Shape, int] = {}
        columns = (jobs[name].tolist() for name in ("engine", "memory", "route"))
        numbers = [known.setdefault(shape, len(known)) for shape in zip(*columns, self.plan.on_channels, strict=True)]
        return _Moves(list(known), jobs["entry"].tolist(), numbers)

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

    def _resources(self, counts: Counter[int], numbers: range, *, idle: bool = False) -> dict[str, int]:
        """The cycles of resources for a number of transfers of each shape; `idle`: include resources without traffic."""
        totals = dict.fromkeys(numbers, 0) if idle else {}
        for number, load in enumerate(self.transfer_loads):
            for resource, nbytes in load if counts[number] else ():
                totals[resource] = totals.get(resource, 0) + nbytes * counts[number]
        plan, controllers = self.plan, self.plan.machine.get("controllers")
        posted = controllers["write_queue"] * controllers["burst_bytes"] if controllers is not None else 0
        waiting = {r: posted if r < plan.channels else 0 for r in numbers}  # [byte] that may be in queues at the end
        return {plan.resources[r]: ceil_div(max(0, totals[r] - waiting[r]), plan.capacities[r]) for r in numbers if r in totals}

    def _counts(self, stuck: Set[int]) -> Counter[int]:
        """The number of transfers of each shape that can be issued."""
        if not stuck:
            return self.plan.kept("counts", lambda: Counter(self.moves.numbers))
        moves = zip(self.moves.entries, self.moves.numbers, strict=True)
        return Counter(number for entry, number in moves if entry not in stuck)

    def _engines(self, stuck: Set[int]) -> dict[str, int]:
        """The cycles of each engine with jobs that can be issued.

        A TE or VE executes its jobs one by one; with a period, it waits for its clock after each job except the last. If jobs
        overlap, the load of the first and the drain of the last do not. A DMA engine has at most `max_concurrent_transfers` at
        a time, and as many as its channels have together.
        """
        plan = self.plan
        dma: dict[int, int] = {}
        work: dict[int, int] = {}
        for (kind, engine), jobs in plan.kept("engines", self._jobs_of_engines).items():
            issued = [i for i in jobs if i not in stuck] if stuck else jobs
            if issued:
                (dma if kind == Opkind.OP_DMA else work)[engine] = sum(map(self.occupies.__getitem__, issued))
            if issued and kind == Opkind.OP_COMPUTE:
                work[engine] += sum(map(min, zip(*map(self.once.__getitem__, issued), strict=True)))
        saved = [engine["period"] - 1 for engine in plan.machine["compute"]]
        out = {plan.dma[k]: ceil_div(n, plan.pe.dma.at_a_time) for k, n in sorted(dma.items())}
        return out | {plan.compute[k]: n - saved[k] for k, n in sorted(work.items())}

    def _jobs_of_engines(self) -> dict[tuple[int, int], list[int]]:
        """The entries that each engine runs, by kind of job and number of the engine."""
        program = self.plan.program
        engines = {Opkind.OP_DMA: program["dma"]["engine"].tolist(), Opkind.OP_COMPUTE: program["compute"]["engine"].tolist()}
        found: dict[tuple[int, int], list[int]] = {}
        for i, (op, job) in enumerate(zip(program["op"].tolist(), program["job"].tolist(), strict=True)):
            if op in engines:
                found.setdefault((op, engines[op][job]), []).append(i)
        return found

    @property
    def waits(self) -> list[tuple[int, ...]]:
        """For each entry, the indices of its dependencies, including barriers and END."""
        return self.plan.kept("waits", self._waits)

    def _waits(self) -> list[tuple[int, ...]]:
        barrier: int | None = None
        waits = []
        overlap = self.plan.pe.te.overlaps_jobs
        for i, (entry, explicit) in enumerate(zip(self.entries, self.plan.predecessors, strict=True)):
            implicit: Iterable[int] = range(i) if entry.opcode == "END" else () if barrier is None else (barrier,)
            one_by_one = not (overlap and isinstance(entry, TeEntry))
            before = (i - 1,) if one_by_one and entry.meta.get("job", 0) else ()  # of the same command, on the same engine
            waits.append(tuple(sorted({*explicit, *implicit, *before})) if implicit or before else explicit)
            if entry.opcode == "BARRIER":
                barrier = i
        return waits

    def bounds(self) -> Bounds:
        order: _Order = self.plan.kept("order", self._order)
        ends, before = self._earliest(order)
        stuck = set(order.stuck)
        length = max(ends, default=-1)
        last = None if length < 0 else ends.index(length)
        path: list[int] = []
        while last is not None:
            path.append(self.entries[last].command_id)
            last = before[last]
        counts = self._counts(stuck)
        return Bounds(
            critical_path=max(0, length),
            path=tuple(dict.fromkeys(reversed(path))),
            depth=max((order.depths[i] for i in order.entries), default=0),
            dram=self._resources(counts, range(self.plan.channels), idle=self.own),
            links=self._resources(counts, range(self.plan.channels, len(self.plan.resources))),
            engines=self._engines(stuck),
            stuck=tuple(dict.fromkeys(self.entries[i].command_id for i in order.stuck)),
        )

    def _dependents(self) -> list[list[int]]:
        """For each entry, the indices of its dependents."""
        dependents: list[list[int]] = [[] for _ in self.entries]
        for i, waits in enumerate(self.waits):
            for other in waits:
                dependents[other].append(i)
        return dependents

    def _order(self) -> _Order:
        """An order in which the entries can be issued."""
        count = len(self.entries)
        dependents = self.plan.kept("dependents", self._dependents)
        missing = [len(waits) for waits in self.waits]
        depths = [1] * count
        able = [i for i in range(count) if missing[i] == 0]
        order = []
        while able:
            i = able.pop()
            order.append(i)
            for other in dependents[i]:
                depths[other] = max(depths[other], depths[i] + 1)
                missing[other] -= 1
                if missing[other] == 0:
                    able.append(other)
        return _Order(order, depths, [i for i in range(count) if missing[i]])

    def _earliest(self, order: _Order) -> tuple[list[int], list[int | None]]:
        """For each entry: earliest end (-1 if it is never issued), and its latest dependency."""
        dependents = self.plan.kept("dependents", self._dependents)
        ends = [-1] * len(self.entries)
        before: list[int | None] = [None] * len(self.entries)
        ready = [NEVER] * len(self.entries)  # the latest end of its dependencies
        cycles, period = self.cycles, self.period
        for i in order.entries:
            begin = max(0, ready[i])
            if period[i] != 1:
                begin = -(-begin // period[i]) * period[i]
            ends[i] = end = begin + cycles[i]
            for other in dependents[i]:
                if end > ready[other]:
                    before[other], ready[other] = i, end
        return ends, before
