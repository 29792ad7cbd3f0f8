"""The sections of a system's file (`kernbench/system/1`) that one NPU does not have.

All defaults are in this file. Rules between fields are in `system/rules.py`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from kernbench.common.errors import shown
from kernbench.common.naming import KINDS, io_index, parse_pe
from kernbench.config.cache import Llc
from kernbench.config.fields import (
    CODE_PATTERN,
    MAX_ENGINES,
    Count,
    Engines,
    Flag,
    Length,
    Natural,
    Rate,
    Size,
    Width,
    integer,
    names_code,
    refuse,
)
from kernbench.config.routers import Model, Routers
from kernbench.config.schema import Dma, Dram, Spm, Te, Ve
from kernbench.config.section import Field, Rule, Section

MAX_SIDE = 1024  # limit of SIPs, and of cubes of a SIP, along a row or column
MAX_MESH = 64  # limit of routers of a cube along a row or column, and of UCIe ports of a side
BUILTIN = "builtin"


class Link(Section):
    """Two directed connections, one for each direction."""

    bytes_per_cycle: Rate = Field(default=Fraction(64), description="[byte/cycle] bandwidth, each way")
    cycles: Natural = Field(default=0, description="[cycle] latency without the latency of the distance")
    mm: Length | None = Field(default=None, description="[mm] length; absent: computed from the positions of its ends")


class MeshLink(Link):
    """Between neighbouring routers of a cube."""

    bytes_per_cycle: Rate = Field(default=Fraction(128), description="[byte/cycle] bandwidth, each way")


class UcieLink(Link):
    """Between UCIe ports."""

    bytes_per_cycle: Rate = Field(default=Fraction(256), description="[byte/cycle] bandwidth, each way")
    cycles: Natural = Field(default=4, description="[cycle] fixed latency: both PHYs and adapters")


class PcieLink(Link):
    """Between the host and a PCIe endpoint."""

    bytes_per_cycle: Rate = Field(default=Fraction(63), description="[byte/cycle] bandwidth, each way")
    cycles: Natural = Field(default=150, description="[cycle] fixed latency, each way")
    mm: Length | None = Field(default=Fraction(0), description="[mm] length; the host has no position")


class SipLink(Link):
    """Between neighbouring SIPs."""

    bytes_per_cycle: Rate = Field(default=Fraction(100), description="[byte/cycle] bandwidth, each way")
    cycles: Natural = Field(default=200, description="[cycle] fixed latency: both serialisers and forward error correction")


NIC, RAIL = r"nic([0-9]{1,5})\.([0-9]{1,5})", r"rail([0-9]{1,5})"
PORT = r"dim([0-9]{1,5})\.([0-9]{1,5})"


def _failed_link(value: Any) -> str:
    for pattern, form in ((NIC, "nic{}.{}"), (RAIL, "rail{}"), (PORT, "dim{}.{}")):
        found = re.fullmatch(pattern, value) if isinstance(value, str) and value.isascii() else None
        if found:
            return form.format(*map(int, found.groups()))
    first, dash, second = value.partition("-") if isinstance(value, str) else ("", "", "")
    if not dash or not all(part.isascii() and part.isdigit() and len(part) < 6 for part in (first, second)):
        raise refuse(
            'it must be two SIP numbers such as "0-1", a NIC of a row such as "nic0.3", a rail such as "rail3", or the link of '
            'a SIP to its switch in a dimension such as "dim1.5"'
        )
    return f"{int(first)}-{int(second)}"


FAILED = r"^([0-9]{1,5}-[0-9]{1,5}|(nic|dim)[0-9]{1,5}\.[0-9]{1,5}|rail[0-9]{1,5})$"
FailedLink = Annotated[str, Rule(_failed_link, lambda: {"type": "string", "pattern": FAILED})]


def _slow_pe(value: Any) -> str:
    name, colon, factor = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    try:
        parse_pe(name)
        right = bool(colon) and len(factor) < 9 and Fraction(factor) >= 1
    except (ValueError, ZeroDivisionError):
        right = False
    if not right:
        raise refuse('it must be a PE and a factor of at least 1, like "sip0.cube0.pe3:2"')
    return f"{name}:{Fraction(factor)}"


SlowPe = Annotated[str, Rule(_slow_pe, lambda: {"type": "string", "pattern": "^sip[0-9]+\\.cube[0-9]+\\.pe[0-9]+:[0-9./]+$"})]


class Switches(Section):
    """The switches of the kinds `switch`, `fat_tree` and `dimensions`."""

    younger: ClassVar[frozenset[str]] = frozenset({"reduce"})

    cycles: Natural = Field(default=0, description="[cycle] latency of a switch, added to each link that enters it")
    oversubscription: Rate = Field(
        default=Fraction(1),
        description="fat_tree: bandwidth of the links of a leaf's SIPs divided by the bandwidth of its uplink; dimensions: "
        "bandwidth of all links of a switch divided by the bandwidth through the switch",
    )
    reduce: Flag = Field(
        default=False, description="whether a switch combines messages of several SIPs, and copies a message to several SIPs"
    )


MAX_DIMENSIONS = 5  # the argument sip_topo_kind of a kernel has room for the sizes of five dimensions


class Dimension(Section):
    """A dimension of `kind: dimensions`: how the SIPs that differ only in their position in this dimension are connected."""

    kind: Literal["ring", "fully_connected", "switch"] = Field(description="how the SIPs of a line are connected")
    size: Annotated[int, integer(1, MAX_SIDE + 1)] = Field(description="SIPs of a line; a dimension of one SIP has no links")
    link: SipLink | None = Field(
        default=None, description="between two SIPs, or between a SIP and a switch; absent: system.link"
    )
    switch: Switches | None = Field(default=None, description="the switches of a dimension switch; absent: system.switch")


class NicLink(Link):
    """Between a NIC and the switch of its rail."""

    bytes_per_cycle: Rate = Field(default=Fraction(50), description="[byte/cycle] bandwidth, each way")
    cycles: Natural = Field(default=1000, description="[cycle] fixed latency: NIC, serialisers and forward error correction")


class Rails(Section):
    """The rails of `kind: rails`: each rail has a NIC in every row of SIPs, and a switch that connects these NICs."""

    nics: tuple[Annotated[int, integer(0, MAX_SIDE + 1)], ...] = Field(
        default=(), description="for each column of SIPs, the rail whose NIC they use; empty: a separate rail for each column"
    )
    link: NicLink = Field(default_factory=NicLink, description="between a NIC and the switch of its rail")


class Package(Section):
    """The SIPs and their connections."""

    younger: ClassVar[frozenset[str]] = frozenset({"failed", "slow", "switch", "rails", "dimensions"})

    sips: Annotated[int, integer(1, MAX_SIDE + 1)] = Field(default=1, description="number of SIPs")
    kind: Literal["ring", "torus", "mesh", "all_to_all", "dragonfly", "switch", "fat_tree", "rails", "dimensions"] = Field(
        default="ring", description="how SIPs are connected"
    )
    rows: Annotated[int, integer(1, MAX_SIDE + 1)] = Field(
        default=1,
        description="rows of SIPs: 1 in a ring, all_to_all, switch or dimensions; groups of a dragonfly, leaves of a fat_tree, "
        "nodes of rails",
    )
    cols: Annotated[int, integer(1, MAX_SIDE + 1)] | None = Field(
        default=None, description="columns of SIPs; absent: as many as necessary"
    )
    link: SipLink = Field(default_factory=SipLink, description="between neighbouring SIPs")
    pitch_mm: Length = Field(default=Fraction(100), description="[mm] distance between the centres of neighbouring SIPs")
    switch: Switches = Field(default=Switches(), description="what a switch or fat_tree consists of")
    rails: Rails = Field(default=Rails(), description="the rails of kind rails")
    dimensions: tuple[Dimension, ...] = Field(
        default=(), description="the dimensions of kind dimensions, the first one first in routes and in the numbers of SIPs"
    )
    failed: tuple[FailedLink, ...] = Field(
        default=(),
        description="failed parts: links between SIPs such as 0-1, NICs of rows such as nic0.3, rails such as rail3, and links "
        "to the switches of a dimension such as dim1.5",
    )
    slow: tuple[SlowPe, ...] = Field(
        default=(), description="PEs whose link to their router has its bandwidth divided by a factor, such as sip0.cube0.pe3:2"
    )


def _io_name(value: Any) -> str:
    try:
        io_index(value if isinstance(value, str) else "")
    except ValueError:
        raise refuse("it must be io and a number, like io0") from None
    return str(value)


IoName = Annotated[str, Rule(_io_name, lambda: {"type": "string", "pattern": "^io(0|[1-9][0-9]*)$"})]


class IoChiplet(Section):
    """An IO chiplet beside the cubes."""

    name: IoName = Field(default="io0", description="name of the IO chiplet in node ids: io and a number")
    side: Literal["n", "e", "s", "w"] = Field(default="w", description="side of the SIP at which the IO chiplet is located")


class Sip(Section):
    """One SIP: a grid of cubes, and IO chiplets beside it."""

    rows: Annotated[int, integer(1, MAX_SIDE + 1)] = Field(default=1, description="rows of cubes")
    cols: Annotated[int, integer(1, MAX_SIDE + 1)] = Field(default=1, description="columns of cubes")
    gap_mm: Length = Field(
        default=Fraction(1), description="[mm] distance between dies: two cubes, or a cube and an IO chiplet"
    )
    io: tuple[IoChiplet, ...] = Field(default=(IoChiplet(),), description="the IO chiplets, one a side at most")


class Mesh(Section):
    """The routers of a cube and the links between them."""

    younger: ClassVar[frozenset[str]] = frozenset({"model", "flit"})

    rows: Annotated[int, integer(1, MAX_MESH + 1)] = Field(default=4, description="rows of routers")
    cols: Annotated[int, integer(1, MAX_MESH + 1)] = Field(default=4, description="columns of routers")
    link: MeshLink = Field(default_factory=MeshLink, description="between neighbouring routers")
    router_cycles: Natural = Field(default=1, description="[cycle] latency of a router, added to each link that enters it")
    model: Model = Field(
        default="fluid", description="fluid: transfers share links; flit: transfers move over routers as flits"
    )
    flit: Routers | None = Field(default=None, description="routers and packets of model flit; absent: its defaults")


class HbmLink(Link):
    """Between a slice of the HBM and its router."""

    bytes_per_cycle: Rate = Field(default=Fraction(128), description="[byte/cycle] bandwidth of one slice, each way")


class Hbm(Dram):
    """The HBM stack of a cube (docs/model/sharing.md); its channels are divided into slices."""

    channels: Engines = Field(default=8, description="number of channels of the stack")
    capacity_bytes: Size = Field(default=16 * 2**30, description="[byte] size of the stack")
    slices: Engines | None = Field(
        default=None, description="parts of the stack with their own channels; absent: as many as PEs"
    )
    width_mm: Length = Field(
        default=Fraction(11), description="[mm] size of the footprint, west to east; no router is located there"
    )
    height_mm: Length = Field(default=Fraction(11), description="[mm] size of the footprint, north to south")
    link: HbmLink = Field(default_factory=HbmLink, description="between a slice and its router")


class Sram(Section):
    """The shared SRAM of a cube."""

    bytes: Size = Field(default=32 * 2**20, description="[byte] size")
    bytes_per_cycle: Rate = Field(default=Fraction(128), description="[byte/cycle] bandwidth, each way")
    cycles: Natural = Field(default=4, description="[cycle] fixed latency")


class UciePorts(Section):
    """The UCIe ports of a cube."""

    ports_per_side: Annotated[int, integer(0, MAX_MESH + 1)] = Field(default=1, description="ports at each side")
    link: UcieLink = Field(default_factory=UcieLink, description="of a port to that of another die")
    router: MeshLink = Field(default_factory=MeshLink, description="of a port to its router")


class MCpu(Section):
    """The management processor of a cube."""

    cycles: Natural = Field(default=50, description="[cycle] latency of a launch or a copy in this component")
    link: Link = Field(default_factory=Link, description="to its router")


class Cube(Section):
    """One cube: a die with PEs, a mesh, an SRAM and an HBM stack."""

    younger: ClassVar[frozenset[str]] = frozenset({"llc"})

    width_mm: Width = Field(default=Fraction(20), description="[mm] west to east")
    height_mm: Width = Field(default=Fraction(20), description="[mm] north to south")
    pes: Annotated[int, integer(1, MAX_ENGINES + 1)] = Field(default=8, description="number of PEs")
    mesh: Mesh = Field(default_factory=Mesh, description="routers and their links")
    hbm: Hbm = Field(default_factory=Hbm, description="HBM stack")
    llc: Llc | None = Field(default=None, description="last-level cache before the HBM stack; absent: no cache")
    sram: Sram = Field(default_factory=Sram, description="shared SRAM")
    ucie: UciePorts = Field(default_factory=UciePorts, description="UCIe ports")
    m_cpu: MCpu = Field(default_factory=MCpu, description="management processor")


class Pcie(Section):
    """The PCIe endpoint of an IO chiplet."""

    link: PcieLink = Field(default_factory=PcieLink, description="between the host and the endpoint")
    setup_cycles: Natural = Field(default=100, description="[cycle] latency of a launch or a copy in this component")


class IoCpu(Section):
    """The processor of an IO chiplet."""

    cycles: Natural = Field(default=100, description="[cycle] latency of a launch in this component")


class IoLink(Link):
    """The links inside an IO chiplet."""

    bytes_per_cycle: Rate = Field(default=Fraction(256), description="[byte/cycle] bandwidth, each way")
    cycles: Natural = Field(default=2, description="[cycle] fixed latency")


class Io(Section):
    """The components of every IO chiplet."""

    depth_mm: Length = Field(default=Fraction(4), description="[mm] size in the direction away from the cubes")
    pcie: Pcie = Field(default_factory=Pcie, description="PCIe endpoint")
    io_cpu: IoCpu = Field(default_factory=IoCpu, description="processor")
    noc: IoLink = Field(default_factory=IoLink, description="of its network to the endpoint and to the processor")


class PeCpu(Section):
    """The processor of a PE."""

    cycles: Natural = Field(default=10, description="[cycle] latency of a launch in this component")
    scalar_cycles: Natural = Field(default=0, description="[cycle] time of an integer op of a kernel on known operands")


class PeScheduler(Section):
    """The scheduler of a PE."""

    cycles: Natural = Field(default=1, description="[cycle] latency of a command in this component")
    queue_depth: Count = Field(
        default=64, description="[commands] commands of a kernel that may be open; the next command waits"
    )


class PeFetchStore(Section):
    """The unit that moves the tiles of composite ops between a PE's scratchpad and its engines."""

    younger: ClassVar[frozenset[str]] = frozenset({"bytes_per_cycle"})

    cycles: Natural = Field(default=2, description="[cycle] latency of a tile, each way")
    bytes_per_cycle: Rate | None = Field(
        default=None, description="[byte/cycle] bandwidth of the single port for tiles in both directions; absent: unlimited"
    )


#: The protocols of messages between PEs by their keys, and their names in NCCL_PROTO.
PROTOCOLS = {"simple": "Simple", "ll": "LL", "ll128": "LL128"}


class Protocol(Section):
    """How the bytes of a message travel, and how the receiver detects their arrival."""

    cycles: Natural = Field(
        default=0, description="[cycle] time from the end of a message's transfer until the receiver may use the message"
    )
    data_bytes: Count = Field(default=1, description="[byte] data in each line")
    line_bytes: Count = Field(
        default=1, description="[byte] size of a line with its flag; messages are sent and stored in whole lines"
    )


class Protocols(Section):
    """The protocols of messages between PEs, as NCCL has them."""

    simple: Protocol = Field(default_factory=Protocol, description="data, and a flag behind a whole message")
    ll: Protocol | None = Field(default=None, description="protocol with a flag beside every few bytes; absent: not available")
    ll128: Protocol | None = Field(default=None, description="protocol with a flag in every line; absent: not available")


ONLY_SIMPLE = Protocols()


class PeIpcq(Section):
    """The queues of a PE to its neighbours, and the DMA channel for their messages."""

    younger: ClassVar[frozenset[str]] = frozenset({"protocols"})

    slots: Count = Field(default=4, description="[messages] slots of a queue")
    slot_bytes: Size = Field(default=16 * 2**10, description="[byte] size of a slot, which is the longest message")
    tier: Literal["tcm", "sram", "hbm"] = Field(
        default="tcm",
        description="memory of the receiver that holds the slots: its scratchpad, the SRAM of its cube, or its slice of the "
        "HBM",
    )
    cycles: Count = Field(default=1, description="[cycle] latency of a send or a receive in this component")
    credit_cycles: Count = Field(default=2, description="[cycle] latency of a returned credit, without the latency of the "
    "route")
    max_concurrent: Count = Field(default=4, description="[transfers] transfers at a time, per DMA engine, in addition to "
    "its other transfers")
    weight: Count = Field(default=1, description="share of a resource relative to other member flows")
    protocols: Protocols | None = Field(
        default=None, description="of messages; absent: only simple, with no cycles and no bytes beside those of a message"
    )

    def protocol(self, name: str) -> Protocol | None:
        """A protocol by its name in the machine file; None for one that the machine does not have."""
        found: Protocol | None = getattr(self.protocols or ONLY_SIMPLE, name, None)
        return found

    @property
    def protocol_names(self) -> list[str]:
        """The protocols of the machine, simple first."""
        return [name for name in PROTOCOLS if self.protocol(name) is not None]


class PeLink(Link):
    """Between a PE's DMA engines and its router."""

    bytes_per_cycle: Rate = Field(default=Fraction(128), description="[byte/cycle] bandwidth, each way")


class Pe(Section):
    """One PE, with the same engines as an NPU."""

    younger: ClassVar[frozenset[str]] = frozenset({"cores"})

    cores: Count = Field(default=1, description="cores that the PE represents; a channel of a collective occupies one core")
    cpu: PeCpu = Field(default_factory=PeCpu, description="processor")
    scheduler: PeScheduler = Field(default_factory=PeScheduler, description="scheduler")
    fetch_store: PeFetchStore = Field(default_factory=PeFetchStore, description="between scratchpad and engines")
    link: PeLink = Field(default_factory=PeLink, description="between the DMA engines and the router")
    ipcq: PeIpcq = Field(default_factory=PeIpcq, description="queues to neighbours")
    dma: Dma = Field(default_factory=Dma, description="DMA engines")
    spm: Spm = Field(default_factory=Spm, description="scratchpad")
    te: Te = Field(default_factory=Te, description="tensor engines")
    ve: Ve = Field(default_factory=Ve, description="vector engines")


class Wires(Section):
    """The speed of signals."""

    mm_per_cycle: Rate = Field(default=Fraction(10), description="[mm/cycle] signal speed on dies and inside a SIP")
    board_mm_per_cycle: Rate = Field(default=Fraction(150), description="[mm/cycle] signal speed between SIPs, and to the host")


def _impl(value: Any) -> str:
    if value != BUILTIN and not (isinstance(value, str) and names_code(value)):
        raise refuse('it must be builtin or "package.module:Class"')
    return str(value)


Impl = Annotated[str, Rule(_impl, lambda: {"type": "string", "pattern": f"^{BUILTIN}$|^{CODE_PATTERN}$"})]


class ComponentSpec(Section):
    """The component that simulates a kind of node; further keys are its own."""

    open_ended: ClassVar[bool] = True

    impl: Impl = Field(default=BUILTIN, description="builtin, or the class `package.module:Class`")

    @property
    def spec(self) -> dict[str, Any]:
        """The component's own keys."""
        return dict(self.model_extra)


def _kinds(value: Any) -> Any:
    if not isinstance(value, dict):
        raise refuse("it must be a mapping")
    for key in value:
        if key not in KINDS:
            raise refuse(f"its keys must be kinds of nodes ({', '.join(KINDS)}), and {shown(key)} is not")
        _check_plain(value[key])
    return value


def _check_plain(value: Any) -> None:
    """Refuse values that the keys of a component cannot hold, because a file could not contain them."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise refuse(f"its keys must be text, and {shown(key)} is not")
            _check_plain(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_plain(item)
    elif not isinstance(value, (bool, int, float, str, Fraction, type(None))):
        raise refuse(f"its values must be plain, and one is a {type(value).__name__}")


def _components_schema() -> dict[str, Any]:
    impl = {"type": "object", "properties": {"impl": {"type": "string"}}}
    return {"type": "object", "patternProperties": {f"^({'|'.join(KINDS)})$": impl}, "additionalProperties": False}


Components = Annotated[dict[str, ComponentSpec], Rule(_kinds, _components_schema)]
