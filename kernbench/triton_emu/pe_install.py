"""Puts one PE together: its processor, scheduler and parts, and what runs its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernbench.common import naming
from kernbench.components.base import Clock, ComponentBase
from kernbench.components.builtin.composite import TileServer
from kernbench.components.builtin.ipcq_ring import QueueClock
from kernbench.components.builtin.part import PePart
from kernbench.components.builtin.pe_cpu import PeCpu
from kernbench.components.builtin.pe_dma import PeDma
from kernbench.components.builtin.pe_fetch_store import PeFetchStore
from kernbench.components.builtin.pe_gemm import PeGemm
from kernbench.components.builtin.pe_ipcq import PeIpcq
from kernbench.components.builtin.pe_math import PeMath
from kernbench.components.builtin.pe_scheduler import PeScheduler
from kernbench.components.builtin.transfers import Ways
from kernbench.components.parts import KernelParts
from kernbench.config.schema import Dma, Spm, Te, Ve
from kernbench.sim_engine.op_log import OpLogger
from kernbench.triton_emu.kernel_runner import KernelRunner
from kernbench.triton_emu.launch import Launch, PeFacts
from kernbench.triton_emu.memory.side import MemorySide
from kernbench.triton_emu.tl.context import TLContext


@dataclass(frozen=True)
class Shared:
    """What all PEs of a machine have in common."""

    memory: MemorySide
    log: OpLogger | None
    clock: Clock
    launches: list[Launch]
    strict_wait: bool
    kinds: KernelParts
    time: QueueClock


@dataclass(frozen=True)
class PeSpec:
    """One PE. Its engines have the numbers `index * count + i` in the core."""

    name: str
    index: int
    parts: Mapping[str, str]  #: ids of its parts' nodes, by their kinds
    base: int  #: address of its scratchpad's first byte
    ways: Ways
    dma: Dma
    te: Te
    ve: Ve
    spm: Spm
    cpu_cycles: int
    scalar_cycles: int
    scheduler_cycles: int
    fetch_store_cycles: int
    queue_depth: int
    ipcq_cycles: int

    def engines(self, count: int) -> range:
        """The numbers in the core of engines of which each PE has `count`."""
        return range(self.index * count, (self.index + 1) * count)

    @property
    def facts(self) -> PeFacts:
        """What kernels may know of it."""
        spm, dma = self.spm, self.dma
        sizes = (self.base, spm.size_bytes, spm.bank_width_bytes, dma.alignment_bytes)
        return PeFacts(self.name, *sizes, dma.engines, self.te.engines, self.ve.engines)


def make_pe(spec: PeSpec, shared: Shared) -> tuple[PeCpu, KernelRunner]:
    """The PE's component in the core, and what runs its kernels."""
    ids, clock, base = spec.parts, shared.clock, spec.base
    dma = PeDma(
        ids[naming.PE_DMA],
        spec.engines(spec.dma.engines),
        clock,
        base,
        align=spec.dma.alignment_bytes,
        scratchpad_bytes=spec.spm.size_bytes,
        ways=spec.ways,
    )
    parts: list[PePart] = [
        dma,
        PeGemm(ids[naming.PE_GEMM], spec.engines(spec.te.engines), clock, base, spec.te),
        PeMath(ids[naming.PE_MATH], spec.engines(spec.ve.engines), clock, base, spec.ve),
    ]
    make = shared.kinds.make
    fetch_store: PeFetchStore = make(naming.PE_FETCH_STORE, ids[naming.PE_FETCH_STORE], clock, cycles=spec.fetch_store_cycles)
    tiles = TileServer(ids[naming.PE_SCHEDULER], clock, base, parts, fetch_store)
    queue: dict[str, Any] = {"cycles": spec.scheduler_cycles, "queue_depth": spec.queue_depth}
    queues = _queues(spec, shared, dma)
    scheduler: PeScheduler = make(naming.PE_SCHEDULER, ids[naming.PE_SCHEDULER], parts, tiles, queues, **queue)
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
