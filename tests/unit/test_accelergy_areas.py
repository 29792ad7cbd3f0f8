"""Areas of Accelergy's area reference tables: read, divided by what a machine has, and refused at their places."""

from __future__ import annotations

import re
from fractions import Fraction as F
from pathlib import Path
from typing import Any

import pytest
import yaml

import kernbench as kb
from kernbench.cli.main import exit_code
from kernbench.common.errors import InputError
from kernbench.config.accelergy import area_table, read_reference_table
from kernbench.config.accelergy_area import FIGURES, area_yaml, read_areas
from kernbench.config.energy_table import areas, read_table

MACHINE: dict[str, Any] = {"spm": {"bank_size_bytes": 8192, "num_banks": 4}, "te": {"engines": 2, "macs_per_cycle": 1000}}
BUFFER, MAC = "chip.pe[0..3].buffer[0..1]", "chip.pe[0..3].mac"
TABLES = [{"name": BUFFER, "area": 4000}, {"name": MAC, "area": "25.5"}]


def art_in(folder: Path, tables: Any) -> str:
    (folder / "ART.yaml").write_text(yaml.safe_dump({"ART": {"version": 0.4, "tables": tables}}))
    return str(folder / "ART.yaml")


def map_in(folder: Path, text: str) -> str:
    (folder / "parts.yaml").write_text(text)
    return str(folder / "parts.yaml")


def test_areas_of_all_instances_by_hand(tmp_path: Path) -> None:
    """Eight buffers of 4,000 um2 for 32 KiB, and four arrays of 25.5 um2 for 2,000 MACs."""
    names = map_in(tmp_path, f"spm: {{name: '{BUFFER}'}}\nte: {{name: '{MAC}'}}\n")
    found = {one.part: one for one in read_areas(art_in(tmp_path, TABLES), kb.load_config(MACHINE), names)}
    assert {part: one.mm2 for part, one in found.items()} == {"spm": F(8 * 4000, 10**6), "te": F(4 * 51, 2 * 10**6)}
    assert found["spm"].figure == F(32, 1000) * 32 and found["te"].figure == F(102, 10**6) / 2000


def test_areas_of_several_components_are_added(tmp_path: Path) -> None:
    tables = [*TABLES, {"name": "chip.shared", "area": 68000}]
    names = map_in(tmp_path, f"spm: {{name: ['{BUFFER}', chip.shared]}}\n")
    (found,) = read_areas(art_in(tmp_path, tables), kb.load_config(MACHINE), names)
    assert found.mm2 == F(1, 10) and found.why == f"{BUFFER}, chip.shared: 32,768 bytes"


@pytest.mark.parametrize("machine", ["npu_mobile", "single_cube"])
def test_areas_come_back_from_accelergy(tmp_path: Path, machine: str) -> None:
    config, table = kb.load_config(machine), read_table("7nm")
    (tmp_path / "ART.yaml").write_text(area_table({one.key: one.value for one in areas(table, config)}))
    for one in read_areas(str(tmp_path / "ART.yaml"), config):
        assert one.figure == table.figure("area", FIGURES[one.part])[0]


def test_what_is_printed_is_part_of_a_table(tmp_path: Path) -> None:
    """Also a figure that has an exponent, and a name with a line feed."""
    config, name = kb.load_config(MACHINE), "a\nb: c"
    names = map_in(tmp_path, yaml.safe_dump({"spm": {"name": name}, "te": {"name": MAC}}))
    found = read_areas(art_in(tmp_path, [{"name": name, "area": 1}, {"name": MAC, "area": "0.0005"}]), config, names)
    base = yaml.safe_load(Path("configs/energy/45nm.yaml").read_text())
    added = yaml.safe_load(area_yaml(found, 'ART "1".yaml'))
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(base | added | {"sources": base["sources"] | added["sources"]}))
    mm2 = {one.key: one.value for one in areas(read_table(str(tmp_path / "own.yaml")), config)}
    assert mm2 == {"spm": F(1, 10**6), "te": F(2, 10**9)}


def test_one_map_serves_both_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ert = {"ERT": {"version": 0.4, "tables": [{"name": MAC, "actions": [{"name": "mac", "arguments": {}, "energy": 2}]}]}}
    (tmp_path / "ERT.yaml").write_text(yaml.safe_dump(ert))
    names = map_in(tmp_path, f"mac_pj: {{name: '{MAC}', action: mac}}\nte: {{name: '{MAC}'}}\n")
    asked = ["config", "energy", "npu_mobile", "--ert", str(tmp_path / "ERT.yaml"), "--art", art_in(tmp_path, TABLES)]
    assert exit_code([*asked, "--map", names]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["energy"] == {"mac_pj": {8: 2}} and list(printed["area"]) == ["mac_mm2"]
    with pytest.raises(InputError, match=r"parts.yaml:2:5: te: keys are those of the energy section"):
        read_reference_table(str(tmp_path / "ERT.yaml"), F(1), names)


WRONG: list[tuple[Any, str]] = [
    (3, r"ART.yaml:2:3: ART: it must be an area reference table of Accelergy"),
    ([{"name": "machine.spm"}], r"ART.yaml:3:5: ART.tables\[0\]: it must be an area reference table"),
    ([{"name": ["machine.spm"], "area": 1}], r"ART.tables\[0\]: it must be an area reference table"),
    ([{"name": "machine.spm", "area": "wide"}], r"ART.yaml:3:11: ART.tables\[0\].area = .wide., but"),
    ([{"name": "machine.spm", "area": -1}], r"ART.tables\[0\].area = -1, but an area must be from 0 to 1000000000000 um2"),
    ([{"name": "machine.spm", "area": 10**13}], r"area = 10000000000000, but an area must be from 0 to 1000000000000 um2"),
    ([{"name": "machine.spm", "area": area} for area in (1, 2)], r"ART.tables\[1\].name = .*two components have this name"),
    ([{"name": "a[3..1]", "area": 1}], r"ART.tables\[0\].name = .a\[3..1\]., but a range of instances must rise"),
    ([{"name": f"a[0..{'9' * 5000}]", "area": 1}], r"but a range of instances must rise, and must end below 1000000000"),
    ([{"name": "a[0..99999][0..99999]", "area": 1}], r"a component has at most 1000000000 instances"),
    ([{"name": "chip.spm", "area": 1}], r"ART.tables: it has no component machine.spm or machine.te; name the components"),
]


@pytest.mark.parametrize(("tables", "message"), WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_wrong_tables_are_refused_at_their_places(tmp_path: Path, tables: Any, message: str) -> None:
    with pytest.raises(InputError) as refused:
        read_areas(art_in(tmp_path, tables), kb.load_config(MACHINE))
    assert re.search(message, str(refused.value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spm: {name: chip.bufer}\n", r"ART.tables = .chip.bufer., but there is no such component"),
        ("spa: {name: chip.mac}\n", r"parts.yaml:1:1: spa: keys for --art are the parts spm, te; did you mean spm\?"),
        ("te: chip.mac\n", r"parts.yaml:1:5: te = .chip.mac., but it must be .name: COMPONENT."),
        ("te: {name: chip.mac, bytes: 2}\n", r"te = .*, but it must be .name: COMPONENT."),
        ("te: {name: []}\n", r"te = .*, but it must be .name: COMPONENT. or .name: .COMPONENT, ...."),
        ("te: {name: [chip.mac, chip.mac]}\n", r"parts.yaml:1:\d+: te.name\[1\] = .chip.mac., but this component is twice"),
        ("{}\n", r"it names no component for the parts spm, te of --art; add a line such as spm: .name: COMPONENT."),
    ],
)
def test_wrong_maps_are_refused_at_their_places(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        read_areas(art_in(tmp_path, TABLES), kb.load_config(MACHINE), map_in(tmp_path, text))
    assert re.search(message, str(refused.value))


@pytest.mark.parametrize("more", [("--table", "7nm"), ("--accelergy", "out")])
def test_options_that_exclude_a_table_of_areas(more: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["config", "energy", "npu_mobile", "--art", "ART.yaml", *more]) == 2
    assert "--art cannot be used together with --table or --accelergy" in capsys.readouterr().err
