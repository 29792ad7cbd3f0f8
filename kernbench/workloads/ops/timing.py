"""The time of an operation on a chip under a runtime profile: planned, simulated, and cached by content."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

from kernbench.common.errors import InputError, Problem
from kernbench.config import NpuConfig
from kernbench.config.runtime import Runtime, load_runtime
from kernbench.sim_engine.machine import Machine
from kernbench.workloads.ops.attention import plan_attention
from kernbench.workloads.ops.chip_view import ChipView
from kernbench.workloads.ops.collectives import plan_collective
from kernbench.workloads.ops.kernel import Kernel
from kernbench.workloads.ops.operation import Attention, Collective, Operation, Product, Vector
from kernbench.workloads.ops.products import plan_product
from kernbench.workloads.ops.program import Launch, host_machine, launches_program, queue_room
from kernbench.workloads.ops.vectors import plan_vector

MAX_ENTRIES = 20_000  #: jobs or transfers of one part of a kernel


@dataclass(frozen=True, slots=True)
class Timed:
    """The time of an operation, and its causes."""

    ns: float
    kernel: Kernel
    causes: dict[str, float] = field(default_factory=dict)  #: [ns] that each part would take alone


class OperationTimer:
    """Times operations on one machine under one profile."""

    def __init__(self, machine: NpuConfig, runtime: Runtime, *, simulate: bool = True) -> None:
        self.view = ChipView.of(machine)
        self.runtime = runtime
        self.simulate = simulate
        self._machine = host_machine(machine) if simulate else machine
        self.machine = machine
        self._traced: OperationTimer | None = None
        self._one_core: OperationTimer | None = None
        self._known: dict[Operation, Timed] = {}
        self._device: dict[Operation, float] = {}
        self._cycles: dict[tuple[Launch, ...], float] = {}

    def launch(self, op: Operation) -> Launch:
        """The kernel of an operation, and the time of the host around it."""
        runtime, view = self.runtime, self.view
        name = op.name
        cost = runtime.cost(name, op.kind)
        chip = view.chip
        start = {"none": 0.0, "stream": float(chip.start_ns), "graph": float(chip.graph_start_ns)}[runtime.start]
        kernel = self.plan(op)
        begin = view.cycles(start * cost.kernels) + kernel.start
        if not isinstance(op, Vector):
            chain = view.chain(cost)
            loads = (1.0 if chain is None else chain) if kernel.nbytes else 0.0
            begin += view.cycles(float(cost.start_ns)) + loads * view.latency
        whole = Kernel(
            kernel.name, kernel.engine, kernel.body, kernel.read_bytes, kernel.write_bytes, begin, kernel.after, kernel.serial,
            kernel.notes,
        )  # fmt: skip
        return Launch(
            whole, view.cycles(float(runtime.launch(op.name, op.kind))), view.cycles(float(runtime.behind(op.name, op.kind))),
            view.cycles(float(runtime.sync_ns)),
        )  # fmt: skip

    def plan(self, op: Operation) -> Kernel:
        """The kernel that the planner chooses."""
        if isinstance(op, Product):
            return plan_product(self.view, op, self.runtime.cost(op.name, op.kind), float(self.runtime.pause_ns))
        if isinstance(op, Attention):
            return plan_attention(self.view, op, self.runtime.attention)
        if isinstance(op, Collective):
            return plan_collective(self.view, op, self.runtime)
        return plan_vector(self.view, op, self.runtime.cost(op.name, op.kind))

    def traced(self) -> OperationTimer:
        """The same with launches from a trace or a graph, by the profile `NAME_trace`."""
        if self._traced is None:
            self._traced = OperationTimer(self.machine, load_runtime("ttnn_trace"), simulate=self.simulate)
        return self._traced

    def one_core(self) -> OperationTimer:
        """The same on one core, which has all of DRAM and its share of the scratchpad."""
        cores = self.view.chip.cores
        if cores == 1:
            return self
        if self._one_core is None:
            machine = self.machine
            assert machine.chip is not None
            parts = {
                "chip": machine.chip.model_copy(update={"cores": 1}),
                "te": machine.te.model_copy(update={"macs_per_cycle": machine.te.macs_per_cycle / cores}),
                "ve": machine.ve.model_copy(update={"lanes": max(1, machine.ve.lanes // cores)}),
                "spm": machine.spm.model_copy(update={"bank_size_bytes": machine.spm.bank_size_bytes // cores}),
            }
            self._one_core = OperationTimer(machine.model_copy(update=parts), self.runtime, simulate=self.simulate)
        return self._one_core

    def time(self, op: Operation) -> Timed:
        """The time of one operation alone."""
        if op not in self._known:
            launch = self.launch(op)
            cycles = self.cycles((launch,))
            if self.runtime.repeated:  # what one more takes
                cycles = self.cycles((launch, launch)) - cycles
            self._known[op] = Timed(cycles / self.view.freq, launch.kernel, self._causes(launch))
        return self._known[op]

    def causes(self, op: Operation, *, step: bool = False) -> dict[str, float]:
        """[ns] that each part of an operation would take alone, its body by engine (`te`, `ve`). Nothing is simulated.

        `step`: the operation is one of a step of a model, for which the host does not wait.
        """
        launch = self.launch(op)
        if step:
            launch = replace(launch, launch=self.view.cycles(float(self.runtime.step_launch(op.name, op.kind))), sync=0.0)
        found = self._causes(launch)
        if "body" in found:
            found[launch.kernel.engine] = found.pop("body")
        return found

    def device_ns(self, op: Operation) -> float:
        """The time of one operation on the device, without the host."""
        if op not in self._device:
            self._device[op] = self.cycles((Launch(self.launch(op).kernel),)) / self.view.freq
        return self._device[op]

    def cycles(self, launches: tuple[Launch, ...], step: float = 0.0) -> float:
        """The cycles of kernels in sequence, and of the work of the host after them."""
        if not self.simulate:
            return estimated_cycles(self.view, launches, self.runtime.ahead) + step
        key = launches
        if key not in self._cycles:
            self._check_size(launches)
            machine = Machine(self._machine, launches_program("operation", self._machine, launches, ahead=self.runtime.ahead))
            machine.run()
            self._cycles[key] = machine.cycle
        return self._cycles[key] + step

    def _check_size(self, launches: tuple[Launch, ...]) -> None:
        """InputError if the command queue would be too long to simulate."""
        most = float(queue_room(self._machine)) * MAX_ENTRIES
        for one in launches:
            kernel = one.kernel
            work = max(one.launch, one.behind, one.sync, kernel.start, kernel.body, kernel.after, kernel.nbytes)
            if work > most:
                rule = f"{work:.3g} cycles or bytes of one part, but the simulation of an operation takes at most {most:.3g}"
                raise InputError(Problem(self.machine.source, rule, kernel.name, remedy="take a smaller shape"))

    def _causes(self, launch: Launch) -> dict[str, float]:
        kernel, view = launch.kernel, self.view
        parts = {
            "host": launch.launch + launch.sync,
            "start": kernel.start,
            "body": kernel.body,
            "memory": kernel.nbytes / view.memory_rate,
            "after": kernel.after,
        }
        return {name: cycles / view.freq for name, cycles in parts.items() if cycles}


def estimated_cycles(view: ChipView, launches: tuple[Launch, ...], ahead: int = 1) -> float:
    """The cycles of the launches, computed from the times of host and kernels without a simulation."""
    host = device = 0.0  # when the host is free, and the device
    ends: list[float] = []
    for number, one in enumerate(launches):
        host = max(host, ends[number - ahead] if number >= ahead else 0.0) + one.launch
        begin = max(host, device)
        device = begin + one.kernel.cycles(view.memory_rate)
        ends.append(device)
        host += one.behind
        if one.sync:
            host = device = max(host, device) + one.sync
    return max(host, device)


@lru_cache(maxsize=64)
def timer(machine: NpuConfig, runtime: str, *, simulate: bool = True) -> OperationTimer:
    """The timer of a machine and a profile of the package."""
    from kernbench.config.runtime import load_runtime

    return OperationTimer(machine, load_runtime(runtime), simulate=simulate)
