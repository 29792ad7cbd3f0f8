"""`kbsim config init --nccl-topology` and `--astra-network`: machines from files of other tools."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from kernbench.config import SystemConfig, load_config
from tests.cli.conftest import Kbsim

SWITCH = '<nvlink target="0000:c4:00.0" count="12" tclass="0x068000"/>'


def gpu(number: int, links: str = "", more: str = "") -> str:
    return (
        f'<pci busid="0000:{number:02x}:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">'
        f'<gpu dev="{number}" sm="80" rank="{number}" {more}>{links}</gpu></pci>'
    )


def to(*others: int, count: int = 4) -> str:
    return "".join(f'<nvlink target="0000:{one:02X}:00.0" count="{count}" tclass="0x030200"/>' for one in others)


def node(*gpus: str, more: str = "") -> str:
    inside = "".join(f"{one}\n" for one in gpus)
    return f'<system version="1">\n<cpu numaid="0" arch="x86_64">\n{inside}{more}</cpu>\n</system>\n'


def made(kbsim: Kbsim, text: str, *more: str) -> SystemConfig:
    Path("node.xml").write_text(text, encoding="utf-8")
    said = kbsim("config", "init", "made.yaml", "--force", "--nccl-topology", "node.xml", *more)
    assert said.code == 0, said.err
    assert kbsim("config", "check", "made.yaml").code == 0
    return load_config("made.yaml", kind=SystemConfig)


def test_gpus_at_nvswitches(kbsim: Kbsim) -> None:
    """Twelve links of 25 GB/s at 1.41 GHz, and half of the latency of a way, as it has two links."""
    nics = '<nic><net name="mlx5_0" dev="0" speed="200000"/><net name="mlx5_1" dev="1" speed="200000"/></nic>'
    machine = made(kbsim, node(*(gpu(one, SWITCH) for one in range(8)), more=nics))
    board = load_config("a100_8x", kind=SystemConfig)
    assert (machine.system.sips, machine.system.kind) == (8, "switch") and machine.pe == board.pe
    assert abs(machine.system.link.bytes_per_cycle * Fraction("1.41") - 300) < Fraction(1, 100)
    assert machine.system.link.cycles == board.system.link.cycles // 2
    said = kbsim("config", "init", "--nccl-topology", "node.xml")
    assert said.err == "note: network interfaces are left out, as the machine is one node: mlx5_0, mlx5_1\n"


@pytest.mark.parametrize(
    ("links", "kind", "rate", "note"),
    [
        ([to(1, 2, 3), to(0, 2, 3), to(0, 1, 3), to(0, 1, 2)], "all_to_all", 100, ""),
        ([to(1, 3), to(2, 0), to(3, 1), to(0, 2)], "ring", 100, ""),
        ([to(2, 3), to(2, 3), to(1, 0), to(0, 1)], "ring", 100, "note: SIPs are numbered round the ring: dev 0, 2, 1, 3\n"),
        ([to(1), to(0)], "all_to_all", 100, ""),
        (["", "", ""], "switch", Fraction(16 * 16, 8) * Fraction(128, 130), "note: PCIe switches and the CPU are one switch\n"),
    ],
)
def test_links_between_gpus(kbsim: Kbsim, links: list[str], kind: str, rate: Fraction, note: str) -> None:
    machine = made(kbsim, node(*(gpu(one, some) for one, some in enumerate(links))))
    assert (machine.system.sips, machine.system.kind) == (len(links), kind)
    assert abs(machine.system.link.bytes_per_cycle * Fraction("1.41") - rate) < Fraction(1, 100)
    assert kbsim("config", "init", "--nccl-topology", "node.xml").err == note


def test_another_machine_to_start_from_and_values_of_the_user(kbsim: Kbsim) -> None:
    text = node(*(gpu(one, SWITCH) for one in range(4)))
    machine = made(kbsim, text, "--from", "pod_8sip", "--set", "system.link.cycles=77", "--set", "system.switch.cycles=9")
    assert machine.system.sips == 4 and machine.cube.pes == load_config("pod_8sip").cube.pes
    assert (machine.system.link.bytes_per_cycle, machine.system.link.cycles, machine.system.switch.cycles) == (300, 77, 9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<node/>", "node.xml:1: node: the first element of a topology of NCCL is <system>"),
        ("<system/>", "a <system> has <cpu> elements, and the GPUs are in them"),
        (node(), "a node has at least two <gpu>, but this one has 0"),
        (node('<gpu dev="0" sm="80"/>', gpu(1)), "node.xml:3: gpu: a <gpu> is in the <pci> element of its device"),
        (node(gpu(0, SWITCH), gpu(0, SWITCH)), "node.xml:4: gpu: two GPUs have the same dev"),
        (node(gpu(0), gpu(1)).replace('sm="80"', 'sm="0" gcn="gfx942"'), "this GPU is of AMD, and only files of NCCL"),
        (node(gpu(0, SWITCH), gpu(1)), "every GPU must have as many NVLinks to switches, and none to another GPU"),
        (node(gpu(0, to(1)), gpu(1)), "an NVLink of this GPU is not there at its other end"),
        (node(gpu(0, to(7)), gpu(1)), "an NVLink ends at another <gpu> of the file or at an NVSwitch (tclass 0x068000)"),
        (node(gpu(0, to(1)), gpu(1, to(0, 2)), gpu(2, to(1))), "must be as many between every two, or form one ring"),
        (node(gpu(0), gpu(1)).replace("16.0 GT/s PCIe", "fast", 1), "it must be like 16.0 GT/s PCIe"),
        (node(gpu(0), gpu(1)).replace('link_width="16"', 'link_width="8"', 1), "must have equal PCIe links"),
        (node(gpu(0, SWITCH), gpu(1, SWITCH)).replace('sm="80"', 'sm="70"', 1), "all GPUs must be alike, and dev 0 has 70"),
        (node(gpu(0, SWITCH), gpu(1, SWITCH)).replace('sm="80"', 'sm="99"'), "the bandwidth of an NVLink is known of 60, 61"),
        (node(gpu(0, to(1, count=0)), gpu(1)), "it must be an integer from 1 to 1024"),
        (node(gpu(0)) + node(gpu(1)), "node.xml:6"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><system/>', "node.xml:1"),
        ("\x00", "node.xml"),
    ],
)
def test_files_that_are_no_node_are_refused(kbsim: Kbsim, text: str, said: str) -> None:
    Path("node.xml").write_text(text, encoding="utf-8")
    found = kbsim("config", "init", "--nccl-topology", "node.xml")
    assert found.code == 2 and said in found.err and found.out == "", found.err


def network(topology: str, counts: str, bandwidth: str, latency: str, more: str = "") -> str:
    values = {"topology": topology, "npus_count": counts, "bandwidth": bandwidth, "latency": latency}
    return "".join(f"{name}: [ {value} ]\n" for name, value in values.items()) + more


@pytest.mark.parametrize(
    ("text", "system"),
    [
        (network("Ring", "8", "50.0", "500.0"), ("ring", 8, 1, 50, 500, 1)),
        (network("FullyConnected", "4", "12.5", "20"), ("all_to_all", 4, 1, Fraction("12.5"), 20, 1)),
        (network("Switch", "16", "100", "300.5"), ("switch", 16, 1, 100, 301, 1)),
        (network("Ring, Ring", "4, 2", "50, 50", "500, 500"), ("torus", 8, 2, 50, 500, 1)),
        (network("Switch, Switch", "4, 2", "50, 25", "500, 500"), ("fat_tree", 8, 2, 50, 500, 2)),
        (network("Ring, FullyConnected", "4, 3", "50, 50", "500, 500"), ("torus", 12, 3, 50, 500, 1)),
        (network("FullyConnected, FullyConnected", "2, 3", "50, 50", "9, 9"), ("torus", 6, 3, 50, 9, 1)),
        (network("Ring, Switch, FullyConnected", "1, 16, 1", "5, 100, 7", "1, 300, 2"), ("switch", 16, 1, 100, 300, 1)),
        (network("FullyConnected, Ring", "4, 1", "12, 5", "20, 5"), ("all_to_all", 4, 1, 12, 20, 1)),
    ],
)
def test_networks_of_astra_sim(kbsim: Kbsim, text: str, system: tuple[object, ...]) -> None:
    Path("net.yml").write_text(text, encoding="utf-8")
    assert kbsim("config", "init", "made.yaml", "--astra-network", "net.yml").code == 0
    assert kbsim("config", "check", "made.yaml").code == 0
    found = load_config("made.yaml", kind=SystemConfig).system
    said = (found.kind, found.sips, found.rows, found.link.bytes_per_cycle, found.link.cycles, found.switch.oversubscription)
    assert said == system and found.link.mm == 0


RING, FULL, SWITCHES = ("ring", "fully_connected", "switch")


@pytest.mark.parametrize(
    ("text", "dimensions"),
    [
        (network("Ring, Switch", "4, 2", "50, 25", "500, 5"), [(RING, 4, 50, 500), (SWITCHES, 2, 25, 5)]),
        (
            network("Ring, FullyConnected, Switch", "2, 8, 4", "250, 200.5, 50", "50, 500.5, 2000"),
            [(RING, 2, 250, 50), (FULL, 8, Fraction("200.5"), 501), (SWITCHES, 4, 50, 2000)],
        ),
        (network("FullyConnected, Ring, Switch", "4, 1, 2", "50, 9, 8", "5, 6, 7"), [(FULL, 4, 50, 5), (SWITCHES, 2, 8, 7)]),
        (network("Ring, Ring", "4, 2", "50, 40", "5, 5"), [(RING, 4, 50, 5), (RING, 2, 40, 5)]),
        (network("Switch, Switch", "4, 2", "50, 60", "5, 5"), [(SWITCHES, 4, 50, 5), (SWITCHES, 2, 60, 5)]),
        (network("Ring, FullyConnected", "4, 4", "50, 50", "5, 5"), [(RING, 4, 50, 5), (FULL, 4, 50, 5)]),
    ],
)
def test_networks_of_astra_sim_with_dimensions(kbsim: Kbsim, text: str, dimensions: list[tuple[object, ...]]) -> None:
    Path("net.yml").write_text(text, encoding="utf-8")
    assert kbsim("config", "init", "made.yaml", "--astra-network", "net.yml").code == 0
    assert kbsim("config", "check", "made.yaml").code == 0
    machine = load_config("made.yaml", kind=SystemConfig)
    found = [(one.kind, one.size, one.link.bytes_per_cycle, one.link.cycles) for one in machine.system.dimensions if one.link]
    assert found == dimensions and machine.system.kind == "dimensions"
    links = [min(2, size - 1) if kind == RING else size - 1 if kind == FULL else 1 for kind, size, *_ in found]
    whole = sum(rate * many for (_, _, rate, _), many in zip(found, links, strict=True))
    assert machine.io.noc.bytes_per_cycle >= whole and machine.cube.ucie.router.bytes_per_cycle >= whole


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "the file must contain a mapping of keys to values"),
        ("topology: [ Ring ]\n", "npus_count must be there and be a list, with a value a dimension"),
        (network("Ring", "8, 2", "50", "500"), "it must have as many values as topology, which has 1"),
        (network("", "", "", ""), "and at least one"),
        (network("Mutable", "4", "50", "5", "links: []\n"), "only topology, npus_count, bandwidth, latency are supported"),
        (network("Ring, Mesh", "4, 4", "50, 50", "5, 5"), 'net.yml:1:19: topology.1 = "Mesh", but it must be one of Ring, F'),
        (network(", ".join(["Ring"] * 6), "2, 2, 2, 2, 2, 2", "5, 5, 5, 5, 5, 5", "5, 5, 5, 5, 5, 5"), "at most 5 dimensions"),
        (network("Mutable", "1", "50", "5"), "it must be 2 to 1,024 NPUs together"),
        (network("Mutable, Ring", "1, 4", "50, 50", "5, 5"), 'topology.0 = "Mutable", but it must be one of Ring'),
        (network("Ring", "1", "50", "5"), "it must be 2 to 1,024 NPUs together"),
        ('logical-dims: ["4"]\n', "this is a file of the backend ns-3"),
        (network("Ring", "2000", "50", "5"), "net.yml:2:15: npus_count.0 = 2000, but it must be an integer from 1 to 1,024"),
        (network("Ring", "8", "0", "5"), "it must be a number above 0"),
        (network("Ring", "8", "true", "5"), "it must be a number above 0"),
        (network("Ring", "8", "50", "-5"), "it must be a number from 0"),
        (network("{}", "8", "50", "5"), "it must be one of Ring, FullyConnected, Switch"),
        ("topology: [", "net.yml"),
    ],
)
def test_networks_that_cannot_be_said_are_refused(kbsim: Kbsim, text: str, said: str) -> None:
    Path("net.yml").write_text(text, encoding="utf-8")
    found = kbsim("config", "init", "--astra-network", "net.yml")
    assert found.code == 2 and said in found.err and found.out == "", found.err


SYSTEM = """{"scheduling-policy": "LIFO", "endpoint-delay": 10, "all-reduce-implementation": ["ring"],
"all-gather-implementation": ["ring", "ring"], "all-to-all-implementation": ["oneRing"], "local-mem-bw": 3350}
"""


def test_system_files_of_astra_sim(kbsim: Kbsim) -> None:
    """Alone or beside a network: memory bandwidth of an NPU, cycles of a message, and the algorithms as notes."""
    Path("sys.json").write_text(SYSTEM, encoding="utf-8")
    Path("net.yml").write_text(network("Ring", "4", "50", "500"), encoding="utf-8")
    made = kbsim("config", "init", "made.yaml", "--astra-network", "net.yml", "--astra-system", "sys.json")
    assert made.code == 0 and kbsim("config", "check", "made.yaml").code == 0
    found = load_config("made.yaml", kind=SystemConfig)
    assert (found.system.sips, found.pe.ipcq.cycles) == (4, 10)
    assert found.cube.hbm.peak_bw_bytes_per_cycle * found.cube.hbm.channels * found.cubes == pytest.approx(3350, rel=1e-3)
    assert "all-reduce by ring: run with --algo ring" in made.err
    assert "all-gather by ring, ring: run with --algo torus" in made.err
    assert "all-to-all by oneRing: there is no such algorithm" in made.err and "left out: scheduling-policy" in made.err
    wide = '{"local-mem-bw": 30000, "endpoint-delay": 0}'
    Path("sys.json").write_text(wide, encoding="utf-8")
    assert kbsim("config", "init", "alone.yaml", "--from", "single_cube", "--astra-system", "sys.json").code == 0
    alone = load_config("alone.yaml", kind=SystemConfig)
    rate = Fraction(alone.cube.hbm.peak_bw_bytes_per_cycle)
    assert rate * alone.cube.hbm.channels == 30000 and rate <= alone.cube.hbm.bus_width_bytes and alone.pe.ipcq.cycles == 1
    assert alone.cube.hbm.link.bytes_per_cycle >= rate * alone.slice_channels


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"local-mem-bw": 0}', "it must be a number above 0"),
        ('{"endpoint-delay": -1}', "it must be a number from 0"),
        ('{"endpoint-delay": true}', "it must be a number from 0"),
        ('{"all-reduce-implementation": "ring"}', "it must be a list with one name for each dimension"),
        ('{"memory": 1}', "there is no such key of a system file"),
        ('{"all-reduce-implementation-custom": ["a"]}', "run the MSCCL file of the algorithm with kbsim ccl run --msccl"),
    ],
)
def test_system_files_that_cannot_be_said_are_refused(kbsim: Kbsim, text: str, said: str) -> None:
    Path("sys.json").write_text(text, encoding="utf-8")
    found = kbsim("config", "init", "--astra-system", "sys.json")
    assert found.code == 2 and said in found.err and "sys.json:1" in found.err and found.out == ""


def test_one_file_describes_a_system(kbsim: Kbsim) -> None:
    Path("net.yml").write_text(network("Ring", "8", "50", "500"), encoding="utf-8")
    both = kbsim("config", "init", "--astra-network", "net.yml", "--nccl-topology", "net.yml")
    assert both.code == 2 and "leave one out" in both.err
    npu = kbsim("config", "init", "--astra-network", "net.yml", "--kind", "npu")
    assert npu.code == 2 and "the file describes a system" in npu.err
    start = kbsim("config", "init", "--astra-network", "net.yml", "--from", "npu_server")
    assert start.code == 2 and start.out == ""
    assert kbsim("config", "init", "--nccl-topology", "missing.xml").code == 2
