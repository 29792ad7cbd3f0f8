"""Lower bounds of a run's cycles, known before it: no simulation of the program on this machine ends earlier.

Each bound follows from a rule of docs/model: a resource never moves more than its capacity times the cycles (sharing.md),
an engine works on one job at a time (compute.md) or on a limited number (dma.md), and a job starts when what it waits for has
ended (control.md). They hold for runs that end `done`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from kernbench.cmdq.depend import predecessors
from kernbench.cmdq.entries import Entry
from kernbench.cmdq.footprint import Transfer, channel_bytes, service_cycles, transfer_of
from kernbench.cmdq.program import Program
from kernbench.common import naming
from kernbench.common.units import ceil_div
from kernbench.config.schema import NpuConfig
from kernbench.topology.mesh import Link, mesh_route


@dataclass(frozen=True, slots=True)
class Alone:
    """One job by itself. A transfer's `cycles` are a lower bound; scratchpad conflicts with itself may add to them."""

    cycles: int  #: from start to end; 0 for control entries
    period: int = 1  #: it starts in multiples of this
    occupies: int = 0  #: cycles for which its engine, or one of a DMA engine's places, is taken
    transfer: Transfer | None = None
    dram: tuple[int, ...] = ()  #: [byte] of a transfer per DRAM channel
    links: tuple[tuple[Link, int], ...] = ()  #: [byte] of a transfer per mesh link on its way
    resources: tuple[tuple[int, int], ...] = ()  #: of a system, instead of both: number of a resource, [byte] on it


_CONTROL = Alone(0)


def jobs_alone(entries: Sequence[Entry], config: NpuConfig) -> list[Alone]:
    """Each entry's job by itself, on a machine for which `check_program` accepts them."""
    machine = _Machine(config)
    return [machine.alone(entry) for entry in entries]


@dataclass(frozen=True, slots=True)
class _Route:
    """The way of a flow between a DMA engine and a DRAM channel."""

    links: tuple[Link, ...]
    latency: int  #: [cycle] of its links
    capacity: Fraction  #: [byte/cycle] that a flow alone on it can reach


@dataclass(frozen=True, slots=True)
class _Way:
    """What transfers of one engine and direction that move as many bytes on every channel have in common."""

    cycles: int  #: at least
    links: tuple[tuple[Link, int], ...]  #: [byte] on each


class _Machine:
    """The machine's numbers that many jobs need, computed once."""

    def __init__(self, config: NpuConfig) -> None:
        self.config = config
        self._routes: dict[tuple[int, int, bool], _Route] = {}
        self._ways: dict[tuple[int, bool, tuple[int, ...]], _Way] = {}  # programs move a few shapes very often

    def alone(self, entry: Entry) -> Alone:
        """The job of one entry."""
        if entry.engine == "control":
            return _CONTROL
        if entry.engine == "dma":
            return self._transfer(entry.engine_id, transfer_of(entry, self.config))
        period = self.config.te.period if entry.engine == "te" else self.config.ve.period
        work = service_cycles(entry, self.config).total
        return Alone((work - 1) * period + 1, period, work * period)

    def _route(self, engine: int, channel: int, write: bool) -> _Route:
        key = engine, channel, write
        found = self._routes.get(key)
        if found is None:
            found = self._routes[key] = self._new_route(engine, channel, write)
        return found

    def _new_route(self, engine: int, channel: int, write: bool) -> _Route:
        spm, noc = self.config.spm, self.config.noc
        # A flow asks for one line of a bank at most once a cycle, so a row of banks is all it can move.
        capacity = min(self.config.dram.capacity, Fraction(spm.num_banks * spm.bank_width_bytes))
        if noc is None:
            return _Route((), 0, capacity)
        ends = noc.dram_at[channel], noc.dma_at[engine]
        links = tuple(mesh_route(*(ends[::-1] if write else ends)))
        if links:
            capacity = min(capacity, noc.link_bytes_per_cycle)
        return _Route(links, len(links) * noc.hop_latency_cycles, capacity)

    def _transfer(self, engine: int, transfer: Transfer) -> Alone:
        dram = channel_bytes(transfer, self.config.dram)
        key = engine, transfer.write, dram
        way = self._ways.get(key)
        if way is None:
            way = self._ways[key] = self._new_way(*key)
        return Alone(way.cycles, self.config.dma.period, way.cycles, transfer, dram, way.links)

    def _new_way(self, engine: int, write: bool, dram: tuple[int, ...]) -> _Way:
        on_link: dict[Link, int] = {}
        latency, moving = 0, 1
        for channel, nbytes in enumerate(dram):
            if nbytes:
                route = self._route(engine, channel, write)
                latency = max(latency, route.latency)
                moving = max(moving, -(-nbytes * route.capacity.denominator // route.capacity.numerator))
                for link in route.links:
                    on_link[link] = on_link.get(link, 0) + nbytes
        if on_link and self.config.noc is not None:
            moving = max(moving, ceil_div(max(on_link.values()), self.config.noc.link_bytes_per_cycle))
        return _Way(self.config.dram.t_setup_cycles + latency + moving, tuple(on_link.items()))


CRITICAL_PATH = "critical path"


@dataclass(frozen=True)
class Bounds:
    """Cycles that a run takes at least, one bound a reason."""

    critical_path: int  #: the longest chain of jobs that wait for each other, each at its full speed
    path: tuple[int, ...]  #: ids along that chain
    depth: int  #: entries on the longest chain, counted in entries
    dram: dict[str, int]  #: per DRAM channel: its bytes at its capacity
    links: dict[str, int]  #: per mesh link that has traffic: its bytes at its capacity
    engines: dict[
        str, int
    ]  #: per engine with jobs: their service times, one after the other or as many at a time as may be
    stuck: tuple[int, ...]  #: ids that can never be issued: the run ends in a deadlock; they count in no bound

    @property
    def cycles(self) -> int:
        """The largest of the bounds."""
        return max([self.critical_path, *self.dram.values(), *self.links.values(), *self.engines.values()])

    @property
    def limit(self) -> str:
        """The name of the largest: `critical path`, or a resource's or engine's. The first of equals, in this order."""
        named = {CRITICAL_PATH: self.critical_path, **self.dram, **self.links, **self.engines}
        return max(named, key=lambda name: named[name])

    def to_dict(self) -> dict[str, Any]:
        """As results write them: the largest, its name, the critical path, then every resource and engine."""
        head = {"cycles": self.cycles, "limit": self.limit, "critical_path": self.critical_path}
        return {**head, **self.dram, **self.links, **self.engines}


def lower_bounds(program: Program, config: NpuConfig) -> Bounds:
    """The bounds of a program that `check_program` accepts for this machine."""
    return bounds_of(program.entries, jobs_alone(program.entries, config), config)


def bounds_of(entries: Sequence[Entry], jobs: Sequence[Alone], config: NpuConfig) -> Bounds:
    """The bounds of entries whose jobs are known one by one."""
    return _NpuRun(entries, jobs, config).bounds()


class Run:
    """The jobs of one program on one machine, and who waits for whom. What is shared, each kind of machine says itself."""

    def __init__(self, entries: Sequence[Entry], jobs: Sequence[Alone]) -> None:
        self.entries = entries
        self.jobs = jobs

    def dram(self, runs: Iterable[int]) -> dict[str, int]:
        """Cycles of each DRAM channel for the jobs at indices `runs`."""
        raise NotImplementedError

    def links(self, runs: Iterable[int]) -> dict[str, int]:
        """The same of each link that has traffic."""
        raise NotImplementedError

    def engines(self, runs: Iterable[int]) -> dict[str, int]:
        """The same of each engine that has jobs."""
        raise NotImplementedError

    @cached_property
    def waits(self) -> list[tuple[int, ...]]:
        """Per entry, indices of what it waits for, barriers and END included."""
        barrier: int | None = None
        waits = []
        for i, (entry, explicit) in enumerate(zip(self.entries, predecessors(self.entries), strict=True)):
            implicit: Iterable[int] = range(i) if entry.opcode == "END" else () if barrier is None else (barrier,)
            waits.append(tuple(sorted({*explicit, *implicit})))
            if entry.opcode == "BARRIER":
                barrier = i
        return waits

    def bounds(self) -> Bounds:
        ends, before, depths = self._earliest()
        runs = [i for i, end in enumerate(ends) if end is not None]
        last = max(runs, key=lambda i: (ends[i], -i), default=None)
        path: list[int] = []
        while last is not None:
            path.append(self.entries[last].id)
            last = before[last]
        return Bounds(
            critical_path=max((end for end in ends if end is not None), default=0),
            path=tuple(reversed(path)),
            depth=max((depths[i] for i in runs), default=0),
            dram=self.dram(runs),
            links=self.links(runs),
            engines=self.engines(runs),
            stuck=tuple(entry.id for entry, end in zip(self.entries, ends, strict=True) if end is None),
        )

    def _earliest(self) -> tuple[list[int | None], list[int | None], list[int]]:
        """Per entry: earliest end (None: never issued), what it waited for longest, entries on its longest chain."""
        count = len(self.entries)
        dependents: list[list[int]] = [[] for _ in range(count)]
        missing = [len(waits) for waits in self.waits]
        for i, waits in enumerate(self.waits):
            for other in waits:
                dependents[other].append(i)
        ends: list[int | None] = [None] * count
        before: list[int | None] = [None] * count
        ready, depths = [0] * count, [1] * count
        able = [i for i in range(count) if missing[i] == 0]
        while able:
            i = able.pop()
            job = self.jobs[i]
            end = ceil_div(ready[i], job.period) * job.period + job.cycles
            ends[i] = end
            for other in dependents[i]:
                if before[other] is None or end > ready[other]:
                    before[other], ready[other] = i, end
                depths[other] = max(depths[other], depths[i] + 1)
                missing[other] -= 1
                if missing[other] == 0:
                    able.append(other)
        return ends, before, depths


class _NpuRun(Run):
    def __init__(self, entries: Sequence[Entry], jobs: Sequence[Alone], config: NpuConfig) -> None:
        super().__init__(entries, jobs)
        self.config = config

    def dram(self, runs: Iterable[int]) -> dict[str, int]:
        totals = [0] * self.config.dram.channels
        for i in runs:
            for channel, nbytes in enumerate(self.jobs[i].dram):
                totals[channel] += nbytes
        return {naming.dram_channel(c): ceil_div(n, self.config.dram.capacity) for c, n in enumerate(totals)}

    def links(self, runs: Iterable[int]) -> dict[str, int]:
        totals: dict[Link, int] = {}
        for i in runs:
            for link, nbytes in self.jobs[i].links:
                totals[link] = totals.get(link, 0) + nbytes
        if self.config.noc is None:
            return {}
        capacity = self.config.noc.link_bytes_per_cycle
        return {naming.mesh_link(*link): ceil_div(totals[link], capacity) for link in sorted(totals)}

    def engines(self, runs: Iterable[int]) -> dict[str, int]:
        """A TE or VE takes its jobs one by one; with a period, only after the last of them is nothing waited for.

        A DMA engine has at most `max_concurrent_transfers` at a time, and as many as its channels have together.
        """
        totals: dict[tuple[int, str, int], int] = {}
        for i in runs:
            entry = self.entries[i]
            if entry.engine != "control":
                key = (("dma", "te", "ve").index(entry.engine), entry.engine, entry.engine_id)
                totals[key] = totals.get(key, 0) + self.jobs[i].occupies
        at_a_time = self.config.dma.at_a_time
        saved = {"te": self.config.te.period - 1, "ve": self.config.ve.period - 1}
        return {
            naming.engine(kind, number): ceil_div(total, at_a_time) if kind == "dma" else total - saved[kind]
            for (_, kind, number), total in sorted(totals.items())
        }
