"""The machine `kernbench/npu/1` as frozen models: every key of docs/model/formats.md, its default, unit and range.

All defaults are in this file. Rules between fields are in `rules.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import prod
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from kernbench.config.cache import NpuLlc, npu_cache_rules
from kernbench.config.chip import Chip
from kernbench.config.codecs import Codec, codec_rules
from kernbench.config.dram_controller import DramController, controller_rules
from kernbench.config.dram_device import RowBuffer, device_rules
from kernbench.config.dram_files import DEVICES, POLICIES, named
from kernbench.config.fields import (
    MAX_BANKS,
    MAX_MESH_SIDE,
    WIDE_LIMIT,
    Count,
    Energies,
    Energy,
    Engines,
    Factors,
    Flag,
    Frequency,
    Natural,
    OpFactors,
    Places,
    Rate,
    SfuCycles,
    Share,
    Signed,
    Size,
    TermSize,
    integer,
    one_of,
)
from kernbench.config.machine import MachineConfig
from kernbench.config.mma import Mma
from kernbench.config.routers import Model, Routers, router_rules
from kernbench.config.rules import BrokenRule, Path, broken_rules, cache_weight, dram_weight
from kernbench.config.section import Field, Section

Allocation = Literal["shared_bw_v1", "max_min_v1", "fifo_v1", "row_buffer_v1", "row_buffer_v2"]
DeviceName = Annotated[str, named(DEVICES)]
PolicyName = Annotated[str, named(POLICIES)]


class ArbiterTraits(NamedTuple):
    """What an arbiter of scratchpad banks looks at. The checks of machines and the perturbed runs use it."""

    age: bool = False  #: grants a request earlier if it has waited `spm.max_wait_cycles`
    ties: bool = False  #: grants requests that are otherwise equal in tie-break order


#: Arbiters of the banks of a scratchpad. The positions are the core's ArbiterRule: append.
ARBITERS = {
    "oldest_first": ArbiterTraits(age=True, ties=True),
    "round_robin": ArbiterTraits(),
}
Arbiter = Annotated[str, one_of(tuple(ARBITERS), code=True)]  #: or user-defined code, `package.module:name`


#: Arbiters of the channels of a DMA engine. The positions are the core's DmaArbiterRule: append.
DMA_ARBITERS: tuple[str, ...] = ("priority", "round_robin")


class Mmio(Section):
    """The host that writes entries with `source: MMIO` into the command queue while the queue runs."""

    write_cycles: Count = Field(default=1, description="[cycle] time that the host takes to write one entry")
    latency_cycles: Natural = Field(
        default=0, description="[cycle] time from the end of a write until the entry is in the queue"
    )
    interrupt_cycles: Natural = Field(
        default=0, description="[cycle] time from the end of an entry with irq_line until the host knows that it has ended"
    )


class MicroScheduler(Section):
    """The unit that divides commands of tensor and vector engines into jobs."""

    tile_m: Count | None = Field(default=None, description="largest number of rows of a job of a product; absent: all rows")
    tile_n: Count | None = Field(
        default=None, description="largest number of columns of a job of a product; absent: all columns"
    )
    tile_k: Count | None = Field(default=None, description="largest depth of a job of a product; absent: the whole depth")
    chunk_elements: Count | None = Field(
        default=None,
        description="largest number of elements of a job of a vector op, which may also have whole rows; absent: all elements",
    )


class Control(Section):
    """The executor of the command queue."""

    issue_width: Natural = Field(
        default=0, description="[jobs per cycle] largest number of engine jobs issued per cycle; 0 means no limit"
    )
    mmio: Mmio | None = Field(default=None, description="absent: all entries are in the queue from cycle 0 on")
    micro_scheduler: MicroScheduler | None = Field(default=None, description="absent: each command is one job")


class Channel(Section):
    """One channel of a DMA engine."""

    max_concurrent: Count = Field(
        default=4, description="[transfers] largest number of simultaneous transfers of this channel, per engine"
    )
    priority: Signed = Field(
        default=0, description="with arbiter priority: the pending job of the channel with the highest score starts first"
    )
    weight: Count = Field(default=1, description="weight of the channel's flows when they share a resource with other flows")


class Channels(Section):
    """The three channels, with the indices 0, 1 and 2 in this order."""

    act_weight: Channel = Field(default_factory=Channel, description="everything but KV")
    kv_load: Channel = Field(default_factory=Channel, description="KV cache to scratchpad")
    kv_store: Channel = Field(default_factory=Channel, description="scratchpad to KV cache")

    def __iter__(self) -> Iterator[Channel]:  # type: ignore[override]  # pairs of names and values are of no use here
        """The channels by index."""
        return iter((self.act_weight, self.kv_load, self.kv_store))


class Dma(Section):
    """The DMA engines (docs/model/dma.md)."""

    younger: ClassVar[frozenset[str]] = frozenset({"codecs", "arbiter"})

    engines: Engines = Field(default=1, description="number of engines")
    max_concurrent_transfers: Count = Field(
        default=4, description="[transfers] largest number of simultaneous transfers, per engine"
    )
    queue_depth_per_master: Count = Field(
        default=8, description="[transfers] largest number of outstanding transfers of one channel, per engine"
    )
    alignment_bytes: TermSize = Field(
        default=64, description="[byte] transfers are extended at both ends to multiples of this size"
    )
    arbiter: Annotated[str, one_of(DMA_ARBITERS)] = Field(
        default=DMA_ARBITERS[0], description="rule that decides which channel's job an engine starts next"
    )
    kv_load_bonus: Natural = Field(
        default=1, description="number that is added to the score of every KV load; with arbiter priority"
    )
    channels: Channels = Field(default_factory=Channels, description="limits, priority and weight per channel")
    period: Count = Field(default=1, description="[cycle] jobs start only in cycles that are multiples of this period")
    codecs: tuple[Codec, ...] = Field(default=(), description="compressors and decompressors of each engine, of one NPU only")

    @property
    def at_a_time(self) -> int:
        """The largest number of outstanding transfers of one engine."""
        each = sum(min(channel.max_concurrent, self.queue_depth_per_master) for channel in self.channels)
        return min(self.max_concurrent_transfers, each)


class Dram(Section):
    """The DRAM channels (docs/model/sharing.md), optionally with rows."""

    younger: ClassVar[frozenset[str]] = frozenset({"controller", "device", "policy"})

    channels: Engines = Field(default=1, description="number of channels")
    interleave_bytes: Size = Field(default=256, description="[byte] number of consecutive bytes on one channel")
    capacity_bytes: Size = Field(default=2**30, description="[byte] size of the whole DRAM")
    bus_width_bytes: TermSize = Field(default=64, description="[byte] size of one burst on one channel")
    dram_burst_cycles: Count = Field(default=4, description="[cycle] time of one burst")
    peak_bw_bytes_per_cycle: Rate = Field(default=Fraction(128), description="[byte/cycle] peak bandwidth of one channel")
    t_setup_cycles: Natural = Field(
        default=0, description="[cycle] time from the start of a transfer to its first share of bandwidth"
    )
    period: Count = Field(default=1, description="the capacity of a channel is divided by this period")
    row_buffer: RowBuffer | None = Field(default=None, description="banks and rows; with allocation row_buffer_v1 only")
    controller: DramController | None = Field(
        default=None, description="controller and device of a channel; with allocation row_buffer_v2 only"
    )
    device: DeviceName | None = Field(default=None, description="DRAM device for controller; with row_buffer_v2")
    policy: PolicyName | None = Field(default=None, description="policy file for controller; with row_buffer_v2")

    @property
    def capacity(self) -> Fraction:
        """[B/cycle] The capacity of one channel: min(peak, bus width / burst time) / period.

        Under `row_buffer_v2`, the bandwidth of the data buses of its controller.
        """
        if self.controller is not None:
            return self.controller.peak
        return min(self.peak_bw_bytes_per_cycle, Fraction(self.bus_width_bytes, self.dram_burst_cycles)) / self.period


def memory_rules(allocation: str, dram: Dram, channels: int, at: Path) -> list[BrokenRule]:
    """The rules between `allocation` and the DRAM at a path of the machine, `channels` of which share addresses."""
    return [*device_rules(allocation, dram, at), *controller_rules(allocation, dram, channels, at)]


class Noc(Section):
    """The mesh between DMA engines and DRAM channels; every directed link is a resource."""

    younger: ClassVar[frozenset[str]] = frozenset({"model", "flit"})

    kind: Literal["mesh"] = Field(default="mesh", description="kind of network")
    rows: Annotated[int, integer(1, MAX_MESH_SIDE + 1)] = Field(default=2, description="rows of the mesh")
    cols: Annotated[int, integer(1, MAX_MESH_SIDE + 1)] = Field(default=4, description="columns of the mesh")
    link_bytes_per_cycle: Rate = Field(default=Fraction(64), description="[byte/cycle] capacity of one directed link")
    hop_latency_cycles: Natural = Field(default=2, description="[cycle] latency of one link")
    dma_at: Places = Field(default=((1, 0),), description="[row, col] of each DMA engine")
    dram_at: Places = Field(default=((0, 0),), description="[row, col] of each DRAM channel")
    model: Model = Field(
        default="fluid", description="fluid: transfers share links; flit: transfers move over routers as flits"
    )
    flit: Routers | None = Field(default=None, description="routers and packets of model flit; absent: its defaults")


class Spm(Section):
    """The scratchpad and its banks (docs/model/banks_and_arbiters.md)."""

    younger: ClassVar[frozenset[str]] = frozenset({"arbiter"})

    num_banks: Annotated[int, integer(1, MAX_BANKS + 1)] = Field(default=16, description="number of banks")
    bank_size_bytes: Size = Field(default=64 * 2**10, description="[byte] size of one bank, a multiple of bank_width_bytes")
    bank_width_bytes: TermSize = Field(default=16, description="[byte] size of a line, which a bank port moves in a cycle")
    map: Literal["interleaved", "blocked"] = Field(default="interleaved", description="how addresses are mapped to banks")
    ports: Count | None = Field(default=1, description="ports of a bank for reads and writes together")
    read_ports: Count | None = Field(default=None, description="read ports of a bank; with write_ports, instead of ports")
    write_ports: Count | None = Field(default=None, description="write ports of a bank; with read_ports, instead of ports")
    conflict_penalty_cycles: Count = Field(default=1, description="[cycle] time from a denial to the next request")
    arbiter: Arbiter = Field(
        default=next(iter(ARBITERS)),
        description="rule that decides which requests get the ports of a bank, or `package.module:name` for your own code",
    )
    max_wait_cycles: Natural = Field(
        default=8, description="[cycle] wait after which a request takes precedence over younger requests; with oldest_first"
    )
    backpressure_cycles: Count = Field(default=8, description="[cycle] wait after which a flow leaves its resources")
    check_overlap: Literal["none", "warn", "error"] = Field(
        default="none", description="what happens if the ranges of unordered jobs overlap"
    )

    def complete_given(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """`ports` has its default only if neither of the two other keys is given."""
        if "ports" not in data and ("read_ports" in data or "write_ports" in data):
            return {**data, "ports": None}
        return data

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole scratchpad."""
        return self.num_banks * self.bank_size_bytes


class Te(Section):
    """The tensor engines (docs/model/compute.md)."""

    younger: ClassVar[frozenset[str]] = frozenset({"fill", "drain", "operand_bytes_per_cycle", "mma", "clock_ratio"})

    engines: Engines = Field(default=2, description="number of engines")
    macs_per_cycle: Rate = Field(default=Fraction(4096), description="[MAC/cycle] rate with weights and activations of 8 bits")
    f_w: Factors = Field(
        default={8: Fraction(1), 4: Fraction(3, 2), 2: Fraction(2)},
        description="rate factor by bits of the weights; 1 where missing",
    )
    f_a: Factors = Field(
        default={8: Fraction(1), 4: Fraction(11, 10)},
        description="rate factor by bits of the activations; 1 where missing",
    )
    init_cycles: Natural = Field(default=8, description="[cycle] time before the body of a job")
    finalize_cycles: Natural = Field(default=4, description="[cycle] time after the body of a job")
    spm_traffic: Flag = Field(default=True, description="whether operands are streamed through the scratchpad's banks")
    timing: Literal["macs", "systolic", "mma"] = Field(default="macs", description="formula for the cycles of the body")
    rows: Count | None = Field(default=None, description="rows of the systolic array; with timing systolic only")
    cols: Count | None = Field(default=None, description="columns of the systolic array; with timing systolic only")
    dataflow: Literal["os", "ws", "is"] | None = Field(
        default=None, description="output, weight or input stationary; with timing systolic only"
    )
    fill: Literal["exposed", "overlapped"] = Field(
        default="exposed", description="whether the folds of a systolic array overlap; with timing systolic only"
    )
    drain: Literal["exposed", "overlapped"] = Field(
        default="exposed",
        description="whether a job enters the systolic array while the previous one drains; with fill overlapped only",
    )
    operand_bytes_per_cycle: Rate | None = Field(
        default=None,
        description="[byte/cycle] rate at which operands enter the systolic array; absent: no limit; with timing systolic only",
    )
    mma: Mma | None = Field(default=None, description="cores and matrix instructions; with timing mma only")
    clock_ratio: Share = Field(default=Fraction(1), description="sustained clock under load, divided by freq_ghz")
    period: Count = Field(default=1, description="[cycle] jobs start and progress in cycles that are multiples of this period")

    @property
    def overlaps_jobs(self) -> bool:
        """Whether several jobs can be in an engine at the same time: one enters the array while others drain."""
        return self.drain == "overlapped"

    @property
    def array_macs(self) -> Fraction:
        """[MAC/cycle] The rate of one engine at factor 1: `macs_per_cycle`, or all cells of a systolic array, or instructions
        of 8 bits."""
        if self.mma is not None:
            return self.mma.cores * self.mma.instruction(8, 8).rate
        return Fraction(self.rows * self.cols) if self.rows and self.cols else self.macs_per_cycle

    def rate(self, qbits_weight: int, qbits_activation: int) -> Fraction:
        """[MAC/cycle] The highest rate of one engine at these bit widths, without filling and draining a systolic array, and
        without the edges of blocks and waves of an MMA engine."""
        return self.clock_ratio * prod(self.rates(qbits_weight, qbits_activation))

    def rates(self, qbits_weight: int, qbits_activation: int) -> tuple[Fraction | int, ...]:
        """The factors of the peak rate at the clock of the machine; cells of a systolic array accept operands of any width."""
        if self.mma is not None:
            return self.mma.cores, self.mma.instruction(qbits_weight, qbits_activation).rate
        if self.timing == "systolic":
            return (self.array_macs,)
        return self.macs_per_cycle, self.f_w.get(qbits_weight, 1), self.f_a.get(qbits_activation, 1)


class Ve(Section):
    """The vector engines (docs/model/compute.md)."""

    younger: ClassVar[frozenset[str]] = frozenset({"op_cost", "clock_ratio", "reduction_trees"})

    engines: Engines = Field(default=2, description="number of engines")
    lanes: Count = Field(default=64, description="lanes of one engine")
    ops_per_lane: Rate = Field(default=Fraction(1), description="[op/cycle] operations of one lane")
    f_a: Factors = Field(default={8: Fraction(1)}, description="rate factor by bits of the activations; 1 where missing")
    init_cycles: Natural = Field(default=8, description="[cycle] time before the body of a job")
    finalize_cycles: Natural = Field(default=4, description="[cycle] time after the body of a job")
    reduction_pipeline: Natural = Field(default=8, description="[cycle] depth of the reduction tree's pipeline")
    reduction_trees: Count = Field(default=1, description="reduction trees of one engine; rows are divided among them")
    sfu: SfuCycles = Field(
        default={"exp": 0, "rsqrt": 0, "gelu": 0, "tanh": 0, "sigmoid": 0, "silu": 0},
        description="[cycle] latency of the special function unit per op; 0 where missing",
    )
    op_cost: OpFactors = Field(default={}, description="operations of a lane for one element, per op; 1 where missing")
    spm_traffic: Flag = Field(default=True, description="whether operands are streamed through the scratchpad's banks")
    clock_ratio: Share = Field(default=Fraction(1), description="sustained clock under load, divided by freq_ghz")
    period: Count = Field(default=1, description="[cycle] jobs start and progress in cycles that are multiples of this period")

    def rate(self, qbits_activation: int) -> Fraction:
        """Elementwise operations per cycle at this bit width."""
        return self.clock_ratio * prod(self.rates(qbits_activation))

    def rates(self, qbits_activation: int) -> tuple[Fraction | int, ...]:
        """The factors of the peak rate, at the clock of the machine."""
        return self.lanes, self.ops_per_lane, self.f_a.get(qbits_activation, 1)


class KvLayout(Section):
    """Shape of a KV cache, per head."""

    t_max: Count = Field(default=2048, description="[token] number of tokens for which a head has room")
    head_dim: Count = Field(default=128, description="[element] number of elements of a token in a head")


class EnergyModel(Section):
    """Energy for each event; no cycle depends on it."""

    younger: ClassVar[frozenset[str]] = frozenset({"by_cause"})

    dram_pj_per_byte: Energy = Field(default=Fraction(20), description="[pJ/byte] energy of a DRAM access")
    noc_pj_per_byte_hop: Energy = Field(default=Fraction(1), description="[pJ/byte] energy of one mesh link")
    spm_pj_per_byte: Energy = Field(default=Fraction(1), description="[pJ/byte] energy of a scratchpad access")
    mac_pj: Energies = Field(default={8: Fraction(1, 5)}, description="[pJ] energy of one MAC, by bits of the weights")
    ve_op_pj: Energy = Field(default=Fraction(1, 2), description="[pJ] energy of one vector operation")
    static_mw: Energy = Field(default=Fraction(0), description="[mW] static power")
    by_cause: Flag = Field(
        default=False,
        description="whether traces state the tensor and the bits of commands, so that energy can be grouped by them",
    )


class Cost(Section):
    """The cost of running the machine with all its parts; no cycle depends on it."""

    usd_per_hour: Rate | None = Field(
        default=None, description="[$/hour] rent of the machine, or its price divided by the hours of its life"
    )
    watts: Rate | None = Field(default=None, description="[W] power that the machine draws while it serves requests")


#: Keys that every kind of machine has.
FREQ_GHZ: Any = Field(default=Fraction(1), description="[GHz] core clock")
ALLOCATION: Any = Field(default="shared_bw_v1", description="how flows share a resource (docs/model/sharing.md)")
MAX_CYCLES: Any = Field(default=100_000_000, description="[cycle] cycle in which a run is aborted; this cycle is not run")
CONTROL: Any = Field(default_factory=Control, description="the command queue's executor")
KV_LAYOUTS: Any = Field(
    default=(KvLayout(),), description="shapes of KV caches; the field kv_layout_id of an entry is an index into this list"
)
ENERGY: Any = Field(default_factory=EnergyModel, description="energy of each access and operation, and static power")
COST: Any = Field(default=None, description="price and power of the machine; absent: not known")
CycleLimit = Annotated[int, integer(0, WIDE_LIMIT)]


class NpuConfig(MachineConfig):
    """One NPU. `load_config` makes it; its attributes are the keys of the file. Two machines are equal if all values are equal,
    whatever their source.

    >>> import kernbench as kb
    >>> machine = kb.load_config("npu_mobile")
    >>> isinstance(machine, kb.NpuConfig), machine.te.engines, machine == kb.load_config("npu_mobile", {"te.engines": 1})
    (True, 2, False)
    """

    younger: ClassVar[frozenset[str]] = frozenset({"cost"})

    schema_name: Literal["kernbench/npu/1"] = Field(
        default="kernbench/npu/1", alias="schema", description="kind and version of the file"
    )
    freq_ghz: Frequency = FREQ_GHZ
    allocation: Allocation = ALLOCATION
    max_cycles: CycleLimit = MAX_CYCLES
    control: Control = CONTROL
    dma: Dma = Field(default_factory=Dma, description="DMA engines")
    dram: Dram = Field(default_factory=Dram, description="DRAM channels")
    noc: Noc | None = Field(default=None, description="mesh; absent: the DMA engines are directly at the DRAM")
    llc: NpuLlc | None = Field(default=None, description="last-level cache in front of the DRAM channels; absent: no cache")
    spm: Spm = Field(default_factory=Spm, description="scratchpad")
    te: Te = Field(default_factory=Te, description="tensor engines")
    ve: Ve = Field(default_factory=Ve, description="vector engines")
    kv_layouts: tuple[KvLayout, ...] = KV_LAYOUTS
    energy: EnergyModel = ENERGY
    chip: Chip | None = Field(default=None, description="facts of a real chip; no phase of the model reads them")
    cost: Cost | None = COST

    _memory_of: tuple[str, int] | None = None  #: for a PE of a system: key and value of the capacity of its memory

    # An NPU as a system of one PE: these properties have the same names on `SystemConfig`.

    #: Prefixes of the paths of keys of a PE, and of its memory.
    pe_path: ClassVar[str] = ""
    memory_path: ClassVar[str] = "dram."
    cache_path: ClassVar[str] = "llc."
    network_path: ClassVar[str] = "noc."
    #: SIPs, cubes of a SIP, PEs of a cube; number of all PEs; slices of a stack.
    shape: ClassVar[tuple[int, int, int]] = (1, 1, 1)
    pes: ClassVar[int] = 1
    slices: ClassVar[int] = 1
    pe_names: ClassVar[tuple[str, ...]] = ("pe0",)
    #: [B] of a cube's SRAM, and of a PE's scratchpad, in the address map: on an NPU every address is in DRAM.
    sram_bytes: ClassVar[int] = 0
    tcm_bytes: ClassVar[int] = 0
    #: For its only PE, which has no neighbours: concurrent transfers on the channel of queues between PEs, and [B/cycle] of its
    #: link to other PEs, which is never used.
    comm_transfers: ClassVar[int] = 0
    link_bytes_per_cycle: ClassVar[Fraction] = Fraction(1)

    @property
    def pe(self) -> NpuConfig:
        """The engines and memories of a PE (`dma`, `spm`, `te`, `ve`)."""
        return self

    @property
    def memory(self) -> Dram:
        """The memory of the loads and stores of a PE."""
        return self.dram

    @property
    def slice_bytes(self) -> int:
        """The bytes of one slice, which is the whole DRAM."""
        return self.dram.capacity_bytes

    @property
    def slice_channels(self) -> int:
        """The channels of one slice, which is the whole DRAM."""
        return self.dram.channels

    def slice_pe(self, index: int) -> int:
        """The PE of the cube to which this slice belongs."""
        return 0

    def slice_name(self, sip: int, cube: int, index: int) -> str:
        """The name of a slice in error messages."""
        return "the DRAM"

    @property
    def network(self) -> Noc | None:
        """The mesh between DMA engines and memory."""
        return self.noc

    @property
    def components(self) -> Mapping[str, Any]:
        """The components that replace kinds of nodes; the file of an NPU names none."""
        return {}

    @property
    def cache(self) -> NpuLlc | None:
        """The last-level cache before the memory."""
        return self.llc

    def channel_weight(self) -> int:
        """The largest sum of weights on a DRAM channel."""
        return dram_weight(self)

    def cache_weight(self) -> int:
        """The largest sum of weights at the last-level cache."""
        return cache_weight(self)

    def broken_rules(self) -> list[BrokenRule]:
        broken = memory_rules(self.allocation, self.dram, self.dram.channels, ("dram",))
        broken += [*npu_cache_rules(self), *codec_rules(self)]
        if self.noc is not None and self.noc.model == "flit":
            link, routers = self.noc.link_bytes_per_cycle, self.noc.flit or Routers()
            wide, cached = self.spm.bank_width_bytes, self.llc is not None
            broken += router_rules(routers, self.allocation, link, wide, cached, 1, ("noc",), ("noc", "flit"))
        return broken or broken_rules(self)
