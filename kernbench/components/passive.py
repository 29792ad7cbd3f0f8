"""Parts that data and launches only pass: what passing one costs, and what the edges at it carry.

A passive part is a rule and no process: it is asked when ways are laid out, once for each way, and nothing of it runs.
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
    """A way that leads over a part, in the direction of the data. All transfers of a way are alike: their size is not known."""

    what: What  #: between a PE and a memory, the host and a memory, two PEs; a launch from the host to an M_CPU
    source: str  #: node id at its beginning
    target: str
    before: str | None  #: the node before the part; None: the way begins here
    after: str | None


class PassivePart:
    """What stands at one node of a system. This one costs nothing and leaves every edge as the topology has it."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Spec:
        """The keys beside `impl`."""

    def __init__(self, node: str, config: SystemConfig, spec: Any = None) -> None:
        self.node = node
        self.config = config
        self.spec = type(self).Spec() if spec is None else spec

    def cycles(self, passage: Passage) -> int:
        """[cycle] that passing it adds to a transfer's head latency, or to a launch."""
        return 0

    def bytes_per_cycle(self, edge: Edge) -> Fraction | int:
        """[byte/cycle] of an edge that begins or ends here, instead of the edge's own.

        The part that an edge leaves is asked first, then the one that it enters, with what the first has said.
        """
        assert edge.bytes_per_cycle is not None
        return edge.bytes_per_cycle


class MemoryPart(PassivePart):
    """A memory: transfers begin or end in it."""

    def setup_cycles(self) -> int:
        """[cycle] of head latency of every transfer, whatever its way."""
        return 0
