"""Puts a machine's processors and its host together: what `Machine(config, program, components)` is given to run kernels.

Each PE gets its processor, its scheduler, its components, and a runner for its kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any

import msgspec

from kernbench.common import naming
from kernbench.common.interrupts import put_place
from kernbench.common.json_shapes import counted
from kernbench.components.base import DMA, TE, VE, Clock, ComponentBase
from kernbench.components.builtin.composite import TileServer
from kernbench.components.builtin.cores import Cores
from kernbench.components.builtin.host import Host
from kernbench.components.builtin.ipcq_ring import QueueClock
from kernbench.components.builtin.messages import MessagePart
from kernbench.components.builtin.part import PePart
from kernbench.components.builtin.pe_cpu import PeCpu
from kernbench.components.builtin.pe_dma import PeDma
from kernbench.components.builtin.pe_fetch_store import PeFetchStore
from kernbench.components.builtin.pe_gemm import PeGemm
from kernbench.components.builtin.pe_ipcq import PeIpcq
from kernbench.components.builtin.pe_math import PeMath
from kernbench.components.builtin.pe_scheduler import PeScheduler
from kernbench.components.builtin.transfers import MemoryRoutes, OneMemory
from kernbench.components.parts import KernelParts
from kernbench.config import NpuConfig, SystemConfig
from kernbench.config.schema import Dma, Spm, Te, Ve
from kernbench.config.system.parts import PeFetchStore as FetchStoreKeys
from kernbench.config.system.parts import PeIpcq as QueueKeys
from kernbench.config.system.parts import PeScheduler as SchedulerKeys
from kernbench.policy.routing.resolver import address_map
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger
from kernbench.sim_engine.perturbation import current
from kernbench.triton_emu.host_runner import HostRunner
from kernbench.triton_emu.kernel_runner import KernelRunner
from kernbench.triton_emu.launch import Launch, PeFacts, PeState
from kernbench.triton_emu.memory.perturbed import PerturbedMemory
from kernbench.triton_emu.memory.side import MemorySide, Translation
from kernbench.triton_emu.queues import Queues
from kernbench.triton_emu.system_routes import CommandRoutes, SystemRoutes
from kernbench.triton_emu.tl.context import TLContext
from kernbench.triton_emu.user_code import calls_refused

MAX_OPEN = 4096  #: parts of launches and copies of a host that may be open at a time; or two for each PE, if that is more


class Shared(msgspec.Struct, frozen=True):
    """The objects that all PEs of a machine share."""

    memory: MemorySide
    log: OpLogger | None
    clock: Clock
    launches: list[Launch]
    strict_wait: bool
    kinds: KernelParts
    time: QueueClock


class PeSpec(msgspec.Struct, frozen=True):
    """One PE. Its engines have the numbers `index * count + i` in the core."""

    name: str
    index: int
    parts: Mapping[str, str]  #: ids of its parts' nodes, by their kinds
    base: int  #: address of its scratchpad's first byte
    memory_routes: MemoryRoutes
    dma: Dma
    te: Te
    ve: Ve
    spm: Spm
    cpu_cycles: int
    scalar_cycles: int
    scheduler_cycles: int
    fetch_store: FetchStoreKeys
    queue_depth: int
    ipcq_cycles: int
    cores: int = 1  #: that it stands for

    def engines(self, count: int) -> range:
        """The numbers in the core of engines of which each PE has `count`."""
        return range(self.index * count, (self.index + 1) * count)

    @property
    def facts(self) -> PeFacts:
        """The facts that kernels can read."""
        spm, dma = self.spm, self.dma
        sizes = (self.base, spm.size_bytes, spm.bank_width_bytes, dma.alignment_bytes)
        return PeFacts(self.name, *sizes, dma.engines, self.te.engines, self.ve.engines)


def make_pe(spec: PeSpec, shared: Shared) -> tuple[PeCpu, KernelRunner]:
    """The PE's component in the core, and the runner of its kernels."""
    ids, clock, base = spec.parts, shared.clock, spec.base
    dma = PeDma(
        ids[naming.PE_DMA],
        spec.engines(spec.dma.engines),
        clock,
        base,
        align=spec.dma.alignment_bytes,
        scratchpad_bytes=spec.spm.size_bytes,
        memory_routes=spec.memory_routes,
    )
    products = PeGemm(ids[naming.PE_GEMM], spec.engines(spec.te.engines), clock, base, spec.te)
    vectors = PeMath(ids[naming.PE_MATH], spec.engines(spec.ve.engines), clock, base, spec.ve)
    parts: list[PePart] = [dma, products, vectors]
    messages = MessagePart(ids[naming.PE_SCHEDULER], clock, base)
    make = shared.kinds.make
    port: dict[str, Any] = {"cycles": spec.fetch_store.cycles, "bytes_per_cycle": spec.fetch_store.bytes_per_cycle}
    fetch_store: PeFetchStore = make(naming.PE_FETCH_STORE, ids[naming.PE_FETCH_STORE], clock, **port)
    tiles = TileServer(ids[naming.PE_SCHEDULER], clock, base, parts, fetch_store)
    queue: dict[str, Any] = {"cycles": spec.scheduler_cycles, "queue_depth": spec.queue_depth}
    queues = _queues(spec, shared, dma)
    scheduler: PeScheduler = make(naming.PE_SCHEDULER, ids[naming.PE_SCHEDULER], [*parts, messages], tiles, queues, **queue)
    scheduler.cores = Cores(spec.cores, (products, vectors))
    runner = KernelRunner(
        spec.facts,
        scheduler,
        shared.memory,
        shared.launches,
        TLContext,
        scalar_cycles=spec.scalar_cycles,
        strict_wait=shared.strict_wait,
    )
    cpu: PeCpu = make(naming.PE_CPU, ids[naming.PE_CPU], runner, scheduler, clock, cycles=spec.cpu_cycles)
    runner.messages = messages
    runner.on_placed = cpu.placed
    runner.implicit_wait = cpu.waited
    logged: list[ComponentBase] = [cpu, scheduler, fetch_store, tiles, queues, *parts]
    for one in logged:
        one._op_logger = shared.log
    return cpu, runner


def _queues(spec: PeSpec, shared: Shared, dma: PeDma) -> PeIpcq:
    node, cycles = spec.parts[naming.PE_IPCQ], spec.ipcq_cycles
    made: PeIpcq = shared.kinds.make(
        naming.PE_IPCQ, node, dma.engines, shared.clock, spec.base, dma, shared.time, cycles=cycles
    )
    made.record_copy = None if shared.log is None else shared.log.record_copy
    return made




class KernelSystem(msgspec.Struct):
    """All that runs kernels on one machine."""

    components: dict[str, ComponentBase]  #: for `Machine`
    hosts: list[HostRunner]  #: the functions that each host program calls
    runners: dict[str, KernelRunner]  #: by the names of PEs
    launches: list[Launch]  #: in the order in which they were made
    processors: dict[str, PeCpu]  #: by the names of PEs
    queues: Queues  #: between PEs
    log: OpLogger | None = None
    _system_routes: list[SystemRoutes] = msgspec.field(default_factory=list)

    def bind(self, machine: Machine) -> None:
        """Before the run: where the machine has put the components, and how it reaches its memories."""
        machine.around = self._around
        position = {name: i for i, name in enumerate(machine.components)}
        for cpu in self.processors.values():
            cpu.scheduler.machine = machine
        for host in self.components.values():
            if isinstance(host, Host):
                host.position = position
        self._attach(machine)
        self.queues.bind(machine, position)
        for runner in self.hosts:
            runner.machine = machine
        reach = machine.plan.reach
        if reach is None:
            return
        for memory_routes in self._system_routes:
            memory_routes.reach = reach
        commands = CommandRoutes(reach, [name for name in machine.plan.compute if naming.counted(name) == "cpu"])
        for runner in self.hosts:
            runner.commands, runner.first_endpoint = commands, machine.plan.with_scratchpad

    def _attach(self, machine: Machine) -> None:
        """User-defined components log the work that they do: messages of kernels, and jobs of the engines that they replace."""
        own = {
            name: (position, component)
            for position, (name, component) in enumerate(machine.components.items())
            if name not in self.components and isinstance(component, ComponentBase)
        }
        engines = {DMA: list(machine.plan.dma)}
        for number, kind in ((TE, "te"), (VE, "ve")):
            engines[number] = [name for name in machine.plan.compute if naming.counted(name) == kind]
        replaced = {name for names in engines.values() for name in names}
        added = [(position, name, one) for name, (position, one) in own.items() if name not in replaced]
        for _, name, component in added:
            component.node_id = component.node_id or name
        for name, cpu in self.processors.items():
            self.runners[name].messages.attach(added)
            for part in cpu.scheduler.parts:
                if part is cpu.scheduler.queues:  # it logs messages between PEs as copies, at the receiver
                    continue
                names = engines.get(part.engine_type, [])
                part.replaced |= {
                    place: own[names[number]][1]
                    for place, number in enumerate(part.engines)
                    if number < len(names) and names[number] in own
                }
                for component in part.replaced.values():
                    component.node_id = component.node_id or part.node_id
        for _, component in own.values():
            component._op_logger = self.log

    @contextmanager
    def _around(self) -> Iterator[None]:
        """The context of the machine's run: it refuses calls of kernels that would end the process, and an interrupt names
        their lines.
        """
        with calls_refused():
            try:
                yield
            except KeyboardInterrupt as error:
                lines = Counter(one.line for one in self.states() if one.line)
                if lines:
                    line, kernels = lines.most_common(1)[0]
                    put_place(error, f"{line}, where {counted(kernels, 'kernel')} of {lines.total()} stood")
                raise

    @property
    def error(self) -> BaseException | None:
        """The exception of a host program or of a kernel."""
        errors = [*(one.error for one in self.hosts), *(one.error for one in self.runners.values())]
        return next((one for one in errors if one is not None), None)

    @property
    def host(self) -> HostRunner:
        """The first host program; most runs have no other."""
        return self.hosts[0]

    def states(self) -> list[PeState]:
        """The state of the kernel of each PE."""
        return [runner.state() for runner in self.runners.values()]


def kernel_system(
    config: NpuConfig | SystemConfig,
    *bodies: Callable[[], object],
    store: MemoryStore,
    log: OpLogger | None = None,
    memory: Translation | None = None,
    strict_wait: bool = False,
    contents: bool = True,
) -> KernelSystem:
    """The components of a machine on which each of `bodies`, the host programs, launches kernels.

    `store` has the memories' contents. `log`, made with that store, records what kernels do; without it there is only time,
    and data that Phase 1 knows. Without a log and without `contents`, loads bring no data either. `memory` translates the
    addresses of kernels; without it, all addresses are physical. On a system the machine must be a whole one.
    """
    launches: list[Launch] = []
    kinds = KernelParts(config)
    sram = address_map(config).sram
    side = MemorySide(store, log, memory, (sram.base, sram.end), contents)
    run = current()
    shared = Shared(side, log, Clock(config.freq_ghz), launches, strict_wait, kinds, QueueClock())
    memory_routes: list[SystemRoutes] = []
    specs = [_npu_spec(config)] if isinstance(config, NpuConfig) else list(_system_specs(config, memory_routes))
    pes = {spec.name: make_pe(spec, shared) for spec in specs}
    processors = {name: cpu for name, (cpu, _) in pes.items()}
    runners = {name: runner for name, (_, runner) in pes.items()}
    if run is not None:
        opened: list[Any] = []
        for name, runner in runners.items():
            runner.memory = PerturbedMemory(name, run, opened, store, log, memory, (sram.base, sram.end))
            runner.memory._order = side._order
    nodes = {name: cpu.node_id for name, cpu in processors.items()}
    hosts = [HostRunner(body, nodes, launches) for body in bodies]
    components: dict[str, ComponentBase] = {}
    for number, host in enumerate(hosts):
        host.perturbed = run
        name = f"{naming.HOST}{number or ''}"
        components[name] = Host(host, jobs=max(MAX_OPEN, 2 * len(pes)), name=name)
    components |= {cpu.node_id: cpu for cpu in processors.values()}
    queues = Queues(config, runners, nodes, shared.time, launches)
    queues.perturbed = run
    return KernelSystem(components, hosts, runners, launches, processors, queues, log, memory_routes)


def _npu_spec(config: NpuConfig) -> PeSpec:
    """One NPU as a PE: its processor and scheduler take no time, as its file has no keys for them."""
    return PeSpec(
        name=config.pe_names[0],
        index=0,
        parts={part: part for part in naming.PE_PARTS},
        base=0,
        memory_routes=OneMemory(config.dram.capacity_bytes, config.dma.alignment_bytes),
        dma=config.dma,
        te=config.te,
        ve=config.ve,
        spm=config.spm,
        cpu_cycles=0,
        scalar_cycles=0,
        scheduler_cycles=0,
        fetch_store=FetchStoreKeys(cycles=0),
        queue_depth=SchedulerKeys().queue_depth,
        ipcq_cycles=QueueKeys().cycles,
    )


def _system_specs(config: SystemConfig, memory_routes: list[SystemRoutes]) -> Iterator[PeSpec]:
    """The PEs of a system in the order of its topology; their ways are put into `memory_routes`."""
    memories, pe = address_map(config), config.pe
    places = product(range(config.system.sips), range(config.cubes), range(config.cube.pes))
    for index, (sip, cube, number) in enumerate(places):
        memory_routes.append(SystemRoutes(memories, index, pe.dma.alignment_bytes))
        yield PeSpec(
            name=naming.place(sip, cube=cube, pe=number),
            index=index,
            parts={part: naming.pe_node(sip, cube, number, part) for part in naming.PE_PARTS},
            base=memories.tcm.address(index, 0),
            memory_routes=memory_routes[-1],
            dma=pe.dma,
            te=pe.te,
            ve=pe.ve,
            spm=pe.spm,
            cpu_cycles=pe.cpu.cycles,
            scalar_cycles=pe.cpu.scalar_cycles,
            scheduler_cycles=pe.scheduler.cycles,
            fetch_store=pe.fetch_store,
            queue_depth=pe.scheduler.queue_depth,
            ipcq_cycles=pe.ipcq.cycles,
            cores=pe.cores,
        )
