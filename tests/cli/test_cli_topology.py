"""`kbsim topology`: what people see, pinned at 80 and 120 columns, what machines read, and what is refused.

The texts are in `tests/cli/golden/topology`. They are made again by `KB_REGOLD=1 pytest tests/cli/test_cli_topology.py`,
looked at, and never edited by hand.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from kernbench.config import load_config
from kernbench.config.system import SystemConfig
from kernbench.topology.builder import build_topology
from tests.cli.conftest import Kbsim, Said
from tests.cli.pinned import GOLDEN, WIDTHS, check_files, check_pinned

PINNED = GOLDEN / "topology"
SYSTEM = """\
schema: kernbench/system/1
freq_ghz: 1.5
system: {sips: 2, kind: mesh, link: {bytes_per_cycle: 50, cycles: 80}}
sip: {rows: 1, cols: 2, gap_mm: 1, io: [{name: io0, side: w}, {name: io1, side: e}]}
cube:
  width_mm: 12
  height_mm: 12
  pes: 2
  mesh: {rows: 2, cols: 3, link: {bytes_per_cycle: 102.4}, router_cycles: 2}
  hbm: {channels: 4, capacity_bytes: 1 GiB, width_mm: 2, height_mm: 12}
  sram: {bytes: 1 MiB}
"""
ON = ("-c", "pair.yaml")
FAR = ("sip0.cube0.pe0.pe_dma", "sip1.cube1.pe1.pe_tcm", *ON)
COMMANDS = {
    "show": ("topology", "show", *ON),
    "show_set": ("topology", "show", *ON, "--set", "system.sips=1", "--set", "sip.cols=1"),
    "route": ("topology", "route", *FAR),
    "route_distance": ("topology", "route", *FAR, "--by", "distance"),
    "route_local": ("topology", "route", "sip0.cube1.pe1.pe_gemm", "sip0.cube1.hbm_ctrl", *ON, "--graph", "local"),
    "route_mcpu": ("topology", "route", "sip0.cube0.m_cpu", "sip0.cube1.sram", *ON, "--graph", "mcpu"),
    "route_all": ("topology", "route", "sip0.io0.io_cpu", "sip0.cube1.pe0.pe_gemm", *ON, "--graph", "all"),
    "route_itself": ("topology", "route", "host", "host", *ON),
    "route_none": ("topology", "route", "sip0.cube0.m_cpu", "sip1.cube0.m_cpu", *ON, "--graph", "local"),
    "route_pes": ("topology", "route", "sip0.cube0.pe0", "sip0.cube0.pe1", *ON),
    "route_read": ("topology", "route", "0x20000040", "sip0.cube0.pe0", *ON),
    "route_write": ("topology", "route", "sip1.io0.pcie_ep", "1073741824", *ON),
    "route_addresses": ("topology", "route", "0x0", "0x40", *ON),
    "route_nowhere": ("topology", "route", "0xffffffffffff", "host", *ON),
    "route_no_pe": ("topology", "route", "sip0.cube0.pe7", "host", *ON),
    "route_unknown": ("topology", "route", "sip0.cube0.mcpu", "host", *ON),
    "compile": ("topology", "compile", *ON),
}


@pytest.fixture(autouse=True)
def _system(_place: None) -> None:
    Path("pair.yaml").write_text(SYSTEM, encoding="utf-8")


def settled(said: Said) -> Said:
    """Without the only times and sizes of memory that are printed: of the stages of the compiler."""
    out = re.sub(r" +[0-9,]+\.[0-9] +-?[0-9,]+\.[0-9]$", "  [...]", said.out, flags=re.MULTILINE)
    out = re.sub(r" +ms +MB$", "  ms  MB", out, flags=re.MULTILINE)
    return Said(said.code, out, re.sub(r"in [0-9.]+ s$", "in [...] s", said.err, flags=re.MULTILINE))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_output_is_as_pinned(name: str, width: int, kbsim: Kbsim) -> None:
    check_pinned(kbsim, PINNED / name, COMMANDS[name], width, settled=settled)


def test_every_golden_file_belongs_to_a_command() -> None:
    check_files(PINNED, COMMANDS)


def test_show_counts_for_machines(kbsim: Kbsim) -> None:
    said = json.loads(kbsim("topology", "show", *ON, "--json").out)
    config = load_config("pair.yaml", kind=SystemConfig)
    topology = build_topology(config)
    assert (said["topology"], said["digest"]) == ("pair.yaml", config.digest())
    assert (said["sips"], said["cubes"], said["pes"]) == (2, 4, 8)
    assert (said["hbm_bytes"], said["hbm_slices"], said["sram_bytes"]) == (2**30, 2, 2**20)
    assert said["scratchpad_bytes"] == config.pe.spm.size_bytes
    # A host; 3 parts of 4 chiplets; in each of 4 cubes 3 parts, 2 x 2 routers beside the HBM, 4 ports, 8 parts of 2 PEs.
    assert said["nodes"]["all"] == len(topology.nodes) == 1 + 4 * 3 + 4 * (3 + 4 + 4 + 16)
    assert said["nodes"]["router"] == 16 and sum(said["nodes"].values()) == 2 * said["nodes"]["all"]
    assert said["edges"]["sip"] == {"edges": 2, "links": 1, "bytes_per_cycle": [50, 50], "cycles": [81, 81], "mm": [100, 100]}
    assert said["edges"]["mesh"]["bytes_per_cycle"] == [102.4, 102.4]
    assert said["edges"]["pe_internal"]["bytes_per_cycle"] is None
    assert said["edges"]["all"] == sum(one["edges"] for name, one in said["edges"].items() if name != "all")


def test_a_route_adds_up_for_machines(kbsim: Kbsim) -> None:
    said = json.loads(kbsim("topology", "route", *FAR, "--json").out)
    assert (said["graph"], said["by"]) == ("data", "weight")
    assert said["path"] == [FAR[0], *(hop["to"] for hop in said["hops"])] and said["path"][-1] == FAR[1]
    assert said["mm"] == sum(hop["mm"] for hop in said["hops"])
    assert said["cycles"] == sum(hop["cycles"] for hop in said["hops"])
    assert said["weight"] == sum(hop["weight"] for hop in said["hops"])
    assert json.loads(kbsim("topology", "route", "sip0.cube0.pe0", *FAR[1:], "--json").out) == said  # a PE is its DMA engine
    limits = [hop for hop in said["hops"] if hop["bytes_per_cycle"] is not None]
    assert said["bottleneck"] == min(limits, key=lambda hop: hop["bytes_per_cycle"])
    assert said["bottleneck"]["kind"] == "sip" and said["bottleneck"]["bytes_per_cycle"] == 50


def test_an_address_is_the_memory_entered_where_its_slice_is(kbsim: Kbsim) -> None:
    """Slice 1 of the first stack, which is attached at PE 1's router r1c2: a route of the own cube, in graph local."""
    said = json.loads(kbsim("topology", "route", "sip0.cube0.pe0", "0x20000040", *ON, "--json").out)
    assert said["graph"] == "local" and said["path"][-2:] == ["sip0.cube0.r1c2", "sip0.cube0.hbm_ctrl"]
    back = json.loads(kbsim("topology", "route", "0x20000040", "sip0.cube0.pe0", *ON, "--json").out)
    assert back["path"] == said["path"][::-1] and back["mm"] == said["mm"]
    far = json.loads(kbsim("topology", "route", "sip0.cube1.m_cpu", "0x20000040", *ON, "--graph", "mcpu", "--json").out)
    assert far["graph"] == "mcpu" and far["path"][-2:] == said["path"][-2:]


def test_stages_have_no_times_for_machines(kbsim: Kbsim) -> None:
    first = kbsim("topology", "compile", *ON, "--json").out
    Path("cube_mesh.yaml").unlink()
    assert kbsim("topology", "compile", *ON, "--json").out == first


def test_refusals_for_machines(kbsim: Kbsim) -> None:
    said = kbsim(*COMMANDS["route_none"], "--json")
    answer = json.loads(said.out)
    assert said.code == 2 and answer["status"] == "refused"
    assert answer["problems"][0]["where"] == "pair.yaml: sip0.cube0.m_cpu to sip1.cube0.m_cpu"


def test_compile_writes_the_mesh_once(kbsim: Kbsim) -> None:
    said = json.loads(kbsim("topology", "compile", *ON, "--json").out)
    mesh = Path(said["mesh_file"])
    assert (said["status"], said["mesh"], mesh.name) == ("compiled", "generated", "cube_mesh.yaml")
    first = mesh.read_bytes()
    assert "cube_mesh.yaml reused, 4 routers a cube" in kbsim("topology", "compile", *ON).out
    assert mesh.read_bytes() == first
    mesh.write_bytes(first.replace(b"r0c0", b"r9c9", 1))
    refused = kbsim("topology", "compile", *ON)
    assert (refused.code, refused.out) == (2, "") and "edited by hand" in refused.err and "--force" in refused.err
    assert "cube_mesh.yaml regenerated, " in kbsim("topology", "compile", *ON, "--force").out
    assert mesh.read_bytes() == first


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        (("--view", "system"), "System"),
        (("--view", "sip"), "SIP sip0"),
        (("--view", "sip", "--of", "sip1"), "SIP sip1"),
        (("--view", "cube", "--of", "sip1.cube1"), "Cube sip1.cube1"),
        (("--view", "pe"), "PE sip0.cube0.pe0"),
    ],
)
def test_draw_writes_the_view(arguments: tuple[str, ...], title: str, kbsim: Kbsim) -> None:
    said = kbsim("topology", "draw", *ON, *arguments, "-o", "x.svg")
    data = Path("x.svg").read_bytes()
    assert said == (0, "", f"x.svg: {title}, {len(data):,} bytes\n")
    found = ElementTree.fromstring(data).find("{http://www.w3.org/2000/svg}title")
    assert found is not None and found.text == title


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--view", "sip", "-o", "x.png"), 'kbsim topology draw: --out = "x.png", but the file name must end in .svg'),
        (("--view", "sip", "--of", "sip2", "-o", "x.svg"), "pair.yaml: there is no sip sip2; did you mean sip1?"),
        (("--view", "cube", "-o", "no/x.svg"), "no/x.svg: it cannot be written: there is no directory"),
    ],
)
def test_draw_refuses(arguments: tuple[str, ...], message: str, kbsim: Kbsim) -> None:
    said = kbsim("topology", "draw", *ON, *arguments)
    assert (said.code, said.out) == (2, "") and said.err.startswith(f"error: {message}")
    assert not list(Path().glob("x.*"))


def test_one_npu_is_no_topology(kbsim: Kbsim) -> None:
    said = kbsim("topology", "show", "-c", "npu_mobile")
    assert said.code == 2 and "a system of several PEs is expected" in said.err
