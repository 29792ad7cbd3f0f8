"""Every refusal of a machine with DRAM controllers, its message pinned."""

# ruff: noqa: E501  (messages stand in one piece, so that they can be searched for)
from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.test_machine_refusals import refused_text

KEYS = (
    "{bank_groups: 4, banks_per_group: 4, row_bytes: 1024, burst_bytes: 32, t_bl: 2, t_rcd: 14, t_cl: 14, t_cwl: 5, t_rp: 14, t_ras: 34, t_rtp: 5, t_wr: 16, "
    "t_ccd_s: 2, t_ccd_l: 4, t_rrd_s: 4, t_rrd_l: 4, t_faw: 15, t_wtr_s: 6, t_wtr_l: 8, t_refi: 3900, t_rfc: 160}"
)
WHOLE = f"allocation: row_buffer_v2\ndram:\n  controller: {KEYS}"


def more(keys: str) -> str:
    return f"{WHOLE[:-1]}, {keys}}}"


REFUSALS = [
    ('allocation: row_buffer_v2', 'm.yaml:1:13: allocation = "row_buffer_v2", but it needs dram.device, or dram.controller: the controller of a channel, with its device'),
    (f'dram: {{controller: {KEYS}}}', 'm.yaml:1:20: dram.controller: it is allowed only with allocation row_buffer_v2, and that is shared_bw_v1'),
    ('schema: kernbench/system/1\nallocation: row_buffer_v2', 'm.yaml:2:13: allocation = "row_buffer_v2", but it needs cube.hbm.device, or cube.hbm.controller: the controller of a channel, with its device'),
    ('dram: {device: ddr4_3200}', 'm.yaml:1:16: dram.device = "ddr4_3200", but it is allowed only with allocation row_buffer_v2, and that is shared_bw_v1'),
    ('dram: {policy: random}', 'm.yaml:1:16: dram.policy = "random", but it is allowed only with allocation row_buffer_v2, and that is shared_bw_v1'),
    ('allocation: row_buffer_v2\ndram: {device: ddr4}', 'm.yaml:2:16: dram.device = "ddr4", but it must be one of ddr4_3200, ddr5_4800, gddr6_14000, gddr6x_21000, hbm2_2000, hbm2e_3200, hbm3_6400, hbm3e_9200, lpddr4x_4266, lpddr5_6400'),
    ('allocation: row_buffer_v2\ndram: {policy: best, device: ddr4_3200}', 'm.yaml:2:16: dram.policy = "best", but it must be one of fair, hashed, low_latency, per_bank_refresh, random, throughput'),
    ('allocation: row_buffer_v2\ndram: {device: ddr4_3200, policy: per_bank_refresh}', 'm.yaml:2:7: dram.controller.refresh = "per_bank", but it needs t_refi_pb and t_rfc_pb'),
    (WHOLE.replace('t_rcd: 14, ', ''), 'm.yaml:3:15: dram.controller: t_rcd is missing: it has no default; name a device (dram.device) or give it'),
    (WHOLE.replace('row_bytes: 1024', 'row_bytes: 1000'), 'm.yaml:3:63: dram.controller.row_bytes = 1000, but it must be a multiple of burst_bytes (32)'),
    (WHOLE.replace('dram:\n', 'dram:\n  channels: 2\n  interleave_bytes: 48\n'), 'm.yaml:4:21: dram.interleave_bytes = 48, but it must be a multiple of burst_bytes (32): a burst is contiguous'),
    (WHOLE.replace('t_refi: 3900', 't_refi: 208'), 'm.yaml:3:258: dram.controller.t_refi = 208, but it must be above 208: a refresh ends before the next is due (closing rows, t_rp and t_rfc)'),
    (WHOLE.replace('t_rp: 14', 't_rp: 0'), 'm.yaml:3:132: dram.controller.t_rp = 0, but it must be at least 1'),
    (more('read_buffer_bytes: 32'), 'm.yaml:3:295: dram.controller.read_buffer_bytes = 32, but it must hold two bursts at least (64)'),
    (more('read_buffer_bytes: 1 MiB'), 'm.yaml:3:295: dram.controller.read_buffer_bytes = 1048576, but it must hold 8192 bursts at most (262144)'),
    (more('write_queue: 4, write_high: 5'), 'm.yaml:3:304: dram.controller.write_high = 5, but it must be at most write_queue (4)'),
    (more('write_high: 4, write_low: 4'), 'm.yaml:3:302: dram.controller.write_low = 4, but it must be below write_high (4)'),
    (more('ranks: 1024'), 'm.yaml:3:49: dram.controller.banks_per_group = 4, but a channel has 16384 banks, and 4096 is the limit'),
    (more('clock: "1/1048577"'), 'm.yaml:3:283: dram.controller.clock = "1/1048577", but its terms must stay below 1048576: 1/1048577'),
    (more('phases: 2, t_aad: 8'), 'm.yaml:3:284: dram.controller.phases = 2, but it goes with neither t_aad nor t_wckpst: no device has half clocks and these'),
    (more('refresh: per_bank'), 'm.yaml:3:285: dram.controller.refresh = "per_bank", but it needs t_refi_pb and t_rfc_pb'),
    (more('map: row bank group'), 'm.yaml:3:281: dram.controller.map = "row bank group", but column is missing: the device has 32'),
    (more('map: row bank group column bank'), 'm.yaml:3:281: dram.controller.map = "row bank group column bank", but bank stands there twice'),
    (more('map: row bank group column3'), 'm.yaml:3:281: dram.controller.map = "row bank group column3", but column3: a row has 32 bursts, and columnN must divide them into N equal parts'),
    (more('map: row column4 bank group column2'), 'm.yaml:3:281: dram.controller.map = "row column4 bank group column2", but column2 stands beside column4, but a column is split only once: list column and one columnN'),
    (more('map: row bank group column8'), 'm.yaml:3:281: dram.controller.map = "row bank group column8", but column8 has no column beside it for the other 4 parts of a row'),
    (more('map: row bank line'), 'm.yaml:3:281: dram.controller.map = "row bank line", but line is not a field; the fields are row, pseudo, rank, stack, group, bank, column'),
    (more('hash: ["bank^line"]'), 'm.yaml:3:282: dram.controller.hash = ["bank^line"], but bank^line: line is not a field; the fields are row, pseudo, rank, stack, group, bank, column'),
    (more('bank_groups: 3, hash: ["group^row"]').replace('{bank_groups: 4, ', '{'), 'm.yaml:3:282: dram.controller.hash = ["group^row"], but group^row: group has 3 values, which is not a power of two'),
    (more('scheduler: best'), 'm.yaml:3:287: dram.controller.scheduler = "best", but it must be one of fr_fcfs_cap, fr_fcfs, fcfs, oldest_ready, oldest_ready_hits'),
    (more('postpone: 9'), 'm.yaml:3:286: dram.controller.postpone = 9, but it must be at most 8'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line"), REFUSALS)
def test_a_wrong_controller_is_refused_with_its_line(tmp_path: Path, text: str, line: str) -> None:
    assert refused_text(tmp_path, text) == line
