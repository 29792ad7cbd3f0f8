"""Machines that are made from a datasheet and the constants of other chips."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kernbench.analysis.chips.leave_out import as_new
from kernbench.analysis.chips.tables import Table
from kernbench.common.errors import InputError
from kernbench.config import NpuConfig, chip_names, load_config
from kernbench.config.datasheet import SCHEMA, TAKEN_OVER, constants_of, memory_share, product_share, with_constants

CHIPS = Path(__file__).parents[2] / "configs" / "chips"
SHEETS = [name for name in chip_names() if f"schema: {SCHEMA}" in (CHIPS / f"{name}.yaml").read_text(encoding="utf-8")]
OWN = """\
schema: kernbench/chip/1
name: Someone's A100
like: a100
cores: 108
clock_ghz: 1.41
core_macs: {8: 2048, 16: 1024, 32: 512}
core_lanes: 64
core_memory_bytes: 448 KiB
float8: false
compute_capability: 8.0
core_shared_bytes: 163 KiB
memory_bytes: 80 GiB
memory_gb_s: 2039
cache_bytes: 40 MiB
power_w: 400
process_nm: 7
links: 12
link_gb_s: 25
"""


def made(tmp_path: Path, text: str = OWN) -> NpuConfig:
    (tmp_path / "own.yaml").write_text(text, encoding="utf-8")
    return load_config(tmp_path / "own.yaml", kind=NpuConfig)


def test_datasheets_of_the_package_are_not_calibrated_and_name_the_source_of_each_number() -> None:
    assert {"h200", "b200", "l4", "t4", "v100", "a10", "mi250x", "mi355x", "tpuv4", "gaudi3", "jetson_agx_orin"} <= set(SHEETS)
    for name in SHEETS:
        machine = load_config(name)
        assert machine.chip is not None and not machine.chip.calibrated
        for line in (CHIPS / f"{name}.yaml").read_text(encoding="utf-8").splitlines():
            value, _, comment = line.partition("  #")
            if re.search(r"[ {]\d", value) and not line.startswith(("#", "name:")):
                assert comment.strip(), (name, line)


def test_the_figures_of_a_calibrated_chip_give_the_machine_that_its_file_describes(tmp_path: Path) -> None:
    found, file = made(tmp_path), load_config("a100", kind=NpuConfig)
    assert found.chip is not None and file.chip is not None
    assert float(product_share(found)) == pytest.approx(float(product_share(file)), rel=1e-4)
    assert (found.dram.capacity, found.dram.t_setup_cycles) == (pytest.approx(file.dram.capacity, rel=1e-4), 552)
    assert (found.ve, found.spm, found.te.f_a) == (file.ve, file.spm, file.te.f_a)
    differing = {key for key in type(file.chip).model_fields if getattr(found.chip, key) != getattr(file.chip, key)}
    assert differing == {"name", "calibrated"}


def test_cores_clock_and_power_scale_what_is_taken_over(tmp_path: Path) -> None:
    other = OWN.replace("cores: 108", "cores: 54").replace("power_w: 400", "power_w: 100").replace("2039", "1000")
    half = made(tmp_path, other)
    file = load_config("a100", kind=NpuConfig)
    assert half.chip is not None and file.chip is not None
    assert half.chip.cache_bytes_per_cycle * 2 == file.chip.cache_bytes_per_cycle
    assert memory_share(half) == pytest.approx(memory_share(file), rel=1e-4)
    lower = float(product_share(half) / product_share(file))  # half of the power for each core: the cube root of it
    assert lower == pytest.approx(0.5 ** (1 / 3), rel=1e-3)
    faster = made(tmp_path, OWN.replace("clock_ghz: 1.41", "clock_ghz: 2.82"))
    assert faster.dram.t_setup_cycles == 2 * file.dram.t_setup_cycles  # the latency is a time


def test_values_say_which_line_or_chip_they_come_from(tmp_path: Path) -> None:
    text = OWN + "memory_like: a6000\nmachine:\n  chip: {start_ns: 1234}\n"
    machine = made(tmp_path, text)
    at = {path: origin for path, _, origin in machine.effective()}
    file = tmp_path / "own.yaml"
    assert at["chip.cores"] == f"{file}:4:8" and at["chip.start_ns"] == f"{file}:21:20"
    assert at["te.macs_per_cycle"] == at["chip.tiles"] == f"{file}:3:7 (as on a100)"
    assert at["dram.t_setup_cycles"] == f"{file}:19:14 (as on a6000)"
    assert machine.chip is not None and machine.chip.start_ns == 1234
    assert load_config(file, {"chip.start_ns": 5}).where("chip.start_ns") == "override chip.start_ns=5"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("like: a100", "like: a1000", ":3:7: like = \"a1000\", but it must be the name of another chip"),
        ("like: a100", "like: a1000", "did you mean a100?"),
        ("process_nm: 7", "process_nm: 9", ":16:13: process_nm = 9, but with power_w, it must be one of 3, 4, 5, 6, 7, 8, 12"),
        ("cores: 108", "cores: none", ":4:8: cores"),
        ("cores: 108", "core: 108", ":4:1: core: there is no such key; did you mean cores?"),
        ("{8: 2048, 16: 1024, 32: 512}", "{}", ":6:12: core_macs = an empty mapping, but it must have at least 1 key"),
        ("links: 12", "machine: {te: {engine: 2}}", "te.engine"),
        ("cores: 108", "dram_kind: gddr\ncores: 108", ":4:12: dram_kind = \"gddr\", but a100 has hbm; name a chip"),
    ],
)
def test_a_wrong_datasheet_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        made(tmp_path, OWN.replace(old, new))
    assert said in str(refused.value)


def test_a_chip_without_measurements_has_the_constants_of_other_chips() -> None:
    table = Table("t", "rtx4090", "kernel_only", "attention", load_config("rtx4090"), [], 0)
    new, moved = as_new(table), as_new(table, measured=True)
    assert new is not None and moved is not None and new.chip is not None and moved.chip is not None
    a6000, file = load_config("a6000"), load_config("rtx4090")
    assert new.chip.start_ns == a6000.chip.start_ns != moved.chip.start_ns == file.chip.start_ns
    beside_power = float(product_share(a6000) / a6000.chip.power_share)  # A100 has about the same
    assert product_share(new) == pytest.approx(beside_power, rel=1e-3)
    assert (new.chip.cores, new.chip.rated_memory_gb_s) == (128, 1008)
    assert as_new(replace(table, chip="l40", machine=load_config("l40"))) is None  # its file is already made in this way


def test_the_kind_of_dram_says_which_chips_have_its_share_and_latency(tmp_path: Path) -> None:
    a100 = load_config("a100")
    gddr = a100.model_copy(update={"chip": a100.chip.model_copy(update={"dram_kind": "gddr"})})
    unknown = a100.model_copy(update={"chip": a100.chip.model_copy(update={"dram_kind": None})})
    table = Table("t", "a100", "kernel_only", "operations", a100, [], 0)
    found = [as_new(replace(table, elsewhere=one)) for one in (a100, gddr, unknown)]
    shares = [memory_share(one) for one in found if one is not None]
    mi210, a6000 = memory_share(load_config("mi210")), memory_share(load_config("a6000"))
    assert shares == pytest.approx([mi210, a6000, a6000], rel=1e-4)  # without a kind, that of chips of the vendor
    for text, kind in (("", "hbm"), ("memory_like: a6000\n", "gddr"), ("memory_like: l40\ndram_kind: hbm\n", "hbm")):
        machine = made(tmp_path, OWN + text)
        assert machine.chip is not None and machine.chip.dram_kind == kind


def test_every_chip_with_dram_says_its_kind() -> None:
    for name in chip_names():
        assert (load_config(name).chip.dram_kind is None) == name.startswith(("ethos", "ndp")), name


def test_a_core_takes_as_many_bytes_for_a_multiply_add_as_other_cores() -> None:
    """Products of large tiles are not slower on a chip whose cores multiply faster."""
    a100, rtx = load_config("a100", kind=NpuConfig), load_config("rtx4090", kind=NpuConfig)
    assert a100.chip is not None
    found = with_constants(a100, constants_of(rtx))
    assert found.chip is not None and rtx.chip is not None
    assert float(found.chip.cache_bytes_per_cycle / 108 / 1024) == pytest.approx(1960 / 128 / 256, rel=1e-3)
    kept = with_constants(a100, constants_of(rtx), measured=True)
    assert kept.chip is not None and kept.chip.cache_bytes_per_cycle == a100.chip.cache_bytes_per_cycle
    assert all(getattr(found.chip, name) == getattr(rtx.chip, name) for name in TAKEN_OVER)


@pytest.mark.parametrize(("name", "other"), [("a100", "mi210"), ("mi210", "a100"), ("rtx4090", "a6000"), ("a6000", "rtx4090")])
def test_a_new_chip_has_the_dram_latency_of_chips_with_its_kind_of_dram(name: str, other: str) -> None:
    machine, like = load_config(name), load_config(other)
    table = Table("own.csv", name, "kernel_only", "operations", machine, [], 0)
    new = as_new(table)
    assert new is not None
    taken, given = (float(one.dram.t_setup_cycles / one.freq_ghz) for one in (new, like))
    assert taken == pytest.approx(given, rel=0.005)
    assert float(memory_share(new)) == pytest.approx(float(memory_share(like)), rel=1e-4)
