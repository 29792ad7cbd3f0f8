"""The machines that come with kernbench: they load, each number says its source, and the arithmetic beside them is right."""

from __future__ import annotations

import importlib.resources
import re
from fractions import Fraction

import pytest

from kernbench.cmdq import Program, check_program
from kernbench.cmdq.entries import TeEntry
from kernbench.cmdq.footprint import regions_of, service_cycles
from kernbench.common.units import ceil_div
from kernbench.config import NpuConfig, load_config, preset_names

PRESETS = ["npu_mobile", "npu_server"]


def text_of(name: str) -> str:
    return importlib.resources.files("kernbench.configs").joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def test_these_are_the_presets() -> None:
    assert preset_names(NpuConfig) == PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_every_line_with_a_number_says_where_it_comes_from(name: str) -> None:
    lines = [line for line in text_of(name).splitlines() if ":" in line and not line.startswith(("#", "schema:"))]
    for line in lines:
        value, _, comment = line.partition("#")
        if re.search(r"[:\[{ ]\d", value):
            assert comment.strip(), line
            sourced = r"assumed|JESD|arXiv|default|limit of the run|bursts|accesses|Mb/s|Gb|the model"
            assert re.search(sourced, comment), line


@pytest.mark.parametrize("name", PRESETS)
def test_only_what_changes_nothing_is_left_to_a_default(name: str) -> None:
    defaults = {path for path, _, origin in load_config(name).effective() if origin == "default"}
    engines = {"noc.model", "energy.by_cause", "dma.codecs", "dma.arbiter", "te.timing", "te.fill", "te.drain"}
    engines |= {"te.clock_ratio", "ve.clock_ratio", "ve.reduction_trees"}
    assert defaults <= {"dma.period", "dram.period", "te.period", "ve.period", *engines}


def test_dram_bandwidths() -> None:
    mobile, server = load_config("npu_mobile"), load_config("npu_server")
    assert mobile.dram.capacity == Fraction(8533 * 16, 8 * 1000)  # 8533 Mb/s, 16 pins, bytes per ns
    assert server.dram.capacity * server.dram.channels == Fraction(64 * 1024, 10 * 8)  # 6.4 Gb/s, 1024 pins
    assert mobile.dram.capacity_bytes == 8 * 2**30
    assert server.dram.capacity_bytes == 8 * 16 * 2**30 // 8  # eight dies of 16 Gb


@pytest.mark.parametrize("name", PRESETS)
def test_room_for_a_layer_of_llama_2_7b(name: str) -> None:
    config = load_config(name)
    weights = (4 * 4096 * 4096 + 3 * 4096 * 11008) // 2  # bytes at 4 bits
    assert config.dram.capacity_bytes > 32 * weights
    assert config.kv_layouts[0].head_dim == 4096 // 32
    assert config.kv_layouts[0].t_max >= 1024
    assert config.spm.size_bytes >= 4 * 2**20


@pytest.mark.parametrize(("name", "lines"), [("npu_mobile", 3), ("npu_server", 5)])
def test_a_full_speed_gemm_tile_leaves_most_banks_free(name: str, lines: int) -> None:
    """A 128^3 W4A8 tile asks for at most `lines` lines a cycle; all engines together for less than half the banks."""
    config = load_config(name)
    per_cycle = gemm_lines(config)
    assert per_cycle == lines
    assert per_cycle * config.te.engines * 2 < config.spm.num_banks


def gemm_lines(config: NpuConfig) -> int:
    program = Program()
    places = {"ifm_bank": 0, "ifm_offset": 0, "wgt_bank": 0, "wgt_offset": 0, "ofm_bank": 0, "ofm_offset": 0}
    program.te_gemm(m=128, n=128, k=128, qbits_weight=4, qbits_activation=8, **places)
    check_program(program, config)
    entry = program.entries[0]
    assert isinstance(entry, TeEntry)
    body = service_cycles(entry, config).body
    # A region of B bytes in C cycles covers ceil(B / C) bytes a cycle, in which at most so many lines begin.
    return sum(ceil_div(ceil_div(region.nbytes, body), config.spm.bank_width_bytes) for region in regions_of(entry, config))
