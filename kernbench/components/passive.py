"""Passive components: the latency of routes over them, and the bandwidth of their links.

A passive component has no state and never runs. Its methods are called when a route is found, once for each route.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from kernbench.config.system import SystemConfig
from kernbench.topology.graph import Edge

What = Literal["memory", "host", "peer", "launch"]


@dataclass(frozen=True, slots=True)
class Passage:
    """A route over a passive component, in the direction of the data. The size of transfers is not known.

    >>> from kernbench import Passage
    >>> Passage("memory", "sip0.cube0.pe0.pe_dma", "sip0.cube0.hbm_ctrl", before=None, after=None).what
    'memory'
    """

    #: the kind of route: between a PE and a memory, between the host and a memory, between two PEs, or a launch from the host
    #: to an M_CPU
    what: What
    source: str  #: the node id of the first node
    target: str
    before: str | None  #: the node before the component; None if the route begins at the component
    after: str | None


class PassivePart:
    """A component that transfers and launches pass, at one node of a system. This base class adds no cycles.

    >>> from kernbench import PassivePart
    >>> class SlowSwitch(PassivePart):
    ...     def cycles(self, passage):
    ...         return 20
    >>> SlowSwitch("sip0.cube0.r0c0", None).cycles(None)
    20
    """

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Spec:
        """The keys of the component in addition to `impl`."""

    def __init__(self, node: str, config: SystemConfig, spec: Any = None) -> None:
        self.node = node
        self.config = config
        self.spec = type(self).Spec() if spec is None else spec

    def cycles(self, passage: Passage) -> int:
        """[cycle] The latency that the component adds to the head latency of a transfer, or to a launch."""
        return 0

    def bytes_per_cycle(self, edge: Edge) -> Fraction | int:
        """[B/cycle] The bandwidth of an edge that begins or ends at this node; it replaces the bandwidth of the edge.

        The component at the source of the edge is called first; the component at the target receives the edge with the new
        bandwidth.
        """
        assert edge.bytes_per_cycle is not None
        return edge.bytes_per_cycle


class MemoryPart(PassivePart):
    """A passive component in which transfers begin or end.

    >>> from kernbench import MemoryPart
    >>> class SlowMemory(MemoryPart):
    ...     def setup_cycles(self):
    ...         return 30
    >>> SlowMemory("sip0.cube0.sram", None).setup_cycles()
    30
    """

    def setup_cycles(self) -> int:
        """[cycle] The latency that every transfer to or from this memory adds to its head latency."""
        return 0
