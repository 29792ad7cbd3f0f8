"""The rules of docs/model in SimPy 4, for what the benchmark machines use: what the speed of the core is measured against.

It runs the tables that `kernbench_core.Core` takes (`simpy_tables.plan` reads them), gives the same start and end of every
job, and shares no code with the core.
Each active transfer, each TE or VE that streams operands and each resource with members is a process that lives by
`timeout(1)`. What waits a known time (head latency, init, finalize) waits in one timeout, which favours SimPy. One more process
judges the scratchpads of the cycle. A cycle `c` has four moments, and a process keeps to its own by starting at it:

    c + 0     P3     transfers start, or join their resources after their head latency
    c + 0.25  P4     resources whose members changed tell them
    c + 0.5   P5     transfers, TEs and VEs ask their scratchpad
    c + 0.75  P5-P7  scratchpads grant; bytes move; flows leave; transfers complete

Not modelled, and refused: rules other than `shared_bw_v1`, periods, the blocked map, split ports, overlap checks, an issue
width, dependencies, channels other than `act_weight`, 2-D transfers, a queue shallower than the transfers in flight.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import ceil, gcd
from typing import Any

import simpy

from tests.speed.simpy_banks import Requester, Scratchpad
from tests.speed.simpy_tables import ComputeJob, Plan, TransferJob

SHARE, ASK, GRANT = 0.25, 0.5, 0.75  # moments of a cycle; exact in binary

Steps = Generator[simpy.Event, Any, None]


class Resource:
    """A DRAM channel or one direction of a link: a process while it has members."""

    def __init__(self, env: simpy.Environment, num: int, den: int) -> None:
        self.env = env
        self.num = num  # capacity num / den bytes per cycle
        self.den = den
        self.weight = 0  # of all members
        self.members: list[Flow] = []
        self.changed = False
        self.used = env.event()
        self.busy = 0  # cycles with a member
        self.member_cycles = 0
        env.process(self.live())

    def join(self, flow: Flow) -> None:
        """The flow is a member from the next P4 on."""
        self.members.append(flow)
        self.weight += flow.weight
        self.changed = True
        if not self.used.triggered:
            self.used.succeed()

    def leave(self, flow: Flow) -> None:
        """The flow was a member in this cycle for the last time."""
        self.members.remove(flow)
        self.weight -= flow.weight
        self.changed = True

    def live(self) -> Steps:
        timeout = self.env.timeout
        while True:
            yield self.used
            yield timeout(ceil(self.env.now) + SHARE - self.env.now)
            while self.members:
                if self.changed:
                    self.changed = False
                    for flow in self.members:
                        flow.stale = True
                self.busy += 1
                self.member_cycles += len(self.members)
                yield timeout(1)
            self.used = self.env.event()


class Flow(Requester):
    """The bytes of a transfer on one channel."""

    __slots__ = (
        "asked", "carry", "den", "left", "limit", "next_piece", "num", "out", "pieces", "route", "scratchpad", "stale",
        "transfer", "weight",
    )  # fmt: skip

    def __init__(
        self, rank: int, weight: int, route: list[Resource], pieces: list[tuple[int, int]], scratchpad: Scratchpad
    ) -> None:
        super().__init__(rank)
        self.weight = weight
        self.route = route
        self.pieces = pieces  # (bit of the bank, bytes), in address order
        self.next_piece = 0
        self.left = sum(size for _, size in pieces)  # [B] not moved
        self.scratchpad = scratchpad
        self.transfer: Transfer
        self.num = 0  # rate num / den bytes per cycle, in lowest terms
        self.den = 1
        self.carry = 0  # [B / den]
        self.limit = 0  # the most of it that is kept
        self.stale = True  # its rate is to be worked out again
        self.out = False  # has left its resources for backpressure
        self.asked = 0  # [B] of the open request

    def join(self) -> None:
        for resource in self.route:
            resource.join(self)

    def leave(self) -> None:
        for resource in self.route:
            resource.leave(self)

    def share(self) -> None:
        """P4: the smallest share of the route; the carry keeps its value in bytes."""
        self.stale = False
        first = self.route[0]
        num, den = first.num * self.weight, first.den * first.weight
        for resource in self.route[1:]:
            n, d = resource.num * self.weight, resource.den * resource.weight
            if n * den < num * d:
                num, den = n, d
        common = gcd(num, den)
        self.num = num // common
        den //= common
        self.carry = self.carry * den // self.den
        self.den = den
        self.limit = den * self.scratchpad.row

    def step(self, cycle: int) -> None:
        """P5 of a cycle: accrue, and ask for the longest run of whole pieces."""
        if self.stale:
            self.share()
        if self.missing:
            return
        carry = self.carry + self.num
        reach = carry // self.den
        pieces = self.pieces
        k = self.next_piece
        banks = asked = 0
        while k < len(pieces):
            bank, size = pieces[k]
            if asked + size > reach or banks & bank:
                break
            banks |= bank
            asked += size
            k += 1
        if banks:
            carry -= asked * self.den
            self.next_piece = k
            self.asked = asked
            self.request(banks, cycle, self.scratchpad)
        self.carry = min(carry, self.limit)

    def served(self, cycle: int) -> None:
        self.left -= self.asked
        if not self.left:
            if not self.out:
                self.leave()
            self.transfer.flow_done(self, cycle)
        elif self.out:
            self.out = False
            self.join()

    def held(self, cycle: int) -> None:
        if not self.out and cycle - self.first_denied + 1 >= self.scratchpad.backpressure:
            self.out = True
            self.leave()


class Transfer:
    """A DMA job."""

    def __init__(self, job: TransferJob, flows: list[Flow]) -> None:
        self.head = job.head
        self.live = flows  # those with bytes left
        self.start: int | None = None
        self.end: int | None = None
        self.slots: simpy.Resource  # of its engine
        self.slot: Any  # the one it holds
        for flow in flows:
            flow.transfer = self

    def flow_done(self, flow: Flow, cycle: int) -> None:
        """P7: a flow's last byte has moved; after the last flow's, the engine's slot is free."""
        self.live.remove(flow)
        if not self.live:
            self.end = cycle + 1
            self.slots.release(self.slot)


class Compute:
    """A TE or VE job: the banks of each body cycle."""

    def __init__(self, job: ComputeJob) -> None:
        self.init = job.init
        self.banks = job.banks
        self.finalize = job.finalize
        self.start: int | None = None
        self.end: int | None = None


class SimpyMachine:
    """One run of a plan, from cycle 0."""

    def __init__(self, plan: Plan) -> None:
        machine = plan.machine
        env = self.env = simpy.Environment()
        self.resources = [
            Resource(env, int(num), int(den)) for num, den in zip(machine["resource_num"], machine["resource_den"], strict=True)
        ]
        self.scratchpads = [Scratchpad(table) for table in machine["spm"]]
        self.jobs: list[Transfer | Compute | None] = [None] * plan.entries
        queues: list[list[Transfer]] = [[] for _ in machine["dma"]]
        for job in plan.transfers:
            transfer = self.jobs[job.entry] = self._transfer(job, machine)
            queues[job.engine].append(transfer)
        work: list[list[Compute]] = [[] for _ in machine["compute"]]
        for task in plan.computes:
            compute = self.jobs[task.entry] = Compute(task)
            work[task.engine].append(compute)
        for engine, transfers in zip(machine["dma"], queues, strict=True):
            limit = min(engine["max_concurrent"], engine["channels"][0][0])
            env.process(self._dma(transfers, simpy.Resource(env, capacity=limit)))
        for engine, tasks in zip(machine["compute"], work, strict=True):
            env.process(self._compute(engine["kind"] << 56 | engine["id"] << 40, self.scratchpads[engine["spm"]], tasks))
        self.unfinished = len(self.jobs)
        env.process(self._judge())

    def run(self, cycles: int | None = None) -> None:
        """Run `cycles` cycles from the start, or to the end."""
        self.env.run(until=cycles)

    def entries(self) -> list[tuple[int | None, int | None]]:
        """(start, end) of each entry; None where that has not come."""
        return [(job.start, job.end) if job else (None, None) for job in self.jobs]

    def _transfer(self, job: TransferJob, machine: dict[str, Any]) -> Transfer:
        engine = machine["dma"][job.engine]
        scratchpad = self.scratchpads[engine["spm"]]
        flows = [
            Flow(
                job.engine << 40 | job.number << 8 | channel,
                engine["channels"][0][2],
                [self.resources[r] for r in job.routes[channel]],
                pieces,
                scratchpad,
            )
            for channel, pieces in sorted(job.pieces.items())
        ]
        return Transfer(job, flows)

    def _dma(self, transfers: Sequence[Transfer], slots: simpy.Resource) -> Steps:
        """A DMA engine: in queue order, as many at a time as it has slots."""
        for transfer in transfers:
            transfer.slots, transfer.slot = slots, slots.request()
            yield transfer.slot
            self.env.process(self._move(transfer))

    def _move(self, transfer: Transfer) -> Steps:
        """One transfer from its start on."""
        env, timeout = self.env, self.env.timeout
        transfer.start = ceil(env.now)
        yield timeout(transfer.start + transfer.head - env.now)
        for flow in transfer.live:
            flow.join()
        yield timeout(ASK)
        while transfer.live:
            cycle = int(env.now)
            for flow in transfer.live:
                flow.step(cycle)
            yield timeout(1)
        self.unfinished -= 1

    def _compute(self, rank: int, scratchpad: Scratchpad, tasks: Sequence[Compute]) -> Steps:
        """A TE or VE: one job after the other."""
        env, timeout = self.env, self.env.timeout
        requester = Requester(rank)
        yield timeout(ASK)
        for task in tasks:
            task.start = int(env.now)
            if task.init:
                yield timeout(task.init)
            for banks in task.banks:
                if banks:
                    requester.request(banks, int(env.now), scratchpad)
                yield timeout(1)
                while requester.missing:
                    yield timeout(1)
            if task.finalize:
                yield timeout(task.finalize)
            task.end = int(env.now)
            self.unfinished -= 1

    def _judge(self) -> Steps:
        """P5 to P7 of all scratchpads: one process for all is less work than one each."""
        env, timeout = self.env, self.env.timeout
        yield timeout(GRANT)
        while self.unfinished:
            cycle = int(env.now)
            for scratchpad in self.scratchpads:
                if scratchpad.waiting:
                    scratchpad.arbitrate(cycle)
            yield timeout(1)
