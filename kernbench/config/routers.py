"""The routers of a mesh that moves flits: their keys, and rules between these and the rest (docs/model/flit_transfers.md)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Literal

from kernbench.config.fields import TERM_LIMIT, Natural, TermSize, integer
from kernbench.config.rules import BrokenRule, Path
from kernbench.config.section import Field, Section

if TYPE_CHECKING:
    from kernbench.config import NpuConfig
    from kernbench.config.system import SystemConfig

#: Allocation rules under which transfers may move over routers: controllers and caches need to observe each byte on its route.
SHARED = ("shared_bw_v1", "max_min_v1", "fifo_v1")
Model = Literal["fluid", "flit"]


class Routers(Section):
    """Routers with virtual channels, and the packets of transfers. Times are cycles of the core clock."""

    flit_bytes: TermSize | None = Field(
        default=None, description="[byte] size of a flit; absent: the bytes of a link in a cycle"
    )
    packet_flits: Annotated[int, integer(1, 1 << 16)] = Field(default=4, description="largest number of flits of a packet")
    window_packets: Annotated[int, integer(2, 1 << 12)] = Field(
        default=16, description="largest number of packets of a flow in the network"
    )
    channels: Annotated[int, integer(1, 65)] = Field(default=8, description="virtual channels of an input")
    depth: Annotated[int, integer(1, 1 << 16)] = Field(default=8, description="flits that a virtual channel holds")
    switch_cycles: Natural = Field(default=1, description="[cycle] time from the grant of the switch to the link")
    credit_cycles: Natural = Field(
        default=2, description="[cycle] time that a router needs for a credit, after the link latency"
    )

    def flit(self, link: Fraction) -> int:
        """[byte] The size of a flit, for links of `width` bytes per cycle."""
        return self.flit_bytes or -(-link.numerator // link.denominator)

    def packet(self, link: Fraction) -> int:
        """[byte] of a packet."""
        return self.packet_flits * self.flit(link)

    def link_cycles(self, latency: int) -> int:
        """[cycle] The latency of a link for which a hop takes `latency` cycles, if that is long enough."""
        return max(1, latency - 1 - self.switch_cycles)


DEFAULTS = Routers()


def moves_flits(config: NpuConfig | SystemConfig) -> bool:
    """Whether the transfers of a machine move over routers."""
    if config.schema_name == "kernbench/system/1":
        return config.cube.mesh.model == "flit"
    return config.noc is not None and config.noc.model == "flit"


def router_rules(
    routers: Routers, allocation: str, link: Fraction, width: int, cached: bool, least: int, path: Path, at: Path
) -> Iterator[BrokenRule]:
    """The rules of a mesh that moves flits. `width`: of a bank; `least`: the smallest number of channels; `path`: the path of
    the mesh."""
    if allocation not in SHARED:
        rule = f"under {allocation} it must be fluid: flits are for {', '.join(SHARED)}"
        yield BrokenRule((*path, "model"), "flit", rule)
    if cached:
        yield BrokenRule((*path, "model"), "flit", "with a last-level cache it must be fluid")
    if routers.channels < least:
        rule = f"it must be at least {least}: packets that have turned have channels of their own"
        yield BrokenRule((*at, "channels"), routers.channels, rule)
    if (routers.window_packets - 1) * routers.packet(link) < width:
        packet = f"the {routers.packet(link)} bytes of a packet"
        rule = f"minus 1, times {packet}, it must be at least spm.bank_width_bytes ({width})"
        yield BrokenRule((*at, "window_packets"), routers.window_packets, rule)
    if routers.window_packets * routers.packet(link) >= TERM_LIMIT:
        rule = f"times the {routers.packet(link)} bytes of a packet it must be below 2^31"
        yield BrokenRule((*at, "window_packets"), routers.window_packets, rule)
