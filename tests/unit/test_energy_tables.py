"""Energy sections by tables of components, and to and from Accelergy's files."""

from __future__ import annotations

from fractions import Fraction as F
from pathlib import Path
from typing import Any

import pytest
import yaml

import kernbench as kb
from kernbench.cli.main import exit_code
from kernbench.common.errors import InputError
from kernbench.config.accelergy import action_counts, architecture, read_reference_table, reference_table
from kernbench.config.energy_table import areas, prices, read_table, section_yaml, table_names
from kernbench.trace.energy import ledger
from kernbench.trace.reader import open_trace
from tests.unit.test_trace_energy import traced


@pytest.mark.parametrize("name", table_names())
@pytest.mark.parametrize("machine", ["npu_mobile", "single_cube"])
def test_a_table_gives_a_section_that_machines_take(name: str, machine: str) -> None:
    config = kb.load_config(machine)
    text = section_yaml(prices(read_table(name), config, "lpddr"), name)
    assert all("#" in line for line in text.splitlines() if line.strip() and not line.strip().startswith("mac_pj"))
    section = yaml.safe_load(text)["energy"]
    taken = kb.load_config(machine, {"energy": section}).energy
    assert taken.dram_pj_per_byte == 40 and taken.mac_pj[8] < taken.mac_pj[16] < taken.mac_pj[32]


def test_prices_of_an_npu_by_hand(tmp_path: Path) -> None:
    config = kb.load_config({"spm": {"bank_size_bytes": 8192, "num_banks": 4}, "te": {"engines": 2, "macs_per_cycle": 1000}})
    table = read_table("45nm")
    found = {price.key: price.value for price in prices(table, config, "ddr")}
    assert found["spm_pj_per_byte"] == F(10, 8) and found["mac_pj.8"] == F(3, 10) and found["dram_pj_per_byte"] == F("243.75")
    mm2 = {one.key: one.value for one in areas(table, config)}
    assert mm2 == {"spm": 5 * F(32768, 2**20), "te": F("0.00042") * 2000}
    assert found["static_mw"] == F(f"{float(20 * sum(mm2.values())):.3f}")


def test_between_two_sizes_the_square_root_counts() -> None:
    table = read_table("45nm")
    assert table.sram_per_byte(32768)[0] == F(20, 8) and table.sram_per_byte(2**24)[0] == F(100, 8)
    assert table.sram_per_byte(1)[0] == F(10, 8)
    root = (2**8 - 2**7.5) / (2**10 - 2**7.5)  # of 64 KiB, between 32 KiB and 1 MiB
    assert float(table.sram_per_byte(65536)[0]) == pytest.approx((20 + 80 * root) / 8, abs=1e-6)


def test_the_device_of_the_machine_decides_the_kind_of_dram() -> None:
    with pytest.raises(InputError, match=r"names no DRAM device.*--dram ddr, hbm"):
        prices(read_table("7nm"), kb.load_config({}))
    with pytest.raises(InputError, match="the table 45nm has no hbm there; it has ddr, lpddr"):
        prices(read_table("45nm"), kb.load_config({}), "hbm")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"mac": {"int8": {"pj": 1, "source": "me"}}}, r"mac.int8.source = .me.*must name one of the table's sources: s"),
    ({"mac": {"int8": {"pj": -1, "source": "s"}}}, r"mac.int8.pj = -1, but it must be at least 0"),
    ({"colour": 3}, r"colour"),
    ({"sources": ["s"]}, r"sources = .*it must be .NAME: .title: "),
    ({"mac": [1]}, r"mac = \[1\], but it must be .NAME: .pj: ..., source: ...., ...."),
    ({"area": {"mac_mm2": 3}}, r"area.mac_mm2 = 3, but it must have one of pj, pj_per_byte, value, and a source"),
    ({"mac": {"int8": {"pj": 1, "source": {}}}}, r"mac.int8.source = .*must name one of the table's sources: s"),
    ({"static_mw_per_mm2": {"source": "s"}}, r"static_mw_per_mm2 = .*must have one of pj"),
    ({"sram": []}, r"sram = \[\], but it must be a list of .size_bytes, width_bits, pj, source."),
    ({"sram": [{"size_bytes": 0, "width_bits": 8, "pj": 1, "source": "s"}]}, r"sram\[0\].size_bytes = 0"),
    ({"sram": [{"size_bytes": 9, "width_bits": "8", "pj": 1, "source": "s"}]}, r"sram\[0\].width_bits = .8."),
    ({"schema": "kernbench/energy-table/2"}, r"it must be kernbench/energy-table/1"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_wrong_tables_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    file = tmp_path / "own.yaml"
    base = yaml.safe_load(Path("configs/energy/45nm.yaml").read_text()) | {"sources": {"s": {"title": "t"}}}
    sourced = yaml.safe_load(yaml.safe_dump(base).replace("horowitz", "s").replace("assumed", "s"))
    file.write_text(yaml.safe_dump(sourced | change))
    with pytest.raises(InputError, match=message):
        prices(read_table(str(file)), kb.load_config({}), "ddr")


@pytest.mark.parametrize("machine", ["npu_mobile", "npu_server", "single_cube"])
def test_a_section_comes_back_from_accelergy(tmp_path: Path, machine: str) -> None:
    config = kb.load_config(machine, {"energy.mac_pj": {8: "0.2", 4: "0.1"}})
    (tmp_path / "ERT.yaml").write_text(reference_table(config.energy, config.freq_ghz))
    section = read_reference_table(str(tmp_path / "ERT.yaml"), config.freq_ghz)
    assert kb.load_config(machine, {"energy": section}).energy == config.energy


def test_a_table_is_written_with_its_prices_and_areas(tmp_path: Path) -> None:
    """Areas in um2: of 16 banks of 64 KiB and of two engines of 1,000 MACs."""
    (tmp_path / "m.yaml").write_text("schema: kernbench/npu/1\nte: {engines: 2, macs_per_cycle: 1000}\n")
    out = tmp_path / "out"
    asked = ["config", "energy", str(tmp_path / "m.yaml"), "--table", "45nm", "--dram", "ddr", "--accelergy", str(out)]
    assert exit_code(asked) == 0
    art = yaml.safe_load((out / "ART.yaml").read_text())["ART"]["tables"]
    assert art == [{"name": "machine.spm", "area": 5e6}, {"name": "machine.te", "area": 840000.0}]
    section = read_reference_table(str(out / "ERT.yaml"), F(1))
    assert section["dram_pj_per_byte"] == 243.75 and section["mac_pj"][8] == 0.3
    assert exit_code([*asked, "--ert", str(out / "ERT.yaml")]) == 2


def test_counts_times_the_reference_table_are_the_energy_of_the_run(tmp_path: Path) -> None:
    """As Accelergy's calculator multiplies them: the rows of a component whose action and arguments are equal."""
    file, said = traced(tmp_path, by_cause=True)
    trace = open_trace(file)
    energy = kb.load_config({"energy": trace.meta.sim_config["energy"]}).energy
    ert = yaml.safe_load(reference_table(energy, trace.freq_ghz))["ERT"]["tables"]
    unit = {(t["name"], a["name"], str(a["arguments"])): a["energy"] for t in ert for a in t["actions"]}
    counts = yaml.safe_load(action_counts(ledger(trace).action_counts()))["action_counts"]["local"]
    total = sum(unit[c["name"], a["name"], str(a["arguments"])] * a["counts"] for c in counts for a in c["action_counts"])
    assert total == pytest.approx(said["total"], rel=1e-12)
    rows = {one["name"]: {row["name"]: row["counts"] for row in one["action_counts"]} for one in counts}
    assert rows["machine.dram"] == {"read": 4096 + 2048, "write": 2 * 1024}  # weights of 8 and of 4 bits; both outputs
    assert rows["machine.noc"] == {"transfer": 2 * (4096 + 2048 + 2 * 1024)} and rows["machine.ve"].keys() == {"compute"}
    names = {f"machine.{one['name']}" for one in yaml.safe_load(architecture({}))["architecture"]["subtree"][0]["local"]}
    assert names == {table["name"] for table in ert}


def test_highest_of_read_and_write_counts_and_older_names_of_actions_are_read(tmp_path: Path) -> None:
    def table(name: str, actions: dict[str, int]) -> dict[str, Any]:
        rows = [{"name": action, "arguments": {}, "energy": pj} for action, pj in actions.items()]
        return {"name": f"machine.{name}", "actions": rows}

    file = tmp_path / "ERT.yaml"
    for spm, pj in (({"read": 2, "write": 3}, 3), ({"byte": 4}, 4)):
        file.write_text(yaml.safe_dump({"ERT": {"version": 0.4, "tables": [table("spm", spm)]}}))
        assert read_reference_table(str(file), F(1)) == {"spm_pj_per_byte": pj}


def test_tables_of_other_names_are_read_by_a_map(tmp_path: Path) -> None:
    actions = [
        {"name": "read", "arguments": {"data_delta": d}, "energy": 4 + d} for d in (0, 1)
    ]  # fmt: skip
    ert = {"ERT": {"version": 0.4, "tables": [{"name": "chip.buffer[0..3]", "actions": actions}]}}
    (tmp_path / "ERT.yaml").write_text(yaml.safe_dump(ert))
    (tmp_path / "map.yaml").write_text("spm_pj_per_byte: {name: 'chip.buffer[0..3]', action: read, bytes: 2}\n")
    read = read_reference_table(str(tmp_path / "ERT.yaml"), F(1), str(tmp_path / "map.yaml"))
    assert read == {"spm_pj_per_byte": 2.5}
    (tmp_path / "map.yaml").write_text("spm_pj_per_byte: {name: chip.bufer, action: read}\n")
    with pytest.raises(InputError, match="there is no such component"):
        read_reference_table(str(tmp_path / "ERT.yaml"), F(1), str(tmp_path / "map.yaml"))
    (tmp_path / "map.yaml").write_text("spm_pj: {name: x, action: read}\n")
    with pytest.raises(InputError, match="keys are those of the energy section"):
        read_reference_table(str(tmp_path / "ERT.yaml"), F(1), str(tmp_path / "map.yaml"))
    for arguments, message in ((1, r"arguments = 1, but it must be .NAME: "), ({"qbits": "8"}, "qbits = .8., but it must")):
        rows = [{"name": "compute", "arguments": arguments, "energy": 1}]
        ert = {"ERT": {"version": 0.4, "tables": [{"name": "machine.te", "actions": rows}]}}
        (tmp_path / "ERT.yaml").write_text(yaml.safe_dump(ert))
        with pytest.raises(InputError, match=message):
            read_reference_table(str(tmp_path / "ERT.yaml"), F(1))
    (tmp_path / "no.yaml").write_text("ART: {}\n")
    with pytest.raises(InputError, match="energy reference table of Accelergy"):
        read_reference_table(str(tmp_path / "no.yaml"), F(1))
