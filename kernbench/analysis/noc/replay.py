"""A recorded kernel's traffic on the simulated network: at its recorded times, or as its barriers allow."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import msgspec

from kernbench.analysis.noc.device import Device
from kernbench.analysis.noc.events import Do, Processor, Trace
from kernbench.analysis.noc.torus import Torus
from kernbench.analysis.noc.worms import Worms
from kernbench.cmdq.lower import resource_tables
from kernbench.cmdq.plan import Plan, plan_npu
from kernbench.cmdq.program import Program
from kernbench.common.errors import InputError, InternalError, Problem
from kernbench.components.base import COMPONENT, ComponentBase
from kernbench.config import NpuConfig, load_config
from kernbench.sim_engine.machine import Machine

Mode = Literal["recorded", "closed"]
LONGEST = 1 << 40  #: [cycle] of a replay


@dataclass(slots=True)
class Clerk:
    """One processor's progress."""

    processor: Processor
    at: int = 0  #: [cycle] simulated time of its last event
    awaited: int = 0  #: transfers that its barrier still waits for
    waits: list[tuple[int, int]] = field(default_factory=list)  #: ends of barriers [cycle]: recorded, simulated
    play: Generator[int | list[int], None, None] = field(init=False, repr=False)


class Replay(Worms, ComponentBase):
    """Plays processors' events. Gaps between the events of a processor are as recorded; the time of barriers is simulated.

    `recorded`: transfers are issued when they were. `closed`: when the gaps after the last barrier have passed.
    """

    no_snapshot = "a replay is run from its beginning to its end"

    def __init__(self, trace: Trace, device: Device, mode: Mode) -> None:
        super().__init__(device)
        self.trace, self.mode = trace, mode
        self.flows = sum((len(t.targets) + 1) * (t.nbytes // device.packet_bytes + 1) for t in trace.transfers) or 1
        self.jobs = 1
        self.clerks = [Clerk(processor) for processor in trace.processors]
        self._clerk_of: dict[int, Clerk] = {}  # by transfer, if a barrier waits for it
        self.left = len(trace.transfers) + len(self.clerks)

    def begin(self, now: int) -> None:
        self.submit(COMPONENT, 0)  # flows may all be over while something is still to come
        if self.mode == "recorded":
            for transfer in self.trace.transfers:
                self.clock.at(transfer.at, self.send, transfer)
        for clerk in self.clerks:
            clerk.play = self._play(clerk)
            self._go_on(clerk, now)

    def finished(self, transfer: int, now: int) -> None:
        clerk = self._clerk_of.pop(transfer, None)
        if clerk is not None:
            clerk.awaited -= 1
            if not clerk.awaited:
                self._go_on(clerk, now)

    def _go_on(self, clerk: Clerk, now: int) -> None:
        """Replay a processor up to its next wait: for a time or for transfers."""
        for wanted in clerk.play:
            if isinstance(wanted, int):
                if wanted > now:
                    self.clock.at(wanted, self._go_on, clerk)
                    return
                continue
            open_ones = [index for index in wanted if index not in self.ends]
            if open_ones:
                clerk.awaited = len(open_ones)
                self._clerk_of |= dict.fromkeys(open_ones, clerk)
                return
        self.left -= 1

    def _play(self, clerk: Clerk) -> Generator[int | list[int], None, None]:
        events = clerk.processor.events
        sent: dict[str, list[int]] = {"read": [], "write": []}
        clerk.at = before = events[0].at
        for event in events:
            gap, before = event.at - before, event.at
            if event.do is Do.WAIT and sent[event.waits]:
                yield sent[event.waits]
                done = max(self.ends[index] for index in sent[event.waits])
                clerk.at = max(clerk.at + min(gap, self.device.barrier_cycles), done + self.device.barrier_cycles // 2)
                clerk.waits.append((event.at, clerk.at))
                sent[event.waits] = []
                continue
            clerk.at += gap
            if event.transfer is not None:
                if self.mode == "closed":
                    yield clerk.at
                    self.send(event.transfer, clerk.at)
                else:
                    clerk.at = event.at
                sent["read" if event.transfer.read else "write"].append(event.transfer.index)


def replayed(trace: Trace, device: Device, mode: Mode, slower: Fraction = Fraction(1)) -> Replay:
    """The replay, run to its end. `slower`: a divisor of the bandwidth of links, for a test that must notice it.

    InputError if it would take more than LONGEST cycles.
    """
    replay = Replay(trace, device, mode)
    program = Program(trace.name)
    key = "plan", slower
    if key not in device.kept:
        config = load_config(_machine(device), kind=NpuConfig)
        device.kept[key] = config, _plan(config, program, device, slower)
    config, plan = device.kept[key]
    machine = Machine(config, program, {"replay": replay}, plan=msgspec.structs.replace(plan))
    machine.run()
    if machine.status == "aborted":
        raise InputError(Problem(trace.name, f"it takes more than {LONGEST} cycles, the limit of a replay"))
    if machine.status != "done":
        raise InternalError(f"noc replay: {trace.name} ends {machine.status}: {machine.failure()}")
    return replay


def _machine(device: Device) -> dict[str, Any]:
    """An NPU with the device's controllers."""
    return {"max_cycles": LONGEST, "dram": {"channels": len(device.controllers)}}


def _plan(config: NpuConfig, program: Program, device: Device, slower: Fraction) -> Plan:
    """An NPU without a queue, whose resources are the networks'."""
    plan, torus = plan_npu(program, config), Torus(device)
    capacities = [capacity / slower for capacity in torus.capacities()]
    machine = plan.machine | resource_tables(capacities)
    return msgspec.structs.replace(plan, machine=machine, resources=tuple(torus.names()), capacities=tuple(capacities))
