"""Rails: each NIC of a node leads to the switch of its rail, and ranks of different nodes use their own rail."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernbench.ccl.contract import Shape
from kernbench.ccl.group import group_of
from kernbench.ccl.group_routes import latencies, routes_of
from kernbench.ccl.measure import CclRequest, counts_of, queues_of, row
from kernbench.ccl.registry import read_registry
from kernbench.common.errors import InputError
from kernbench.config import SystemConfig, load_config
from kernbench.config.nccl_topology import read_nccl_topology
from kernbench.policy.routing.router import PathRouter
from kernbench.topology.builder import build_topology

SMALL = ["sip.rows=1", "sip.cols=1", "cube.pes=1"]
RAILS = ["system.kind=rails", "system.rows=2", "system.sips=8", *SMALL]  # two nodes of four ranks


def machine(*more: str) -> SystemConfig:
    return load_config("two_sips", [*RAILS, *more], kind=SystemConfig)


def switches(config: SystemConfig, source: int, target: int) -> list[int]:
    """The numbers of the switches and NICs between two SIPs: 0 and 1 are those of the nodes, then those of rails, then NICs."""
    router = PathRouter(build_topology(config))
    path = router.find_path(f"sip{source}.cube0.pe0.pe_dma", f"sip{target}.cube0.pe0.pe_dma")
    return [int(node.removeprefix("switch")) for node in path if node.startswith("switch")]


def test_a_rank_uses_its_own_rail() -> None:
    config = machine()
    assert switches(config, 0, 3) == [0]  # of one node
    assert switches(config, 2, 6) == [8, 4, 12]  # NIC 2 of node 0, rail 2, NIC 2 of node 1
    assert switches(config, 2, 7) in ([0, 9, 5, 13], [8, 4, 12, 1])  # over a neighbour that has the rail of the other side


def test_latencies_of_the_links_of_a_nic_are_those_of_the_model() -> None:
    far = ("system.switch.cycles=7", "system.rails.link.cycles=31", "system.rails.link.mm=45", "wires.board_mm_per_cycle=20")
    edges = {(edge.source, edge.target): edge for edge in build_topology(machine(*far)).edges}
    sip, nic, rail = "sip2.io0.io_noc", "switch8", "switch4"  # of column 2 in node 0
    assert [edges[sip, nic].cycles, edges[nic, sip].cycles] == [17, 17]  # 31 + ceil(45 / 20) = 34 on the whole way
    assert [edges[nic, rail].cycles, edges[rail, nic].cycles] == [17, 17]
    odd = {(edge.source, edge.target): edge for edge in build_topology(machine(*far, "system.rails.link.cycles=30")).edges}
    assert [odd[sip, nic].cycles, odd[nic, rail].cycles] == [16, 17]
    assert edges[sip, "switch0"].cycles == edges["switch0", sip].cycles + 7  # of the node's switch


def test_ranks_share_nics_as_the_map_says() -> None:
    config = machine("system.rails.nics=[0, 0, 1, 1]")
    assert switches(config, 0, 4) == switches(config, 1, 5) == switches(config, 0, 5) == [4, 2, 6]
    assert switches(config, 2, 6) == [5, 3, 7]
    assert switches(config, 0, 1) == [0]  # and not over the NIC that both have


@pytest.mark.parametrize("broken", ["nic0.2", "nic1.2", "rail2"])
def test_without_its_nic_a_rank_uses_another_rail(broken: str) -> None:
    config = machine(f"system.failed=[{broken}]")
    found = switches(config, 2, 6)
    assert not {8, 4, 12} & set(found) and found[0] == 0 and found[-1] == 1
    assert switches(config, 1, 5) == [7, 3, 11]


def cycles(config: SystemConfig, algo: str, size: int, collective: str = "all_reduce", check: bool = False) -> int:
    registry = read_registry()
    entry, group = registry.find(collective, algo), group_of(config, Shape(8, 1, 1))
    request = CclRequest(config, group, entry, "f16", queues_of(registry, entry), check=check)
    made, outcome = row(request, counts_of(request, size, size, 2)[0])
    assert made is not None, outcome.status
    assert made.wrong in (0, None)
    return made.cycles


def test_nodes_are_the_first_level_of_a_group() -> None:
    group = group_of(machine(), Shape(8, 1, 1))
    assert (group.shape, group.placed) == (Shape(2, 4, 1), Shape(8, 1, 1))
    assert group_of(machine(), Shape(4, 1, 1)).shape == Shape(4, 1, 1)


@pytest.mark.parametrize("algo", ["hierarchical", "ring", "torus", "direct"])
def test_values(algo: str) -> None:
    assert cycles(machine(), algo, 5000, check=True)


def test_sums_in_the_switches_of_rails() -> None:
    config = machine("system.switch.reduce=true")
    assert cycles(config, "switch", 5000, check=True)


def test_the_hierarchical_algorithm_keeps_all_rails_busy_and_a_broken_one_slows_it_down() -> None:
    slow = ["system.rails.link.bytes_per_cycle=10", "system.link.bytes_per_cycle=100"]
    whole, flat = (cycles(machine(*slow), algo, 1 << 18) for algo in ("hierarchical", "ring"))
    assert whole < flat
    broken = cycles(machine(*slow, "system.failed=[nic0.2]"), "hierarchical", 1 << 18)
    one = cycles(machine(*slow, "system.rails.nics=[0, 0, 0, 0]"), "hierarchical", 1 << 18)
    assert whole < broken < one


def test_the_cost_model_counts_nics() -> None:
    config = machine("system.rails.link.bytes_per_cycle=25")
    routes = routes_of(config, group_of(config, Shape(8, 1, 1)), latencies(config))
    pairs = [(rank, rank + 4) for rank in range(4)]
    assert routes.loads(pairs) == 4  # each NIC takes four times as long as a link inside a node
    router = PathRouter(build_topology(config))

    def measured(a: int, b: int) -> int:
        return router.route(router.find_path(f"sip{a}.cube0.pe0.pe_dma", f"sip{b}.cube0.pe0.pe_tcm")).cycles

    assert routes.between(2, 6) == measured(2, 6) and routes.between(0, 1) == measured(0, 1)
    shared = machine("system.rails.link.bytes_per_cycle=100", "system.rails.nics=[0, 0, 1, 1]")
    assert routes_of(shared, group_of(shared, Shape(8, 1, 1)), latencies(shared)).loads(pairs) == 2


def xml(tmp_path: Path, nets: str = "") -> Path:
    """Four GPUs below two PCIe switches, which have a NIC of 200 Gbit/s each."""

    def gpu(number: int) -> str:
        link = '<nvlink target="0000:c4:00.0" count="12" tclass="0x068000"/>'
        return f'<pci busid="0000:0{number}:00.0"><gpu dev="{number}" sm="80">{link}</gpu></pci>'

    def switch(number: int) -> str:
        net = f'<nic><net name="mlx5_{number}" dev="{number}" speed="200000"/></nic>'
        mine = gpu(2 * number) + gpu(2 * number + 1)
        return f'<pci busid="0000:a{number}:00.0">\n{mine}\n<pci busid="0000:b{number}:00.0">{net}</pci></pci>\n'

    made = tmp_path / "node.xml"
    made.write_text(f'<system version="1">\n<cpu numaid="0">\n{switch(0)}{switch(1)}{nets}</cpu>\n</system>', encoding="utf-8")
    return made


def test_a_file_of_nccl_says_which_nic_a_rank_uses(tmp_path: Path) -> None:
    described = read_nccl_topology(xml(tmp_path), 2)
    base = load_config("a100_8x", kind=SystemConfig)
    config = load_config("a100_8x", described.overrides(base), kind=SystemConfig)
    system = config.system
    assert (system.kind, system.rows, system.sips, system.rails.nics) == ("rails", 2, 8, (0, 0, 1, 1))
    assert float(system.rails.link.bytes_per_cycle * config.freq_ghz) == pytest.approx(25, rel=1e-3)  # GB/s
    assert described.notes == ["NICs: mlx5_0 (rail 0), mlx5_1 (rail 1)"]
    assert read_nccl_topology(xml(tmp_path)).kind == "switch"


def test_files_of_nccl_without_rails_are_refused(tmp_path: Path) -> None:
    other = '<pci busid="0000:c0:00.0"><nic><net name="slow" speed="1000"/></nic></pci>'
    with pytest.raises(InputError, match="must have one speed"):
        read_nccl_topology(xml(tmp_path, other), 2)
    path = xml(tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace('speed="200000"', ""), encoding="utf-8")
    with pytest.raises(InputError, match="the file has no <net> with a speed"):
        read_nccl_topology(path, 2)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("system.rails.nics=[0, 1]", "a rail for each of 4 columns"),
        ("system.failed=[nic2.0]", "there is no such NIC or rail"),
        ("system.failed=[rail4]", "there is no such NIC or rail"),
        ("system.failed=[nic0]", 'a NIC of a row such as "nic0.3"'),
        ("system.failed=[0-1]", "there is no such link in a rails"),
    ],
)
def test_refusals(key: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        machine(key)
