"""Topologies of machines that differ elsewhere are built once, and nobody can tell but by the clock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from kernbench import InputError, Program, load_config, simulate
from kernbench.policy.routing import PathRouter
from kernbench.policy.routing.router import topology_and_router
from kernbench.topology.builder import build_topology
from kernbench.topology.graph import Graph, Measure


def test_what_decides_no_edge_shares_them() -> None:
    first, router = topology_and_router(load_config("two_sips"))
    other = load_config("two_sips", {"pe.dma.max_concurrent_transfers": 2, "freq_ghz": 2, "max_cycles": 5})
    again, _ = topology_and_router(other)
    assert again.nodes is first.nodes
    assert again.edge is first.edge
    assert again.config is other
    assert first.config is router.topology.config is not other


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("system.link.cycles", 77), ("sip.gap_mm", 7), ("cube.mesh.link.bytes_per_cycle", 77), ("io.noc.cycles", 77),
        ("wires.mm_per_cycle", 7), ("pe.link.cycles", 77), ("cube.pes", 2),
    ],
)  # fmt: skip
def test_what_decides_an_edge_does_not(path: str, value: int) -> None:
    base, _ = topology_and_router(load_config("two_sips"))
    changed = load_config("two_sips", {path: value})
    topology, _ = topology_and_router(changed)
    fresh = build_topology(changed)
    assert (topology.nodes, topology.edges) == (fresh.nodes, fresh.edges)
    assert (topology.nodes, topology.edges) != (base.nodes, base.edges)


def test_errors_name_their_own_machine() -> None:
    topology_and_router(load_config("two_sips"))
    other = load_config("two_sips", {"freq_ghz": 2})
    other._source = "mine.yaml"
    _, router = topology_and_router(other)
    with pytest.raises(InputError, match=r"^mine\.yaml: there is no node sip9"):
        router.find_path("sip9", "sip0.cube0.m_cpu")


def test_threads_find_the_same_paths() -> None:
    """Eight routers over one set of searches, all asked at once, against one that is asked alone."""
    configs = [load_config("two_sips", {"max_cycles": 100 + k}) for k in range(8)]
    routers = [topology_and_router(config)[1] for config in configs]
    alone = PathRouter(build_topology(configs[0]))
    ends = [node.id for node in alone.topology.nodes if node.kind in ("pe_dma", "hbm_ctrl", "m_cpu")]
    pairs = [(a, b) for a in ends[::3] for b in ends[::2]]

    def paths(router: PathRouter) -> list[tuple[str, ...]]:
        return [router.find(a, b, Graph.DATA, Measure.WEIGHT) for a, b in pairs]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(paths, routers))
    assert all(one == paths(alone) for one in found)


def test_runs_after_each_other_are_as_runs_alone() -> None:
    def run(pe_link: int) -> object:
        program = Program("send")
        program.dma_send(node="sip0.cube0.pe0", peer="sip1.cube0.pe1", tensor_role="activation", num_elements=4096, qbits=8,
                         spm_bank=0, spm_offset=0, peer_bank=0, peer_offset=0)  # fmt: skip
        program.end()
        return simulate(program, load_config("two_sips", {"pe.link.cycles": pe_link})).entries

    first, second = run(1), run(9)
    assert first != second
    assert (run(1), run(9)) == (first, second)
