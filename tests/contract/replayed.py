"""A component that submits the jobs of a program when the command queue issued them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernbench import JOB, NEVER, Component, Machine, Program
from kernbench.cmdq.dependencies import predecessors
from kernbench.cmdq.entries import KvEntry
from kernbench.cmdq.plan import Plan, parameters_of
from kernbench_core import EngineType

CPU = 6  # kind of an M_CPU in a plan


@dataclass(frozen=True)
class Given:
    """A job of the queue: which entry, when it was issued, and what it is to `submit`."""

    entry: int
    issue: int
    kind: int
    engine: int
    params: tuple[int, ...]
    regions: tuple[tuple[int, int, int], ...]
    way: tuple[int, int, bool] | None = None  #: of a transfer on a system: DMA engine, address, whether to the memory
    peer: int = -1  #: of a transfer between scratchpads: the other PE


class Replays(Component):
    """Submits `given` in their order, each in its cycle, and asks for routes only then; knows when each started and ended.

    A job of its own keeps the run going.
    """

    def __init__(self, jobs: int) -> None:
        super().__init__()
        self.jobs, self.flows = jobs + 1, 0
        self.given: list[Given] = []
        self.plan: Plan | None = None
        self.machine: Machine | None = None
        self.of: Program | None = None  #: whose entries they are
        self.at = 0
        self.own = -1
        self.entry_of: dict[int, int] = {}
        self.times: dict[int, tuple[int, int]] = {}

    def step(self, now: int) -> int:
        if now == 0:
            self.submit(EngineType.COMPONENT, 0)
        while self.at < len(self.given) and self.given[self.at].issue == now:
            job = self.given[self.at]
            params = job.params + self.way(*job.way, job.peer) if job.way is not None else job.params
            number = self.submit(job.kind, job.engine, params, job.regions)
            self.entry_of[number] = job.entry
            self.describe(number, job.entry)
            self.at += 1
        return self.given[self.at].issue if self.at < len(self.given) else NEVER

    def describe(self, number: int, position: int) -> None:
        """Tell the trace what the entry was, where there is one."""
        commands = self.machine.commands if self.machine is not None else None
        if commands is None or self.of is None:
            return
        entries = self.of.entries
        entry = entries[position]
        meta = {name: value for name, value in entry.meta.items() if value is not None}
        if isinstance(entry, KvEntry):
            meta["head_id"] = entry.head_id
        deps = [entries[other].id for other in predecessors(entries)[position]]
        commands.add(number, entry.opcode, id=entry.id, deps=deps, **meta)

    def way(self, engine: int, address: int, write: bool, peer: int) -> tuple[int, ...]:
        """Memory and route of a transfer on a system, and its peer; room there is made for each."""
        assert self.plan is not None and self.plan.reach is not None and self.machine is not None
        by_pes, reach = self.plan.with_scratchpad, self.plan.reach
        if peer >= 0:
            own = engine * len(reach.pes) // by_pes
            self.machine.open_peers([int(pe == peer) for pe in range(len(reach.pes))])
            return (*reach.peer_route(*((own, peer) if write else (peer, own))), peer)
        if engine >= by_pes:
            return reach.host_route(engine - by_pes, address, write)
        return reach.route_to(engine * len(reach.pes) // by_pes, address, write)

    def accept(self, job: Any, now: int) -> int:
        self.own = job.id
        return NEVER

    def notify(self, notice: int, number: int, now: int) -> int:
        assert notice == JOB
        if number in self.entry_of:
            self.times[self.entry_of[number]] = (self.started(number), now + 1)
            if len(self.times) == len(self.given):
                self.complete(self.own)
        return NEVER


def given_of(run: Machine, whole: Machine) -> list[Given]:
    """The jobs of a run that is over, for `whole`: a machine that has no queue. Orders of KV stores are the queue's own."""
    plan = run.plan
    op, job = (plan.program[name].tolist() for name in ("op", "job"))
    times = run.result().entries
    order = sorted((k for k, kind in enumerate(op) if kind < 2), key=lambda k: run._core.number_of(k))
    jobs = {True: _transfer, False: _work}
    return [jobs[op[k] == 0](run, whole, k, job[k], times[k].issue) for k in order]


def _transfer(run: Machine, whole: Machine, entry: int, job: int, issue: Any) -> Given:
    row, engine = run.plan.transfer(entry), whole.plan.dma.index(run.plan.units[entry])
    params = tuple(row[name] for name in ("channel", "write", "dram_addr", "row_bytes", "stride", "rows"))
    way = (engine, row["dram_addr"], bool(row["write"])) if whole.plan.whole else None
    peer = -1 if row["peer"] < 0 else whole.plan.scratchpads.index(run.plan.scratchpads[row["peer"]])
    return Given(entry, issue, 0, engine, params, ((row["spm_addr"], run.plan.bytes_of(entry), 1 - row["write"]),), way, peer)


def _work(run: Machine, whole: Machine, entry: int, job: int, issue: Any) -> Given:
    row, table = run.plan.service(entry), run.plan.program["compute"]
    engine = whole.plan.machine["compute"][whole.plan.compute.index(run.plan.units[entry])]
    columns = [table[f"region_{what}"][job].tolist() for what in ("addr", "bytes", "write")]
    regions = tuple(zip(*columns, strict=True))[: row["regions"]]
    kind = EngineType.CPU if engine["kind"] == CPU else engine["kind"]
    params = tuple(parameters_of(run.program.entries[entry], run.plan))
    return Given(entry, issue, int(kind), engine["id"], params, regions)


def prepared(run: Machine, *, whole: bool) -> tuple[Machine, Replays]:
    """A machine in which a component will submit the same jobs as those of a run that is over."""
    part = Replays(len(run.program.entries))
    again = Machine(run.config, Program("none"), {"part": part}, whole=whole)
    part.plan, part.given = again.plan, given_of(run, again)
    part.machine, part.of = again, run.program
    return again, part


def replay(run: Machine, *, whole: bool, skip: bool = True, seed: int = 0) -> tuple[Machine, Replays]:
    """That, and its run."""
    again, part = prepared(run, whole=whole)
    again.shuffle_lists(seed)
    again.run(skip=skip)
    return again, part
