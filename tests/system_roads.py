"""Routes and addresses of a system for its reference, from the router: they have an oracle of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.common.naming import in_cube, parse_node, parse_pe
from kernbench.config.system import SystemConfig
from kernbench.policy.routing.resolver import address_map
from kernbench.policy.routing.router import Path, PathRouter
from kernbench.topology.builder import build_topology
from tests.oracles.ref_system_parts import Hop


class PlainRoads:
    """What `tests.oracles.ref_system_parts.Roads` asks for."""

    def __init__(self, config: SystemConfig) -> None:
        self.topology = build_topology(config)
        self.router = PathRouter(self.topology)
        self.resolver = self.router.resolver
        self.memories = address_map(config)
        self._rank = {node.id: i for i, node in enumerate(self.topology.nodes)}

    def memory(self, address: int) -> tuple[str, int | None]:
        node = self.resolver.resolve(address)
        is_hbm = parse_node(node).kind == "hbm_ctrl"
        return node, self.resolver.slice_of(address).slice if is_hbm else None

    def to_memory(self, node: str, address: int) -> Sequence[Hop]:
        return self._hops(self.router.find_memory_path(node, address))

    def from_memory(self, node: str, address: int) -> Sequence[Hop]:
        return self._hops(self.router.find_memory_path(node, address, read=True))

    def between(self, source: str, target: str) -> Sequence[Hop]:
        return self._hops(self.router.find_path(source, target))

    def launch(self, m_cpu: str) -> Sequence[Hop]:
        at = parse_node(m_cpu)
        assert at.sip is not None and at.cube is not None and m_cpu == in_cube(at.sip, at.cube, "m_cpu")
        endpoint, cpu = self.resolver.find_pcie_ep(at.sip), self.resolver.find_io_cpu(at.sip)
        legs = (("host", endpoint), (endpoint, cpu), (cpu, m_cpu))
        return [hop for leg in legs for hop in self._hops(self.router.find_node_path(*leg))]

    def command(self, m_cpu: str, cpu: str) -> Sequence[Hop]:
        return self._hops(self.router.find_node_path(m_cpu, cpu))

    def home(self, pe: str, tier: str) -> tuple[int, int]:
        sip, cube, number = parse_pe(pe)
        at, window = self.memories, sip * self.memories.cubes + cube
        if tier == "sram":
            start = at.sram.address(window, 0)
            return start, start + at.sram.nbytes
        start = at.hbm.address(window, number * at.slices // at.pes * at.slice_bytes)
        return start, start + at.slice_bytes

    def endpoints(self) -> Sequence[str]:
        return self.resolver.find_all_pcie_eps()

    def in_order(self, names: Sequence[str]) -> Sequence[str]:
        def rank(name: str) -> tuple[int, int]:
            source, _, target = name.partition("-")
            return self._rank[source], self._rank[target]

        return sorted(names, key=rank)

    def _hops(self, path: Path) -> list[Hop]:
        edges = self.router.route(path).edges
        return [Hop(f"{edge.source}-{edge.target}", edge.cycles, edge.bytes_per_cycle) for edge in edges]


def mesh_of(config: SystemConfig) -> tuple[list[tuple[str, str, int, int, Any]], dict[str, list[str]]]:
    """Links between routers, and what is beside each router: what they are is not the reference's question."""
    topology = build_topology(config)
    at = {node.id: node for node in topology.nodes}
    beside: dict[str, list[str]] = {node.id: [] for node in topology.nodes if node.kind == "router"}
    links = []
    for edge in topology.edges:
        a, b = at[edge.source], at[edge.target]
        if edge.source in beside and edge.target in beside:
            side = (0 if b.x_mm > a.x_mm else 1) if b.x_mm != a.x_mm else (2 if b.y_mm > a.y_mm else 3)
            links.append((edge.source, edge.target, side, edge.cycles, edge.bytes_per_cycle))
    rank = {node.id: k for k, node in enumerate(topology.nodes)}
    for router, found in beside.items():
        near = {edge.target for edge in topology.edges if edge.source == router} - beside.keys()
        found += sorted(near, key=rank.__getitem__)
    return links, beside
