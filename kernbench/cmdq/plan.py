"""A program on a machine in the form of the core, and the names of the numbered items for results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from kernbench.cmdq.entries import Entry, TeEntry, VeEntry
from kernbench.cmdq.footprint import bytes_on_channels
from kernbench.cmdq.lower import lower_machine, lower_program, resource_capacities, resource_names
from kernbench.cmdq.opcodes import OPCODES
from kernbench.cmdq.program import Program
from kernbench.common import naming
from kernbench.components.service import PARAMETERS
from kernbench.config import MachineConfig, NpuConfig
from kernbench.config.load import Source, config_of
from kernbench_core.numbers import Opkind

if TYPE_CHECKING:
    from kernbench.cmdq.jobs import Jobs
    from kernbench.cmdq.system.routes import RuntimeRoutes
    from kernbench.config import SystemConfig

T = TypeVar("T")


class Plan(msgspec.Struct, frozen=True, dict=True):
    """The core's two tables, and the names of their items in the core's order."""

    pe: NpuConfig  #: the NPU, or the common description of the PEs of a system
    machine: dict[str, Any]
    program: dict[str, Any]
    dma: tuple[str, ...]  #: DMA engines
    compute: tuple[str, ...]  #: tensor engines, vector engines, then processors
    resources: tuple[str, ...]
    capacities: tuple[Fraction, ...]  #: [byte/cycle] of each
    channels: int  #: number of DRAM channels, the first resources
    scratchpads: tuple[str, ...]  #: number of scratchpads with banks; further ones represent nodes without banks

    reach: RuntimeRoutes | None = None  #: of a whole system: the routes to memories, found on first use
    _cached: dict[str, Any] = {}  #: data that follow from the program alone
    extra: Mapping[int, int] = {}  #: per entry, the head latency of components [cycle]
    jobs: Jobs | None = None  #: of a machine with a micro-scheduler: the entries of all tables are jobs

    def rows(self, program: Program) -> Program:
        """The program whose entries the tables describe: `program`, or its jobs."""
        return program if self.jobs is None else self.jobs.program

    @property
    def command_units(self) -> tuple[str, ...]:
        """The node that runs each entry of the program that was planned."""
        return self.units if self.jobs is None else tuple(self.jobs.of_commands(list(self.units)))

    @property
    def whole(self) -> bool:
        """Whether the plan has every engine and resource of a system, most of which a run may never use."""
        return self.reach is not None

    @property
    def caches(self) -> dict[int, dict[str, Any]]:
        """Tables of the last-level caches, by the numbers of their resources, which are the last resources."""
        return {table["resource"]: table for table in self.machine["caches"]}

    @property
    def links(self) -> range:
        """Numbers of the resources that are links."""
        codecs = sum("ratio" in memory for memory in self.machine["memories"]) * len(self.dma)
        return range(self.channels, len(self.resources) - codecs - len(self.machine["caches"]))

    @cached_property
    def ratios(self) -> tuple[Fraction, ...] | None:
        """For each memory, the bytes at the scratchpad for one byte in memory; None without codecs."""
        found = [memory.get("ratio") for memory in self.machine["memories"]]
        return tuple(Fraction(*(ratio or (1, 1))) for ratio in found) if any(found) else None

    @property
    def with_scratchpad(self) -> int:
        """The number of DMA engines with a scratchpad; the others are those of PCIe endpoints."""
        return sum(engine["spm"] < len(self.scratchpads) for engine in self.machine["dma"])

    def bank_counts(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Grants and denials of each bank of each scratchpad, (..., scratchpads, 2, banks), from the core's totals of banks."""
        n, banks = len(self.scratchpads), self.pe.spm.num_banks
        return counts[..., : 2 * n * banks].reshape(*counts.shape[:-1], n, 2, banks)

    def transfer(self, entry: int) -> dict[str, int]:
        """The columns of an entry's transfer."""
        return self._rows("dma")[self._jobs[entry]]

    def service(self, entry: int) -> dict[str, int]:
        """The columns of the job of any other engine, without its regions."""
        return self._rows("compute")[self._jobs[entry]]

    def array_parts(self, entry: int) -> list[int]:
        """The `ArrayParts` of the body of a product; none if jobs do not overlap."""
        parts: list[int] = self.program["compute"]["parts"][self._jobs[entry]].tolist()
        return parts

    def bytes_of(self, entry: int) -> int:
        """[byte] that a transfer moves, aligned."""
        return self.transfer(entry)["nbytes"]

    def channel_bytes(self, entry: int) -> tuple[int, ...]:
        """[byte] that a transfer moves on each channel of its memory."""
        return self.on_channels[self._jobs[entry]]

    @cached_property
    def on_channels(self) -> list[tuple[int, ...]]:
        """Per transfer, [byte] on each channel of its memory."""
        moves = self.program["dma"]
        found: list[tuple[int, ...]] = [()] * len(moves["entry"])
        for number in sorted(set(moves["memory"].tolist())):  # numpy.unique would import numpy.ma
            memory = self.machine["memories"][number]
            rows = np.flatnonzero(moves["memory"] == number)
            addr, count, row_bytes, stride = (moves[name][rows] for name in ("dram_addr", "rows", "row_bytes", "stride"))
            shape = memory["align"], memory["interleave"], memory["channels"]
            table = bytes_on_channels(addr, count, row_bytes, stride, *shape)
            for row, on_each in zip(rows.tolist(), table.tolist(), strict=True):
                found[row] = tuple(on_each)
        return found

    @cached_property
    def predecessors(self) -> list[tuple[int, ...]]:
        """The positions of the dependencies of each entry: the result of `dependencies.predecessors`."""
        waits: list[list[int]] = [[] for _ in self.program["op"]]
        after = self.program["after"]
        who = np.repeat(np.arange(len(waits)), np.diff(after)).tolist()
        for source, target in zip(who, self.program["dependents"].tolist(), strict=True):
            waits[target].append(source)
        return [tuple(found) for found in waits]

    @cached_property
    def _jobs(self) -> list[int]:
        jobs: list[int] = self.program["job"].tolist()
        return jobs

    def _rows(self, kind: str) -> list[dict[str, int]]:
        if kind not in self._cached:
            columns = {name: table.tolist() for name, table in self.program[kind].items() if table.ndim == 1}
            self._cached[kind] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        rows: list[dict[str, int]] = self._cached[kind]
        return rows

    def kept(self, name: str, make: Callable[[], T]) -> T:
        """The value that was made under this name for the program, or for the program and those values of the machine that all
        machines with the same plan share.

        Such machines may differ in rates, setups, clocks and energies; `cmdq/shared_plans.py` names the values.
        """
        if name not in self._cached:
            self._cached[name] = make()
        found: T = self._cached[name]
        return found

    @cached_property
    def units(self) -> tuple[str, ...]:
        """The node that runs each entry, in file order."""
        op, job = self.program["op"].tolist(), self.program["job"].tolist()
        dma, compute = (self.program[kind]["engine"].tolist() for kind in ("dma", "compute"))
        run_by: dict[int, tuple[tuple[str, ...], list[int]]] = {}
        run_by |= {Opkind.OP_DMA: (self.dma, dma), Opkind.OP_COMPUTE: (self.compute, compute)}
        out = []
        for kind, k in zip(op, job, strict=True):
            names, engine = run_by.get(kind, ((naming.CONTROL,), []))
            out.append(names[engine[k] if engine else 0])
        return tuple(out)


def ids_of(program: Program, plan: Plan) -> npt.NDArray[np.int64]:
    """The ids of the entries of the program that was planned, in file order."""
    return plan.kept("ids", lambda: np.array([entry.id for entry in program.entries], dtype=np.int64))


def plan_program(program: Program, config: NpuConfig | SystemConfig, *, whole: bool = False, regular: bool = False) -> Plan:
    """The plan of a program on a machine. InputError if the program is not valid there.

    `whole`: on a system, also plan the nodes that no entry names. `regular`: InternalError for an entry that reading cannot
    make.
    """
    known = program.lowered
    if known is not None and not whole and known.machine == config.digest() and known.entries == program.entries:
        return known.plan
    if isinstance(config, NpuConfig):
        return plan_npu(program, config, regular=regular)
    # Modules for systems are imported only for systems, because many runs are on one NPU and start sooner without them.
    from kernbench.cmdq.system import lower_system

    return _with_jobs(program, config, lambda one: lower_system(one, config, whole=whole, regular=regular))


def check_program(program: Program, config: MachineConfig | Source) -> None:
    """Check whether `program` can run on the machine `config`: a name, a file, a dict or a loaded machine.

    The function raises InputError, which names every problem.

    >>> import kernbench as kb
    >>> program = kb.Program("gemm")
    >>> tile = program.te_gemm(m=16, n=16, k=16, qbits_weight=8, qbits_activation=8, ifm_bank=0, ifm_offset=0, wgt_bank=1,
    ...                        wgt_offset=0, ofm_bank=2, ofm_offset=0)
    >>> kb.check_program(program, "npu_mobile")
    """
    plan_program(program, config_of(config))


def plan_npu(program: Program, config: NpuConfig, *, regular: bool = False) -> Plan:
    """The plan of a program on one NPU, lowered again."""
    return _with_jobs(program, config, lambda one: _plan_npu(one, config, regular))


def _with_jobs(program: Program, config: NpuConfig | SystemConfig, plan: Callable[[Program], Plan]) -> Plan:
    """The plan of a program, or of its jobs on a machine with a micro-scheduler."""
    scheduler = config.control.micro_scheduler
    if scheduler is None:
        return plan(program)
    from kernbench.cmdq.jobs import jobs_of  # imported here, because few machines have one

    plan(program)  # checks that it is valid on the machine
    jobs = jobs_of(program, config.pe.spm, scheduler)
    found = plan(jobs.program)
    if jobs.partial:  # these jobs write nothing
        table = found.program["compute"]
        rows = found.program["job"][sorted(jobs.partial)]
        table["regions"][rows] = 2
        for name in ("region_addr", "region_bytes", "region_write"):
            table[name][rows, 2] = 0
    return msgspec.structs.replace(found, jobs=jobs)


def _plan_npu(program: Program, config: NpuConfig, regular: bool) -> Plan:
    kinds = (("te", config.te.engines), ("ve", config.ve.engines))
    return Plan(
        pe=config,
        machine=lower_machine(config),
        program=lower_program(program, config, regular=regular),
        dma=tuple(naming.engine("dma", k) for k in range(config.dma.engines)),
        compute=tuple(naming.engine(kind, k) for kind, count in kinds for k in range(count)),
        resources=tuple(resource_names(config)),
        capacities=tuple(resource_capacities(config)),
        channels=config.dram.channels,
        scratchpads=(naming.SPM,),
    )


#: Numbers of opcodes: append, never renumber.
NUMBERS = {opcode: number for number, opcode in enumerate(OPCODES)}
WIDTH = 16  # KB_PARAMS of the ABI


def lower_parameters(program: Program, plan: Plan) -> dict[str, Any]:
    """`opcode` [entries] and `params` [entries][WIDTH], for `kernbench_core/plugin/plug_layout.pyx`."""
    opcode = np.array([NUMBERS[entry.opcode] for entry in program.entries], dtype=np.int64)
    params = np.zeros((len(program.entries), WIDTH), dtype=np.int64)
    for entry in program.entries:
        values = parameters_of(entry, plan)
        params[entry.index, : len(values)] = values
    return {"opcode": opcode, "params": params}


def parameters_of(entry: Entry, plan: Plan) -> list[int]:
    """The values in the order of `PARAMETERS`; none for a control entry."""
    if entry.engine == "control":
        return []
    if entry.engine == "dma":
        move = plan.transfer(entry.index)
        return [move[name] for name in PARAMETERS["dma"]]
    job = plan.service(entry.index)
    values = [job[name] for name in PARAMETERS["cpu"]]
    if isinstance(entry, TeEntry):
        product = [entry.m, entry.n, entry.k, entry.qbits_weight, entry.qbits_activation]
        return [*values, *product, *plan.array_parts(entry.index)]
    return [*values, entry.length, entry.batch, entry.qbits_activation] if isinstance(entry, VeEntry) else values
