"""Facts of a real chip in addition to its machine: the data that a planner of single operations needs, and whether the chip was
calibrated.

No phase of the timing model reads this section. Rates that the model does read (`te`, `ve`, `dram`) are sustained rates of the
chip; `rated_*` has the vendor's figures.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from kernbench.config.fields import Count, Energy, Flag, Natural, Rate, Rates, Size, integer, refuse
from kernbench.config.section import Field, Rule, Section


def _tiles(value: Any) -> Any:
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(one, (list, tuple)) for one in value):
        raise refuse("it must be a list of pairs [rows, columns]")
    return value


DramKind = Literal["hbm", "gddr", "lpddr"]
Tile = tuple[Count, Count]
Tiles = Annotated[
    tuple[Tile, ...],
    Rule(
        _tiles, lambda: {"type": "array", "items": {"type": "array", "items": integer(1).json(), "minItems": 2, "maxItems": 2}}
    ),
]


class Chip(Section):
    """A chip that can be bought or rented (docs/reference/chips.md)."""

    younger: ClassVar[frozenset[str]] = frozenset({"host_link_gb_s", "dram_kind"})

    name: str = Field(description="the vendor's name of the chip")
    kind: Literal["gpu", "systolic", "tensix", "npu"] = Field(
        description="kind of cores, which decides how operations are planned"
    )
    calibrated: Flag = Field(default=False, description="whether sustained rates were fitted to measurements of this chip")
    cores: Count = Field(description="number of cores that execute blocks of a kernel (SMs, CUs, Tensix cores, arrays)")
    core_macs: Rates = Field(description="[MAC/cycle] rated rate of one core, by bits of the operands")
    float8: Flag = Field(
        default=True, description="whether the multipliers accept floats of 8 bits; if not, kernels expand them to 16 bits"
    )
    rated_memory_gb_s: Rate = Field(description="[GB/s] the vendor's DRAM bandwidth")
    dram_kind: DramKind | None = Field(
        default=None,
        description="kind of DRAM; chips with the same kind of cores and of DRAM have about the same latency of DRAM, and "
        "sustain about the same share of the vendor's DRAM bandwidth",
    )
    rated_clock_ghz: Rate = Field(description="[GHz] clock for which the vendor states the rate of products")
    power_w: Rate | None = Field(default=None, description="[W] the vendor's power limit")
    flop_pj: Rate | None = Field(
        default=None,
        description="[pJ] energy of the whole chip for one operation of a 16-bit product at the rated clock, by process node",
    )
    cache_bytes: Size | None = Field(
        default=None, description="[byte] size of the last-level cache that all cores share; absent: no cache"
    )
    cache_bytes_per_cycle: Rate = Field(
        default=Fraction(1024), description="[byte/cycle] rate at which all cores together read the last-level cache"
    )
    stream_bytes_per_cycle: Rate = Field(
        default=Fraction(512), description="[byte/cycle] rate at which vector kernels read and write the last-level cache"
    )
    cache_kept: Rate = Field(
        default=Fraction(3, 10), description="share of the cache that still hits if a stream is longer than the cache"
    )
    cache_latency_cycles: Natural = Field(
        default=250, description="[cycle] latency of a dependent load from the last-level cache"
    )
    core_threads: Count = Field(default=2048, description="number of threads that a core holds at a time; only for `kind: gpu`")
    row_cycles: Natural = Field(
        default=0, description="[cycle] time of a core for a block of a vector kernel, in addition to the time of its bytes"
    )
    start_ns: Energy = Field(
        default=Fraction(2000), description="[ns] time from the start of a kernel until it moves the first byte"
    )
    graph_start_ns: Energy = Field(
        default=Fraction(1000), description="[ns] the same as start_ns, for a kernel in a captured graph or a captured trace"
    )
    tiles: Tiles = Field(default=((128, 128),), description="[rows, columns] of the blocks into which products are cut")
    array: Count = Field(
        default=128, description="number of rows and of columns of a systolic array; only for `kind: systolic`"
    )
    operand_bytes_per_cycle: Rate = Field(
        default=Fraction(128),
        description="[byte/cycle] rate at which a core reads operands from its scratchpad; only for `kind: tensix`",
    )
    compute_capability: Rate | None = Field(
        default=None,
        description="version of the instruction set, which decides which kernels the libraries of NVIDIA GPUs choose",
    )
    core_shared_bytes: Size | None = Field(
        default=None, description="[byte] shared memory of a core, for all its blocks together"
    )
    attention_rows: Count = Field(default=128, description="number of query rows in a block of attention")
    attention_keys: Count = Field(default=128, description="number of keys in a tile of attention")
    attention_resident: Count = Field(default=1, description="number of blocks of attention that a core executes at a time")
    attention_block_cycles: Natural = Field(
        default=1500, description="[cycle] time for the start and the end of a block of attention"
    )
    attention_idle_cycles: Natural = Field(
        default=750, description="[cycle] time of a block of attention without rows, which a shorter sequence has"
    )
    attention_key_cycles: Rate = Field(
        default=Fraction(13, 2),
        description="[cycle] least time of a block of attention for one key; on GPUs the time beside its products and its "
        "softmax, for heads of 128 elements of 16 bits",
    )
    attention_ramp_ns: Energy = Field(
        default=Fraction(0), description="[ns] time of a stream of keys in addition to the time of its bytes"
    )
    links: Count = Field(default=1, description="number of links to other chips")
    link_gb_s: Rate = Field(default=Fraction(25), description="[GB/s] bandwidth of one link in each direction")
    linked_chips: Count | None = Field(
        default=None, description="largest number of chips that the links connect; more chips use the PCIe of the host"
    )
    host_link_gb_s: Rate = Field(
        default=Fraction(25), description="[GB/s] bandwidth that a transfer over the PCIe of the host reaches in each direction"
    )
    links_share: Rate = Field(default=Fraction(3, 4), description="share of the links' bandwidth that a collective sustains")
    links_short_share: Rate | None = Field(
        default=None, description="the same as links_share, for short messages; absent: links_share. Not for `kind: gpu`"
    )
    link_latency_ns: Energy = Field(default=Fraction(1000), description="[ns] time of one hop of a collective")
    nics: Count = Field(
        default=8, description="largest number of network adapters that the chips of a node use; each chip uses at most one"
    )
    nic_gb_s: Rate = Field(default=Fraction(25), description="[GB/s] bandwidth of one network adapter in each direction")
    network_latency_ns: Energy = Field(
        default=Fraction(10_000), description="[ns] latency of the network for a step of a collective between nodes"
    )

    @property
    def power_share(self) -> Fraction:
        """The share of the rated rate of 16-bit products that the power limit allows; 1 if no limit is known.

        At the limit the clock falls. The voltage falls in proportion to the clock, and energy is proportional to the square of
        the voltage, so power is proportional to the cube of the clock.
        """
        if self.power_w is None or self.flop_pj is None:
            return Fraction(1)
        rated = 2 * self.cores * self.macs(16) * self.rated_clock_ghz  # [GFLOPS]
        allowed = self.power_w * 1000 / (rated * self.flop_pj)
        return min(Fraction(1), Fraction(float(allowed) ** (1 / 3)))

    def multiplied_bits(self, bits: int, *, floats: bool) -> int:
        """Bits of the elements that the multipliers take for operands of `bits` bits."""
        return 16 if bits <= 8 and floats and not self.float8 else bits

    def macs(self, bits: int) -> Any:
        """[MAC/cycle] The rate of one core for operands of `bits` bits: the rate of the next wider type that the core has, else
        of its widest type."""
        fits = [width for width in sorted(self.core_macs) if width >= bits]
        return self.core_macs[fits[0] if fits else max(self.core_macs)]
