"""A graph on a machine: its program, its run, and the figures of both for each node."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from kernbench.cmdq.entries import DmaEntry
from kernbench.cmdq.footprint import service_cycles, transfer_of, work_of
from kernbench.cmdq.program import Program
from kernbench.common.errors import InputError, InternalError, Problem
from kernbench.common.units import ceil_div, cycles_to_ns
from kernbench.config.kinds import as_npu
from kernbench.config.machine import MachineConfig
from kernbench.config.schema import NpuConfig
from kernbench.sim_engine.machine import Machine
from kernbench.workloads.graphs.balance import balanced
from kernbench.workloads.graphs.beyond import ExcessCause, Job, excess_causes
from kernbench.workloads.graphs.emit.others import emit_work
from kernbench.workloads.graphs.graph import Graph, Lowered, Product, read_by
from kernbench.workloads.graphs.grouped import GroupCosts
from kernbench.workloads.graphs.lowering import MAX_ENTRIES, lower_graph, missing_lines
from kernbench.workloads.graphs.memory import Memory, check_machine
from kernbench.workloads.graphs.planner import (
    GraphPlan,
    plan_graph,
    plan_with_cuts,
    product_cycles,
    reloads,
    vector_cycles,
)
from kernbench.workloads.graphs.sizes import COARSE, FINE, Grain, Sizes
from kernbench.workloads.hazards import Emitter
from kernbench.workloads.limit import ENDLESS, StoppedError

EXPLAINED = 1.5  #: threshold of cycles over the roofline above which the reason is shown
_MAX_BEYOND = 3
_MAX_COMPARED = 1 << 15  # limit of the entries of a program that is simulated in several variants to find the fastest
ROLES = ("weights", "activations")


@dataclass(slots=True)
class NodeRow:
    """The results of a node. `cycles`: from the end of the previous work to the end of the node; the sum over all rows is the
    run."""

    name: str
    op: str
    note: str = ""  #: the reason why the node has no jobs, or how its dimension k is cut
    jobs: int = 0
    macs: int = 0
    bytes: Counter[str] = field(default_factory=Counter)  #: of DRAM by role, alignment included
    cycles: int = 0
    busy: Counter[str] = field(default_factory=Counter)  #: [engine-cycle] by kind of engine
    least: int = 0  #: [cycle] of its products with all tensor engines at full rate


@dataclass(frozen=True, slots=True)
class Beyond:
    """An operator far above the roofline: its cycles above those of its products, and the busiest kind of engine."""

    op: str
    cycles: int
    engine: str
    busy: int  #: [cycle] busy time of each engine


@dataclass(frozen=True, slots=True)
class GraphRun:
    """A run with its lower bounds: the bytes and the MACs that are necessary, at full rate."""

    lowered: Lowered
    plan: GraphPlan
    machine: NpuConfig
    cycles: int
    rows: list[NodeRow]
    limit: tuple[str, int]  #: the name and the value of the largest bound of the program
    energy_pj: dict[str, float]
    least_bytes: int
    dram_cycles: int
    mac_cycles: int
    vector_cycles: int
    dram_used: int
    jobs: tuple[Job, ...] = ()

    @property
    def ns(self) -> float:
        """[ns] The time of the run."""
        return float(cycles_to_ns(self.cycles, self.machine.freq_ghz))

    @property
    def macs(self) -> int:
        """The MACs of all nodes."""
        return sum(row.macs for row in self.rows)

    @property
    def bytes(self) -> Counter[str]:
        """DRAM bytes of all nodes by role."""
        return sum((row.bytes for row in self.rows), Counter(dict.fromkeys(ROLES, 0)))

    @property
    def roofline(self) -> int:
        """[cycle] The largest of the times for transfers, products and vector operations, each at full rate."""
        return max(self.dram_cycles, self.mac_cycles, self.vector_cycles)

    @property
    def over_roofline(self) -> float:
        """The cycles of the run over the roofline; 0 for a run without a roofline."""
        return self.cycles / self.roofline if self.roofline else 0.0

    @property
    def bound(self) -> str:
        """The kind of engine of the largest bound: `te`, `ve`, or `dma` for the DRAM."""
        bounds = {"dma": self.dram_cycles, "te": self.mac_cycles, "ve": self.vector_cycles}
        return max(bounds, key=lambda kind: bounds[kind])

    def parts(self) -> list[ExcessCause]:
        """The cycles beyond the largest bound by reason, largest first."""
        if not self.jobs:
            return []
        kind, sizes, needed = self.bound, Sizes(self.lowered, self.machine), Counter[int]()
        engines = 1 if kind == "dma" else getattr(self.machine, kind).engines
        for number, work in self.lowered.jobs:
            if kind == "te":
                needed[number] += product_cycles(work, sizes) * engines
            elif kind == "ve":
                needed[number] += vector_cycles(work, sizes)
        ends = list(accumulate(row.cycles for row in self.rows))
        return excess_causes(kind, self.roofline, engines, self.jobs, ends, needed, [row.op for row in self.rows])

    def beyond(self) -> list[Beyond]:
        """The operators with the most cycles above those of their products at full rate, largest first."""
        more, busy = Counter[str](), dict[str, Counter[str]]()
        for row in self.rows:
            more[row.op] += row.cycles - row.least
            busy.setdefault(row.op, Counter()).update(row.busy)
        engines = {kind: getattr(self.machine, kind).engines for kind in ("te", "ve", "dma")}
        found = []
        for op, cycles in more.most_common(_MAX_BEYOND):
            if cycles > 0:
                each = {kind: busy[op][kind] // engines[kind] for kind in engines if kind != "dma" or not busy[op]["te"]}
                kind = max(sorted(each), key=lambda kind: each[kind])
                found.append(Beyond(op, cycles, kind, each[kind]))
        return found

    def share(self, cycles: int) -> float:
        """The share of the cycles of the run; 0 for a run without cycles."""
        return cycles / self.cycles if self.cycles else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The data for `--json`."""
        name, bound = self.limit
        return {
            "status": "done",
            "model": self.lowered.graph.name,
            "machine": self.machine.source,
            "cycles": self.cycles,
            "t_ns": self.ns,
            "macs": self.macs,
            "dram_bytes": {role: self.bytes[role] for role in ROLES},
            "least_bytes": self.least_bytes,
            "dram_used_bytes": self.dram_used,
            "limit": {"name": name, "cycles": bound, "share": self.share(bound)},
            "dram_bound": {"cycles": self.dram_cycles, "share": self.share(self.dram_cycles)},
            "mac_bound": {"cycles": self.mac_cycles, "share": self.share(self.mac_cycles)},
            "vector_bound": {"cycles": self.vector_cycles, "share": self.share(self.vector_cycles)},
            "roofline": {
                "cycles": self.roofline,
                "times": self.over_roofline,
                "bound": self.bound,
                "parts": [
                    {"reason": one.reason, "cycles": one.cycles, "op": one.op, "of_op": one.of_op} for one in self.parts()
                ],
                "beyond": [
                    {"op": one.op, "cycles": one.cycles, "engine": one.engine, "busy": one.busy} for one in self.beyond()
                ],
            },
            "energy_pj": self.energy_pj,
            "assumed": list(self.lowered.graph.assumed),
            "not_lowered": [{"node": node, "reason": reason} for node, reason in missing_lines(self.lowered)],
            "nodes": [_row_dict(row) for row in self.rows],
        }


def _row_dict(row: NodeRow) -> dict[str, Any]:
    figures = {"jobs": row.jobs, "macs": row.macs, "cycles": row.cycles, "busy": dict(sorted(row.busy.items()))}
    moved = {role: row.bytes[role] for role in ROLES}
    return {"name": row.name, "op": row.op, "note": row.note, **figures, "dram_bytes": moved}


class GraphProgram:
    """A graph lowered and planned for a machine: an NPU, or the first PE of a system.

    `machine`: the NPU, or one PE as an NPU, for which the program is planned; `target`: the machine that runs. `max_cycles`:
    the limit of a run; None for no limit, even if the machine's file has one for single programs. Raises InputError with a line
    for each node that cannot be lowered, unless `partial` is set, and if a tensor does not fit.
    """

    def __init__(
        self, graph: Graph, config: MachineConfig, activation_bits: int, *, partial: bool = False, max_cycles: int | None = None
    ) -> None:
        endless = {"max_cycles": ENDLESS if max_cycles is None else max_cycles}
        self.target: Any = config.model_copy(update=endless)
        self.machine = as_npu(config).model_copy(update=endless)
        weight_bits = min((tensor.bits for tensor in graph.tensors.values() if tensor.source == "weight"), default=8)
        self.lowered = lower_graph(graph, activation_bits, GroupCosts(self.machine, weight_bits, activation_bits))
        if self.lowered.missing and not partial:
            lines = [Problem(f"{graph.name}: {node}", reason) for node, reason in missing_lines(self.lowered)]
            raise InputError(lines)
        check_machine(self.lowered, self.machine)
        self.plan: GraphPlan
        self.program: Program
        self.memory: Memory
        self.works: dict[int, int]  #: the number of the work of an entry, by the entry's id
        self.dram_used: int
        self._make(COARSE)
        if self.lowered.jobs and len(self.program.entries) <= _MAX_COMPARED:
            self._fastest()
        if self.lowered.jobs:
            self._compare_cuts()

    def _entries(self, plan: GraphPlan) -> Counter[int]:
        """An estimate of the number of entries of each node."""
        sizes, per_node = Sizes(self.lowered, self.machine), Counter[int]()
        for (number, work), size in zip(self.lowered.jobs, plan.sizes, strict=True):
            per_node[number] += sizes.entries(work, size, plan.resident)
        return per_node

    def _check_entries(self) -> None:
        """Raises InputError if the program would be too long; the error names the node with most entries."""
        per_node = self._entries(self.plan)
        count = per_node.total()
        if count > MAX_ENTRIES:
            ((number, most),) = per_node.most_common(1)
            node = self.lowered.graph.nodes[number]
            rule = f"it takes about {count} entries, {most} of them for node {node.name} ({node.op}), and a program has at most"
            remedy = "make a dimension smaller, or the scratchpad larger"
            raise InputError(Problem(self.lowered.graph.name, f"{rule} {MAX_ENTRIES}", remedy=remedy))

    def _emit(self) -> tuple[Program, Memory]:
        graph = self.lowered.graph
        emit = Emitter(graph.name, self.machine, {"model_name": graph.name})
        memory = Memory(self.lowered, self.plan, self.machine, emit)
        for count, ((number, work), size) in enumerate(zip(self.lowered.jobs, self.plan.sizes, strict=True)):
            node, first = graph.nodes[number], len(emit.program.entries)
            emit_work(memory, work, size, {"layer_id": number, "phase": node.op, "debug": node.name})
            self.works.update(dict.fromkeys((entry.id for entry in emit.program.entries[first:]), count))
        self.dram_used = max((region.end for region in memory.dram.regions), default=0)
        return emit.end(), memory

    def _make(self, grain: Grain) -> None:
        """Make the plan and the program, with the cuts that are known so far."""
        self.plan = plan_graph(self.lowered, self.machine, grain)
        if self._entries(self.plan).total() > MAX_ENTRIES and not any(size.cut for size in self.plan.sizes):
            self.plan = plan_with_cuts(self.lowered, self.machine, grain) or self.plan
        self._check_entries()
        self._take(self.plan)

    def _take(self, plan: GraphPlan) -> None:
        """Use the program of this plan."""
        self.plan, self.works = plan, {}
        self.program, self.memory = self._emit()

    def _compare_cuts(self) -> None:
        """If weights are loaded several times, also plan products that are cut along k, and keep the faster program."""
        if any(size.cut for size in self.plan.sizes) or not reloads(self.plan, self.lowered, self.machine):
            return
        cut = plan_with_cuts(self.lowered, self.machine)
        if cut is None or cut.least_cycles >= self.plan.least_cycles or self._entries(cut).total() > MAX_ENTRIES:
            return
        whole = self._cycles(), self.plan, self.program, self.memory, self.works, self.dram_used
        self._take(cut)
        if self._cycles() >= whole[0]:
            _, self.plan, self.program, self.memory, self.works, self.dram_used = whole

    def _fastest(self) -> None:
        """Keep the program that ends soonest: with coarse or fine cuts, and with the engines as emitted or as chosen by
        `balance`."""
        coarse = self._choose_engines(), self.plan, self.program, self.memory, self.works, self.dram_used
        self._make(FINE)
        if self._choose_engines() >= coarse[0]:
            _, self.plan, self.program, self.memory, self.works, self.dram_used = coarse

    def _choose_engines(self) -> int:
        """[cycle] of the program with the faster of the two choices of engines."""
        emitted = list(self.program.entries)
        before = self._cycles()
        self.program.entries[:] = balanced(emitted, self.machine)
        after = self._cycles()
        if after >= before:
            self.program.entries[:] = emitted
        return min(before, after)

    def _cycles(self) -> int:
        """[cycle] of the program on the machine for which it is planned."""
        machine = Machine(self.machine, self.program)
        machine.run()
        return machine.result().cycles

    @property
    def stages(self) -> list[str]:
        """The node of each piece of work, in order."""
        return [self.lowered.graph.nodes[number].name for number, _ in self.lowered.jobs]

    def run(self) -> GraphRun:
        """Simulate the program; a graph without work takes no cycles. Raises StoppedError if the run reaches its limit."""
        if not self.lowered.jobs:
            return self._nothing()
        machine = Machine(self.target, self.program)
        machine.run()
        result = machine.result()
        if result.status == "aborted":
            raise StoppedError(self.program.name, result.cycles)
        if result.status != "done":
            raise InternalError(f"{self.program.name}: {result.status} at cycle {result.cycles}")
        bounds = {name: cycles for name, cycles in result.metrics["bounds"].items() if name not in ("cycles", "limit")}
        bounds["critical path"] = bounds.pop("critical_path")
        name = max(sorted(bounds), key=lambda key: bounds[key])
        least, dram_cycles, mac_cycles, vectors = self.floor()
        return GraphRun(
            lowered=self.lowered,
            plan=self.plan,
            machine=self.machine,
            cycles=result.cycles,
            rows=self._rows(result),
            limit=(name, bounds[name]),
            energy_pj={part: pj for part, pj in sorted(result.metrics["energy_pj"].items()) if part != "total"},
            least_bytes=least,
            dram_cycles=dram_cycles,
            mac_cycles=mac_cycles,
            vector_cycles=vectors,
            dram_used=self.dram_used,
            jobs=self._timed(result),
        )

    def _nothing(self) -> GraphRun:
        """The run of a graph whose nodes have no work."""
        least, dram_cycles, *_ = self.floor()
        rows, limit = self._empty_rows(), ("nothing", 0)
        return GraphRun(self.lowered, self.plan, self.machine, 0, rows, limit, {}, least, dram_cycles, 0, 0, 0)

    def _empty_rows(self) -> list[NodeRow]:
        """A row for each node, with its note."""
        lowered = self.lowered
        rows = [NodeRow(node.name, node.op, lowered.notes.get(i, "")) for i, node in enumerate(lowered.graph.nodes)]
        sizes = Sizes(lowered, self.machine)
        for number, work in lowered.jobs:
            rows[number].least += product_cycles(work, sizes)
        for number, reason in lowered.missing.items():
            rows[number].note = f"NOT LOWERED: {reason}"
        return rows

    def _timed(self, result: Any) -> tuple[Job, ...]:
        """The jobs of a run with their times."""
        times, found = {time.id: time for time in result.entries}, []
        for entry in self.program.entries[:-1]:
            if entry.engine == "control":
                continue
            time, body, ends = times[entry.id], 0, 0
            if not isinstance(entry, DmaEntry):
                service = service_cycles(entry, self.machine)
                body, ends = service.body, service.init + service.finalize
            found.append(Job(entry.engine, entry.meta["layer_id"], time.start, time.end, body, ends))
        return tuple(found)

    def _rows(self, result: Any) -> list[NodeRow]:
        rows = self._empty_rows()
        for (number, work), size in zip(self.lowered.jobs, self.plan.sizes, strict=True):
            if isinstance(work, Product) and size.cut is not None:
                rows[number].note = size.cut.text(work)
        ends = [0] * len(rows)
        times = {time.id: time for time in result.entries}
        for entry in self.program.entries[:-1]:
            number, time = entry.meta["layer_id"], times[entry.id]
            row = rows[number]
            ends[number] = max(ends[number], time.end)
            if entry.engine == "control":
                continue
            row.jobs += 1
            row.busy[entry.engine] += time.end - time.start
            if entry.engine == "te":
                work = self.lowered.jobs[self.works[entry.id]][1]
                assert isinstance(work, Product)
                row.macs += work_of(entry) // work.k * work.depth if work.depth else work_of(entry)
            if isinstance(entry, DmaEntry):
                role = "activations" if entry.tensor_role == "activation" else "weights"
                row.bytes[role] += transfer_of(entry, self.machine).bytes_aligned
        before = 0
        for row, end in zip(rows, ends, strict=True):
            row.cycles = max(0, end - before)
            before = max(before, end)
        if rows:
            rows[-1].cycles += result.cycles - before
        return rows

    def floor(self) -> tuple[int, int, int, int]:
        """[byte] of weights, inputs and outputs; [cycle] of these at full rate when they move once, of all products, and of
        vector operations."""
        sizes = Sizes(self.lowered, self.machine)
        once = dict.fromkeys(name for _, work in self.lowered.jobs for name in read_by(work))
        tensors = self.lowered.tensors
        copies = {work.b: work.copies for _, work in self.lowered.jobs if isinstance(work, Product)}
        stored = [name for name in once if tensors[name].source != "work" and not self._is_table(name)]
        least = 0
        for name in stored:
            times, of = copies.get(name, (1, 1))
            least += sizes.nbytes(name) * of // times
        least += sum(sizes.nbytes(name) for name in self.lowered.graph.outputs if name in tensors)
        rate = self.machine.dram.capacity * self.machine.dram.channels
        cycles = sum(product_cycles(work, sizes) for _, work in self.lowered.jobs if isinstance(work, Product))
        vectors = ceil_div(sum(vector_cycles(work, sizes) for _, work in self.lowered.jobs), self.machine.ve.engines)
        return least, ceil_div(least * rate.denominator, rate.numerator), cycles, vectors

    def _is_table(self, name: str) -> bool:
        """Whether only some of its rows are read."""
        return any(getattr(work, "table", "") == name for _, work in self.lowered.jobs)
