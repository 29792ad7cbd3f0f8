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


Tile = tuple[Count, Count]
Tiles = Annotated[
    tuple[Tile, ...],
    Rule(
        _tiles, lambda: {"type": "array", "items": {"type": "array", "items": integer(1).json(), "minItems": 2, "maxItems": 2}}
    ),
]


class Chip(Section):
    """A chip that can be bought or rented (docs/reference/chips.md)."""

    younger: ClassVar[frozenset[str]] = frozenset({"host_link_gb_s"})

    name: str = Field(description="the vendor's name of the chip")
    kind: Literal["gpu", "systolic", "tensix", "npu"] = Field(description="how its cores are built: which planner serves it")
    calibrated: Flag = Field(default=False, description="whether its sustained rates were fitted to measurements of this chip")
    cores: Count = Field(description="cores that take blocks of a kernel: SM, CU, Tensix, arrays")
    core_macs: Rates = Field(description="[MAC/cycle] rated rate of one core by bits of the operands")
    float8: Flag = Field(
        default=True, description="whether its multipliers take floats of 8 bits; if not, kernels expand them to 16 bits"
    )
    rated_memory_gb_s: Rate = Field(description="[GB/s] the vendor's DRAM bandwidth")
    rated_clock_ghz: Rate = Field(description="[GHz] clock at which the rated product rate holds")
    power_w: Rate | None = Field(default=None, description="[W] the vendor's limit of power")
    flop_pj: Rate | None = Field(
        default=None, description="[pJ] of the whole chip for an operation of 16-bit products at the rated clock, by process"
    )
    cache_bytes: Size | None = Field(default=None, description="[byte] last-level cache shared by the cores; absent: none")
    cache_bytes_per_cycle: Rate = Field(default=Fraction(1024), description="[byte/cycle] the cores together from that cache")
    stream_bytes_per_cycle: Rate = Field(
        default=Fraction(512), description="[byte/cycle] of vector kernels, which read and write, at that cache"
    )
    cache_kept: Rate = Field(default=Fraction(3, 10), description="share of the cache that a stream longer than it still hits")
    cache_latency_cycles: Natural = Field(default=250, description="[cycle] a dependent load from the last-level cache")
    core_threads: Count = Field(default=2048, description="threads that a core holds at a time; of `kind: gpu`")
    row_cycles: Natural = Field(default=0, description="[cycle] a core takes for a block of a vector kernel, beside its bytes")
    start_ns: Energy = Field(default=Fraction(2000), description="[ns] a kernel in a stream, before it moves a byte")
    graph_start_ns: Energy = Field(default=Fraction(1000), description="[ns] the same in a captured graph or a trace")
    tiles: Tiles = Field(default=((128, 128),), description="[rows, columns] of the blocks that its products are cut into")
    array: Count = Field(default=128, description="rows and columns of a systolic array; of `kind: systolic`")
    operand_bytes_per_cycle: Rate = Field(
        default=Fraction(128), description="[byte/cycle] a core takes operands from its scratchpad; of `kind: tensix`"
    )
    compute_capability: Rate | None = Field(
        default=None, description="version of the instruction set, by which libraries of NVIDIA GPUs choose kernels"
    )
    core_shared_bytes: Size | None = Field(default=None, description="[byte] shared memory of a core, for all of its blocks")
    attention_rows: Count = Field(default=128, description="query rows of a block of attention")
    attention_keys: Count = Field(default=128, description="keys of a tile of attention")
    attention_resident: Count = Field(default=1, description="blocks of attention on a core at a time")
    attention_block_cycles: Natural = Field(default=1500, description="[cycle] a block of attention begins and ends")
    attention_idle_cycles: Natural = Field(default=750, description="[cycle] a block without rows: of a shorter sequence")
    attention_key_cycles: Rate = Field(
        default=Fraction(82), description="[cycle] a block of attention takes for one key, at least"
    )
    attention_ramp_ns: Energy = Field(default=Fraction(0), description="[ns] a stream of keys lasts longer than its bytes")
    links: Count = Field(default=1, description="links to other chips")
    link_gb_s: Rate = Field(default=Fraction(25), description="[GB/s] one link, each way")
    linked_chips: Count | None = Field(default=None, description="chips that the links join, at most; more use the host's PCIe")
    host_link_gb_s: Rate = Field(default=Fraction(25), description="[GB/s] PCIe of the host, each way: what a transfer reaches")
    links_share: Rate = Field(default=Fraction(3, 4), description="share of the links' bandwidth that a collective sustains")
    links_short_share: Rate | None = Field(
        default=None, description="the same share for short messages; absent: `links_share`. Not of `kind: gpu`"
    )
    link_latency_ns: Energy = Field(default=Fraction(1000), description="[ns] one hop of a collective")
    nics: Count = Field(default=8, description="network adapters of a node, at most: each of its chips has one of its own")
    nic_gb_s: Rate = Field(default=Fraction(25), description="[GB/s] one network adapter, each way")
    network_latency_ns: Energy = Field(default=Fraction(10_000), description="[ns] a step of a collective between nodes")

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
