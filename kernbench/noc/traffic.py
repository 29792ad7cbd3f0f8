"""Synthetic traffic: the target of each terminal's packets, by the patterns of BookSim2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from kernbench.common.errors import InputError, Problem
from kernbench.noc.network import MeshSpec
from kernbench.noc.routers import Ints

Pattern = Literal["uniform", "transpose", "bitcomp", "bitrev", "shuffle", "tornado", "neighbor", "hotspot"]
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)
OF_BITS = ("transpose", "bitcomp", "bitrev", "shuffle")  #: patterns that permute the bits of a node's number


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bernoulli traffic: in each clock each terminal creates a packet with the probability `rate / flits`."""

    pattern: Pattern = "uniform"
    rate: float = 0.1  #: [flits per node and clock]
    flits: int = 1  #: of a packet
    seed: int = 1
    hotspots: Sequence[int] = ()  #: nodes; the default is the node in the middle

    def check(self, net: MeshSpec) -> None:
        """InputError if the pattern is not possible on this network."""
        n, where = net.nodes, "traffic"
        if self.pattern not in PATTERNS:
            raise InputError(Problem(where, f"it must be one of {', '.join(PATTERNS)}", "pattern", str(self.pattern)))
        if self.flits < 1:
            raise InputError(Problem(where, "a packet has at least 1 flit", "flits", str(self.flits)))
        if not 0 < self.rate <= self.flits:
            rule = f"it must be above 0 and at most {self.flits}: one packet a clock"
            raise InputError(Problem(where, rule, "rate", str(self.rate)))
        bits = n.bit_length() - 1
        if self.pattern in OF_BITS and (n != 1 << bits or (self.pattern == "transpose" and bits % 2)):
            rule = f"{self.pattern} permutes bits of node numbers: the nodes must be a power of " + (
                "4" if self.pattern == "transpose" else "2"
            )
            raise InputError(Problem(where, rule, "nodes", str(n)))
        for node in self.hotspots:
            if not 0 <= node < n:
                raise InputError(Problem(where, f"a node is from 0 to {n - 1}", "hotspots", str(node)))

    def nodes_of(self, net: MeshSpec) -> Ints:
        """The nodes from which a target is drawn; empty for a permutation."""
        if self.pattern == "uniform":
            return np.arange(net.nodes)
        middle = net.rows // 2 * net.columns + net.columns // 2
        nodes = (self.hotspots or (middle,)) if self.pattern == "hotspot" else ()
        return np.array(nodes, dtype=np.int64)

    def targets(self, net: MeshSpec, source: Ints, random: np.random.Generator) -> Ints:
        """The target of each packet."""
        n, width = net.nodes, net.columns
        bits = n.bit_length() - 1
        nodes = self.nodes_of(net)
        if len(nodes):
            drawn: Ints = nodes[random.integers(0, len(nodes), len(source))]
            return drawn
        if self.pattern == "transpose":
            return np.asarray(source >> bits // 2 | (source << bits // 2) & (n - 1))
        if self.pattern == "bitcomp":
            return np.asarray(~source & (n - 1))
        if self.pattern == "shuffle":
            return np.asarray((source << 1) & (n - 1) | source >> bits - 1)
        if self.pattern == "bitrev":
            return np.asarray(np.bitwise_or.reduce([(source >> k & 1) << bits - 1 - k for k in range(bits)]), dtype=np.int64)
        y, x = np.divmod(source, width)
        shift = [(size + 1) // 2 - 1 if self.pattern == "tornado" else 1 for size in (width, net.rows)]
        return np.asarray((y + shift[1]) % net.rows * width + (x + shift[0]) % width)

    def pairs(self, net: MeshSpec) -> tuple[Ints, Ints]:
        """Every source with each of its possible targets; all targets have the same probability."""
        source, nodes = np.arange(net.nodes), self.nodes_of(net)
        if len(nodes):
            return np.repeat(source, len(nodes)), np.tile(nodes, net.nodes)
        return source, self.targets(net, source, np.random.default_rng(0))

    def births(self, net: MeshSpec, begin: int, end: int) -> tuple[Ints, Ints, Ints]:
        """Clock of birth, source and target of the packets of these clocks, by birth. A terminal may send to itself."""
        random = np.random.default_rng([self.seed, begin])
        drawn = np.flatnonzero(random.random((end - begin, net.nodes)) < self.rate / self.flits)
        born, source = np.divmod(drawn, net.nodes)
        return born + begin, source, self.targets(net, source, random)
