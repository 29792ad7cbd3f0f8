"""Lower bounds of a run on a system, from its plan: what `kernbench.bounds.program` says of one NPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from kernbench.bounds.program import Alone, Bounds, Run
from kernbench.cmdq.entries import Entry
from kernbench.cmdq.plan import Plan
from kernbench.cmdq.program import Program
from kernbench.common.units import ceil_div


def plan_bounds(program: Program, plan: Plan) -> Bounds:
    """The bounds of a program from its plan."""
    jobs = _Jobs(plan)
    return _PlanRun(program.entries, [jobs.alone(index) for index in range(len(program.entries))], plan).bounds()


class _Jobs:
    """Each entry's job by itself, from the plan's tables."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.op = plan.program["op"].tolist()
        self.start, self.path = plan.machine["route_start"].tolist(), plan.machine["route_path"].tolist()
        self.latency = plan.machine["route_latency"].tolist()
        spm = plan.machine["spm"]
        self.row = [table["banks"] * table["line"] for table in spm]  # [B] a flow asks for no more in a cycle

    def alone(self, index: int) -> Alone:
        """The job of one entry."""
        if self.op[index] > 1:
            return Alone(0)
        return self._transfer(index) if self.op[index] == 0 else self._work(index)

    def _work(self, index: int) -> Alone:
        row = self.plan.service(index)
        work = row["init"] + row["body"] + row["finalize"]
        period = self.plan.machine["compute"][row["engine"]]["period"]
        return Alone((work - 1) * period + 1, period, work * period)

    def _transfer(self, index: int) -> Alone:
        move = self.plan.transfer(index)
        engine = self.plan.machine["dma"][move["engine"]]
        memory = self.plan.machine["memories"][move["memory"]]
        row = Fraction(self.row[engine["spm"]])
        on: dict[int, int] = {}
        latency, moving = 0, 1
        for channel, nbytes in enumerate(self.plan.channel_bytes(index)):
            if nbytes == 0:
                continue
            route = move["route"] + channel
            resources = self.path[self.start[route] : self.start[route + 1]]
            for resource in resources:
                on[resource] = on.get(resource, 0) + nbytes
            latency = max(latency, self.latency[route])
            moving = max(moving, ceil_div(nbytes, min([row, *(self.plan.capacities[r] for r in resources)])))
        moving = max([moving, *(ceil_div(n, self.plan.capacities[r]) for r, n in on.items())])
        cycles = memory["setup"] + latency + moving
        return Alone(cycles, engine["period"], cycles, resources=tuple(on.items()))


class _PlanRun(Run):
    def __init__(self, entries: Sequence[Entry], jobs: Sequence[Alone], plan: Plan) -> None:
        super().__init__(entries, jobs)
        self.plan = plan

    def _resources(self, runs: Iterable[int], numbers: range) -> dict[str, int]:
        totals: dict[int, int] = {}
        for i in runs:
            for resource, nbytes in self.jobs[i].resources:
                totals[resource] = totals.get(resource, 0) + nbytes
        plan = self.plan
        return {plan.resources[r]: ceil_div(totals[r], plan.capacities[r]) for r in numbers if r in totals}

    def dram(self, runs: Iterable[int]) -> dict[str, int]:
        return self._resources(runs, range(self.plan.channels))

    def links(self, runs: Iterable[int]) -> dict[str, int]:
        return self._resources(runs, range(self.plan.channels, len(self.plan.resources)))

    def engines(self, runs: Iterable[int]) -> dict[str, int]:
        plan = self.plan
        dma: dict[int, int] = {}
        work: dict[int, int] = {}
        for i in runs:
            op, job = int(plan.program["op"][i]), int(plan.program["job"][i])
            if op > 1:
                continue
            table, totals = (plan.program["dma"], dma) if op == 0 else (plan.program["compute"], work)
            engine = int(table["engine"][job])
            totals[engine] = totals.get(engine, 0) + self.jobs[i].occupies
        out = {plan.dma[k]: ceil_div(n, plan.machine["dma"][k]["max_concurrent"]) for k, n in sorted(dma.items())}
        saved = [engine["period"] - 1 for engine in plan.machine["compute"]]
        return out | {plan.compute[k]: n - saved[k] for k, n in sorted(work.items())}
