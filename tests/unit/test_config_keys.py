"""The list of keys of machine files, and machines as files to edit."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernbench.config import MachineConfig, NpuConfig, SystemConfig, load_config, preset_names
from kernbench.config.commented import LONGEST, commented_yaml
from kernbench.config.keys import keys_of, matching

PRESETS = preset_names()


@pytest.mark.parametrize("model", [NpuConfig, SystemConfig])
def test_every_key_has_a_type_and_a_meaning(model: type[MachineConfig]) -> None:
    found = keys_of(model)
    assert len({key.path for key in found}) == len(found)
    assert all(key.kind and key.default and key.meaning for key in found)


def test_a_key_says_what_the_schema_says() -> None:
    by_path = {key.path: key for key in keys_of(NpuConfig)}
    bank = by_path["spm.bank_size_bytes"]
    assert (bank.kind, bank.default, bank.unit, bank.section) == ("size", "65536", "byte", "spm")
    assert by_path["spm.map"].choices == ("interleaved", "blocked")
    assert by_path["noc.dma_at"].unit == "" and by_path["noc.dma_at"].meaning.startswith("[row, col]")
    assert by_path["te.rows"].default == "absent"


def test_keys_are_found_by_path_and_else_by_meaning() -> None:
    found = keys_of(NpuConfig)
    banks = ["spm.num_banks", "spm.bank_size_bytes", "spm.bank_width_bytes"]
    assert [key.path for key in matching(found, "spm.*bank*")] == banks
    assert "dram.peak_bw_bytes_per_cycle" in {key.path for key in matching(found, "bandwidth of one channel")}
    assert matching(found, "warp") == []


@pytest.mark.parametrize("preset", PRESETS)
def test_a_commented_machine_reads_back_as_an_equal_one(preset: str, tmp_path: Path) -> None:
    config = load_config(preset)
    file = tmp_path / "machine.yaml"
    file.write_text(commented_yaml(config, schema="./machine.schema.json"))
    assert load_config(file).digest() == config.digest()


@pytest.mark.parametrize("schema", ["kernbench/npu/1", "kernbench/system/1"])
def test_the_defaults_of_a_kind_read_back_too(schema: str, tmp_path: Path) -> None:
    config = load_config({"schema": schema})
    file = tmp_path / "machine.yaml"
    file.write_text(commented_yaml(config))
    assert load_config(file) == config
    assert f"the defaults of {schema}" in file.read_text()


def test_values_that_yaml_reads_differently_are_quoted(tmp_path: Path) -> None:
    changes = ["sip.io=[{name: io3, side: 'n'}]", "components.pe_gemm.depth='on'", "energy.ve_op_pj=1/3"]
    config = load_config("single_cube", changes)
    file = tmp_path / "machine.yaml"
    file.write_text(commented_yaml(config))
    assert load_config(file).to_dict() == config.to_dict()


def test_comments_of_a_preset_stay_with_their_values() -> None:
    text = commented_yaml(load_config("npu_server"))
    lines = text.split("\n")
    channels = next(i for i, line in enumerate(lines) if line.startswith("  channels: 8"))
    assert lines[channels - 1].strip() == "# each stands for two of the 16 channels of a stack (JESD238)"
    assert "[byte] size of the whole DRAM" in text
    assert "  # row_buffer:" in text
    assert max(map(len, lines)) <= LONGEST + 20  # values are never cut


def test_a_user_s_own_comments_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("schema: kernbench/npu/1\ndram:\n  channels: 4  # measured on the board\n")
    assert "measured on the board" in commented_yaml(load_config(file))
