"""Every refusal of a machine with DRAM rows, its message pinned."""

# ruff: noqa: E501  (messages stand in one piece, so that they can be searched for)
from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.test_machine_refusals import refused_text

KEYS = (
    "bank_groups: 4, banks_per_group: 4, row_bytes: 1024, t_rcd: 14, t_rcd_wr: 12, t_cl: 14, t_cwl: 5, t_rp: 14, t_ras: 34, t_rtp: 5, t_wr: 16, "
    "t_ccd_s: 2, t_ccd_l: 4, t_rrd_s: 4, t_rrd_l: 4, t_faw: 15, t_wtr_s: 6, t_wtr_l: 8, t_refi: 0, t_rfc: 160"
)
WHOLE = f"allocation: row_buffer_v1\ndram: {{bus_width_bytes: 32, dram_burst_cycles: 2, row_buffer: {{{KEYS}}}}}"
LESS_WIDE = "bus_width_bytes: 32"

REFUSALS = [
    ("allocation: row_buffer_v1", 'm.yaml:1:13: allocation = "row_buffer_v1", but it needs dram.row_buffer: the banks of a channel and their times'),
    (f"dram: {{row_buffer: {{{KEYS}}}}}", "m.yaml:1:20: dram.row_buffer: it is allowed only with allocation row_buffer_v1, and that is shared_bw_v1"),
    ("schema: kernbench/system/1\nallocation: row_buffer_v1", 'm.yaml:2:13: allocation = "row_buffer_v1", but it needs cube.hbm.row_buffer: the banks of a channel and their times'),
    (f"schema: kernbench/system/1\ncube: {{hbm: {{row_buffer: {{{KEYS}}}}}}}", "m.yaml:2:26: cube.hbm.row_buffer: it is allowed only with allocation row_buffer_v1, and that is shared_bw_v1"),
    (f"schema: kernbench/system/1\nallocation: row_buffer_v1\ncube: {{pes: 1, hbm: {{interleave_bytes: 33, bus_width_bytes: 32, dram_burst_cycles: 2, row_buffer: {{{KEYS}}}}}}}",
     "m.yaml:3:40: cube.hbm.interleave_bytes = 33, but it must be a multiple of bus_width_bytes (32): a burst is contiguous"),
    (WHOLE.replace("t_rcd: 14, ", ""), "m.yaml:2:63: dram.row_buffer.t_rcd: it is required: it has no default"),
    (WHOLE.replace("t_ccd_s: 2", "t_ccd_s: 1"), "m.yaml:2:212: dram.row_buffer.t_ccd_s = 1, but it must be at least 2: dram_burst_cycles, for which a burst is on the data bus"),
    (WHOLE.replace("t_ccd_l: 4", "t_ccd_l: 1"), "m.yaml:2:224: dram.row_buffer.t_ccd_l = 1, but it must be at least 2: that of different groups (t_ccd_s)"),
    (WHOLE.replace("t_rrd_l: 4", "t_rrd_l: 3"), "m.yaml:2:248: dram.row_buffer.t_rrd_l = 3, but it must be at least 4: that of different groups (t_rrd_s)"),
    (WHOLE.replace("t_wtr_l: 8", "t_wtr_l: 5"), "m.yaml:2:283: dram.row_buffer.t_wtr_l = 5, but it must be at least 6: that of different groups (t_wtr_s)"),
    (WHOLE.replace("t_refi: 0", "t_refi: 208"), "m.yaml:2:294: dram.row_buffer.t_refi = 208, but it must be at least 209: a refresh ends before the next is due (closing rows, t_rp and t_rfc)"),
    (WHOLE.replace("t_rtp: 5", "t_rtp: 40").replace("t_refi: 0", "t_refi: 214"), "m.yaml:2:295: dram.row_buffer.t_refi = 214, but it must be at least 215: a refresh ends before the next is due (closing rows, t_rp and t_rfc)"),
    (WHOLE.replace("t_cwl: 5", "t_cwl: 40"), "m.yaml:2:148: dram.row_buffer.t_cl = 14, but it must be at least 37: a write behind a read waits for it (t_cwl - dram_burst_cycles - 1)"),
    (WHOLE.replace("row_bytes: 1024", "row_bytes: 1000"), "m.yaml:2:111: dram.row_buffer.row_bytes = 1000, but it must be a multiple of bus_width_bytes (32): a burst is contiguous"),
    (WHOLE.replace(LESS_WIDE, f"{LESS_WIDE}, channels: 2, interleave_bytes: 48"), "m.yaml:2:60: dram.interleave_bytes = 48, but it must be a multiple of bus_width_bytes (32): a burst is contiguous"),
    (WHOLE.replace(LESS_WIDE, f"{LESS_WIDE}, interleave_bytes: 48"), "m.yaml:2:47: dram.interleave_bytes = 48, but it must be a multiple of bus_width_bytes (32): a burst is contiguous"),
    (WHOLE.replace(LESS_WIDE, f"{LESS_WIDE}, peak_bw_bytes_per_cycle: 8"), "m.yaml:2:54: dram.peak_bw_bytes_per_cycle = 8, but under row_buffer_v1 the data bus is the peak: it must be at least bus_width_bytes / dram_burst_cycles (32/2)"),
    (WHOLE.replace(LESS_WIDE, f"{LESS_WIDE}, period: 2000000000"), "m.yaml:2:37: dram.period = 2000000000, but times dram_burst_cycles (2) it must be below 2^31"),
    (WHOLE.replace("t_rp: 14", "t_rp: 0"), "m.yaml:2:168: dram.row_buffer.t_rp = 0, but it must be at least 1"),
    (WHOLE.replace("bank_groups: 4", "bank_groups: 0"), "m.yaml:2:77: dram.row_buffer.bank_groups = 0, but it must be at least 1"),
]  # fmt: skip


WITHOUT_DEFAULT = [key.partition(":")[0] for key in KEYS.split(", ")]


@pytest.mark.parametrize("key", WITHOUT_DEFAULT)
def test_each_size_and_time_of_a_device_is_required(tmp_path: Path, key: str) -> None:
    kept = ", ".join(one for one in KEYS.split(", ") if one.partition(":")[0] != key)
    assert refused_text(tmp_path, WHOLE.replace(KEYS, kept)) == f"m.yaml:2:63: dram.row_buffer.{key}: it is required: it has no default"


@pytest.mark.parametrize(("text", "line"), REFUSALS)
def test_a_wrong_row_buffer_is_refused_with_its_line(tmp_path: Path, text: str, line: str) -> None:
    assert refused_text(tmp_path, text) == line
