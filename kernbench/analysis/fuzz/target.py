"""The targets of a search, and one run of a target: the final tensors, the status, and the order of its conflicting
accesses."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from kernbench.analysis.fuzz.orders import Op, Orders, Range, orders_of
from kernbench.cmdq.plan import Plan
from kernbench.cmdq.program import Program
from kernbench.common.dtypes import Array
from kernbench.common.errors import InputError, KernbenchError, Problem
from kernbench.config.machine import MachineConfig
from kernbench.runtime_api.tensors import DeviceTensor
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.engine import GraphEngine, KernelFailed, Runnable
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.perturbation import Draws, Perturbed, Ranges, perturbed
from kernbench.sim_engine.run.waits import wait_lines
from kernbench.sim_engine.verify import differences
from kernbench.triton_emu.memory.perturbed import Access

PATIENCE = 64  #: a run is taken as endless if it takes this many times the cycles of the reference run, and ...
SLACK = 10_000_000  #: ... [cycle] this many more cycles


@dataclass(frozen=True)
class Tensor:
    """The final elements of a tensor; None if not all of them were written."""

    elements: Array | None
    dtype: str
    #: whether atomic ops on floats wrote the tensor: sums in another order may then differ within the type's tolerance
    order_free: bool = False

    def differing(self, other: Tensor) -> int:
        """The number of elements that differ from the other tensor: in any bit or, if the tensor is order-free, by more than
        the tolerance."""
        a, b = self.elements, other.elements
        if a is None or b is None or a.shape != b.shape:
            return 0 if a is b else max(0 if one is None else one.size for one in (a, b))
        if self.order_free or other.order_free:
            return int(np.count_nonzero(differences(b, a, self.dtype)))
        bits = [np.ascontiguousarray(one).reshape(-1).view(np.uint8).reshape(one.size, -1) for one in (a, b)] if a.size else []
        return int(np.count_nonzero((bits[0] != bits[1]).any(axis=1))) if a.size else 0


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run."""

    status: str  #: done, aborted, deadlock, failed
    message: str  #: the message of a run that is not done
    cycles: int
    tensors: Mapping[str, Tensor]
    orders: Orders
    used: Mapping[tuple[str, str, int], int]  #: draws that were not 0
    jobs: Mapping[str, int] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The digest of everything that a replay must reproduce."""
        found = hashlib.sha256(f"{self.status} {self.cycles} {self.message}".encode())
        for name, one in sorted(self.tensors.items()):
            found.update(name.encode() + (b"" if one.elements is None else np.ascontiguousarray(one.elements).tobytes()))
        return found.hexdigest() + self.orders.digest.hex()


class Fuzzed(Protocol):
    """A target that runs repeatedly, each time on a new machine."""

    @property
    def name(self) -> str: ...

    @property
    def config(self) -> MachineConfig: ...

    def run(self, draws: Draws, ranges: Ranges, limit: int | None = None) -> Outcome: ...


@dataclass(frozen=True)
class FuzzedBench:
    """A target with kernels: a bench, a collective, or workers of `dist`."""

    name: str
    bench: Runnable
    params: Mapping[str, Any]
    config: MachineConfig
    strict_wait: bool = False
    order_free: frozenset[str] = frozenset()  #: tensors that depend on the order of the run by design

    def run(self, draws: Draws, ranges: Ranges, limit: int | None = None) -> Outcome:
        """`limit`: [cycle] a run that reaches this cycle is aborted."""
        run = Perturbed(draws, ranges)
        engine = GraphEngine(self.config, strict_wait=self.strict_wait)
        message = ""
        with redirect_stdout(io.StringIO()):  # the host's code and the kernels would print in every run
            with perturbed(run):
                machine = engine.prepare(self.bench, **self.params)
            machine.checks = False  # laws would compare with the machine without draws
            try:
                machine.run(cycles=limit)
                engine.check()
            except KernelFailed as error:
                message = str(error)
        status = machine.status if machine.status != "running" else "aborted"
        if status == "deadlock":
            message = _deadlock_text(machine)
        tensors: dict[str, Tensor] = {}
        if status == "done":
            named = self._compared(engine)
            try:
                tensors = self._tensors(engine, run, named)
            except KernbenchError as error:
                status, message = "failed", f"Phase 2: {error}"
        return Outcome(
            "failed" if message and status == "done" else status,
            message,
            machine.cycle,
            tensors,
            orders_of([_op(one) for one in run.accesses]),
            dict(draws.used),
            machine.submitted_jobs(),
        )

    def _tensors(self, engine: GraphEngine, run: Perturbed, named: Mapping[str, DeviceTensor]) -> dict[str, Tensor]:
        """The tensors in `named`, at the end of the run."""
        assert engine.op_log is not None
        store = DataExecutor(engine.op_log, threads=1).run().store
        found = {}
        atomics = [(one.low, one.high) for one in run.accesses if one.atomic]
        for name, tensor in named.items():
            if name in self.order_free and not is_float(tensor.dtype):
                continue  # no tolerance applies to this tensor
            elements: Array | None
            try:
                elements = tensor.host if not tensor.parts and tensor.host is not None else tensor.gather(store)
            except ValueError:  # some elements were never written
                elements = None
            free = name in self.order_free or any(
                low < part.physical + part.nbytes and part.physical < high for part in tensor.parts for low, high in atomics
            )
            found[name] = Tensor(elements, tensor.dtype, free and is_float(tensor.dtype))
        return found

    def _compared(self, engine: GraphEngine) -> Mapping[str, DeviceTensor]:
        """The outputs that the host's program names, or all its tensors if it names none. InputError if a name in `order_free`
        is not the name of a tensor."""
        context = engine.activity.context
        named: Mapping[str, DeviceTensor] = context.outputs or {
            name: one for name, one in context.tensors.items() if not name.startswith("scratch of ")
        }
        if unknown := self.order_free - named.keys():
            rule = f"no compared tensor has this name; the compared tensors are {', '.join(named)}"
            raise InputError(Problem(self.name, rule, "order_free", min(unknown)))
        return named


def is_float(dtype: str) -> bool:
    return dtype.startswith(("f", "bf"))


def _op(one: Access) -> Op:
    ranges = (Range("memory", one.low, one.high, one.write, one.atomic),)
    return Op(one.pe, one.number, one.what, one.line, ranges)


def _deadlock_text(machine: Machine) -> str:
    return "; ".join(wait_lines(machine.result().waiting)[:3]) or "nothing can happen any more"


@dataclass(frozen=True)
class FuzzedProgram:
    """A command queue. The queue has no data. A run is wrong if accesses to the same bytes act in another order than in the
    reference run."""

    name: str
    program: Program
    config: MachineConfig

    def run(self, draws: Draws, ranges: Ranges, limit: int | None = None) -> Outcome:
        """`limit`: [cycle] a run that reaches this cycle is aborted."""
        run = Perturbed(draws, ranges)
        with perturbed(run):
            machine = Machine(self.config, self.program)
        machine.checks = False
        machine.run(cycles=limit)
        status = machine.status if machine.status != "running" else "aborted"
        failure = machine.failure()
        message = _deadlock_text(machine) if status == "deadlock" else "" if failure is None else str(failure["message"])
        return Outcome(status, message, machine.cycle, {}, orders_of(_ops(machine)), dict(draws.used))


def _ops(machine: Machine) -> list[Op]:
    """The jobs that started, in the order of their starts."""
    started = [(one.start, one.end, k) for k, one in enumerate(machine.result().entries) if one.start is not None]
    ranges = _ranges(machine.plan)
    found = []
    for start, end, k in sorted(started, key=lambda one: (one[0], one[2])):
        entry = machine.rows.entries[k]
        if k in ranges and start is not None:
            over = end if end is not None else machine.cycle + 1
            found.append(Op("entry", entry.id, entry.opcode, "", ranges[k], start, over))
    return found


def _ranges(plan: Plan) -> dict[int, tuple[Range, ...]]:
    """The bytes that each job reads and writes, by the position of the job."""
    found: dict[int, tuple[Range, ...]] = {}
    moves = {name: column.tolist() for name, column in plan.program["dma"].items()}
    names = [f"scratchpad {k}" if len(plan.scratchpads) == 1 else plan.scratchpads[k] for k in range(len(plan.scratchpads))]
    for k, position in enumerate(moves["entry"]):
        spm = int(plan.machine["dma"][moves["engine"][k]]["spm"])
        first, size, rows, stride = moves["dram_addr"][k], moves["row_bytes"][k], moves["rows"][k], moves["stride"][k]
        store = bool(moves["write"][k])
        ranges = []
        if spm < len(names):
            at = moves["spm_addr"][k]
            ranges.append(Range(names[spm], at, at + size * rows, not store))
        if moves["peer"][k] >= 0:
            ranges.append(Range(names[moves["peer"][k]], first, first + size * rows, store))
        else:
            starts = range(first, first + max(1, rows) * max(1, stride), max(1, stride)) if rows > 1 else (first,)
            ranges += [Range("memory", one, one + size, store) for one in list(starts)[:rows]]
        found[position] = tuple(ranges)
    work = plan.program["compute"]
    owners = [int(spec["spm"]) for spec in plan.machine["compute"]]
    columns = [work[name].tolist() for name in ("entry", "engine", "regions", "region_addr", "region_bytes", "region_write")]
    for position, engine, count, addr, nbytes, write in zip(*columns, strict=True):
        if owners[engine] < len(names):
            where = names[owners[engine]]
            found[position] = tuple(
                Range(where, addr[r], addr[r] + nbytes[r], bool(write[r])) for r in range(count) if nbytes[r]
            )
    return found


def changed(reference: Outcome, other: Outcome) -> dict[str, int]:
    """The tensors that differ, with the number of elements that differ."""
    found = {name: one.differing(other.tensors[name]) for name, one in reference.tensors.items() if name in other.tensors}
    return {name: count for name, count in found.items() if count}


def plain_message(text: str) -> str:
    """A message without its numbers, so that two runs with the same kind of failure have equal messages."""
    return re.sub(r"\d+", "#", text)


def most_cycles(reference: Outcome) -> int:
    """[cycle] A run that reaches this cycle is taken as a run that does not end."""
    return reference.cycles * PATIENCE + SLACK


def check_reference(name: str, reference: Outcome) -> None:
    """InputError if the run without draws does not end, because other runs are compared with it."""
    if reference.status != "done":
        rule = f"its run without draws is {reference.status}: {reference.message or 'it reached max_cycles'}"
        raise InputError(Problem(name, rule, remedy="to see the reason, use kbsim run; remove the cause first"))
