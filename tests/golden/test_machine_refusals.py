"""Every refusal of a machine, its message pinned: file, place, field, value, rule."""

# ruff: noqa: E501  (messages stand in one piece, so that they can be searched for)
from __future__ import annotations

from pathlib import Path

import pytest

from kernbench.common.errors import InputError
from kernbench.config import load_config


def refused_text(tmp_path: Path, text: str) -> str:
    file = tmp_path / "m.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        load_config(file)
    return str(caught.value).replace(str(file), "m.yaml")


MACHINE_REFUSALS = [
    ("dram: {channels: 0}", "m.yaml:1:18: dram.channels = 0, but it must be at least 1"),
    ("dram: {channels: 5000}", "m.yaml:1:18: dram.channels = 5000, but it must be at most 4096"),
    ("dram: {channels: true}", "m.yaml:1:18: dram.channels = true, but it must be an integer"),
    ("dram: {channels: 2.0}", "m.yaml:1:18: dram.channels = 2.0, but it must be an integer, without a decimal point; write 2"),
    ("dram: {channels: '2'}", 'm.yaml:1:18: dram.channels = "2", but it must be an integer; write 2'),
    ("dram: {channels: [2]}", "m.yaml:1:18: dram.channels = [2], but it must be an integer"),
    ("dram:\n  chanels: 2", "m.yaml:2:3: dram.chanels: there is no such key; did you mean dram.channels?"),
    ("drum: {}", "m.yaml:1:1: drum: there is no such key; did you mean dram?"),
    ("kv_layouts: [{t_max: 1, dim: 2}]", "m.yaml:1:25: kv_layouts[0].dim: there is no such key; did you mean kv_layouts[0].head_dim?"),
    ("8: 1", "m.yaml:1:1: [8]: a key must be text here"),
    ("dram: 3", "m.yaml:1:7: dram = 3, but it must be a mapping"),
    ("dram:", "m.yaml:1:6: dram = null, but it must be a mapping"),
    ("kv_layouts: {}", "m.yaml:1:13: kv_layouts = an empty mapping, but it must be a list"),
    ("schema: kernbench/npu/2", 'm.yaml:1:9: schema = "kernbench/npu/2", but it must be one of kernbench/npu/1, kernbench/system/1; did you mean kernbench/npu/1?'),
    ("allocation: fair", 'm.yaml:1:13: allocation = "fair", but it must be one of shared_bw_v1, max_min_v1, fifo_v1, row_buffer_v1, row_buffer_v2'),
    ("freq_ghz: 0", "m.yaml:1:11: freq_ghz = 0, but it must be above 0"),
    ("freq_ghz: -1.5", "m.yaml:1:11: freq_ghz = -1.5, but it must be above 0"),
    ("freq_ghz: fast", 'm.yaml:1:11: freq_ghz = "fast", but it must be a decimal number'),
    ("energy: {static_mw: -1}", "m.yaml:1:21: energy.static_mw = -1, but it must be at least 0"),
    ("energy: {mac_pj: {3: 1}}", "m.yaml:1:18: energy.mac_pj = a mapping of 1 key, but its keys must be among the qbits "
     "1, 2, 4, 8, 16, 32, 64, and 3 is not"),
    ("dram: {capacity_bytes: 1 KB}", 'm.yaml:1:24: dram.capacity_bytes = "1 KB", but the unit KB can mean 1000 or 1024 '
     "bytes: write 1KiB (1024) or 1kB (1000)"),
    ("dram: {capacity_bytes: 1.5}", 'm.yaml:1:24: dram.capacity_bytes = 1.5, but it must be a whole number of bytes or a size like '
     '"64 KiB"'),
    ("dram: {capacity_bytes: 0.3 B}", 'm.yaml:1:24: dram.capacity_bytes = "0.3 B", but it must be a whole number of bytes'),
    ("dram: {capacity_bytes: 9999999 TiB}", 'm.yaml:1:24: dram.capacity_bytes = "9999999 TiB", but it must be below 2^62'),
    ("dma: {alignment_bytes: 2 GiB}", 'm.yaml:1:24: dma.alignment_bytes = "2 GiB", but it must be below 2^31'),
    ("dma: {channels: {kv_load: {weight: 0}}}", "m.yaml:1:36: dma.channels.kv_load.weight = 0, but it must be at least 1"),
    ("dma: {kv_load_bonus: -1}", "m.yaml:1:22: dma.kv_load_bonus = -1, but it must be at least 0"),
    ("te: {period: 0}", "m.yaml:1:14: te.period = 0, but it must be at least 1"),
    ("te: {f_w: {8: 0}}", "m.yaml:1:15: te.f_w[8] = 0, but it must be above 0"),
    ("te: {f_w: 3}", "m.yaml:1:11: te.f_w = 3, but it must be a mapping"),
    ("te: {spm_traffic: 1}", "m.yaml:1:19: te.spm_traffic = 1, but it must be true or false"),
    ("ve: {sfu: {add: 1}}", "m.yaml:1:11: ve.sfu = a mapping of 1 key, but the time of add has no sfu term of its own"),
    ("ve: {sfu: {Exp: 1}}", "m.yaml:1:11: ve.sfu = a mapping of 1 key, but its keys must be names of vector ops in lower case, "
     "and \"Exp\" is not"),
    ("ve: {sfu: {exp: -1}}", "m.yaml:1:17: ve.sfu.exp = -1, but it must be at least 0"),
    ("noc: {dma_at: [[0]]}", "m.yaml:1:16: noc.dma_at[0] = [0], but it must be a pair [row, col]"),
    ("noc: {dma_at: [[0, -1]]}", "m.yaml:1:16: noc.dma_at[0] = [0, -1], but it must be at least 0"),
    ("noc: {dma_at: 3}", "m.yaml:1:15: noc.dma_at = 3, but it must be a list"),
    ("noc: {kind: ring}", 'm.yaml:1:13: noc.kind = "ring", but it must be one of mesh'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line"), MACHINE_REFUSALS)
def test_refusals_of_single_values(tmp_path: Path, text: str, line: str) -> None:
    assert refused_text(tmp_path, text) == line


RULE_REFUSALS = [
    ("spm: {ports: 1, read_ports: 1, write_ports: 1}", "m.yaml:1:14: spm.ports = 1, but it is not allowed together with read_ports and "
     "write_ports"),
    ("spm: {read_ports: 1}", "m.yaml:1:6: spm: write_ports is missing: give either ports, or both read_ports and write_ports"),
    ("spm: {write_ports: 1}", "m.yaml:1:6: spm: read_ports is missing: give either ports, or both read_ports and write_ports"),
    ("spm: {bank_size_bytes: 100}", "m.yaml:1:24: spm.bank_size_bytes = 100, but it must be a multiple of bank_width_bytes (16)"),
    ("spm: {num_banks: 65536, bank_width_bytes: 32768, bank_size_bytes: 32768}", "m.yaml:1:43: spm.bank_width_bytes = 32768, but "
     "times num_banks (65536) it must be below 2^31: one row of banks is buffered"),
    ("spm: {num_banks: 65536, bank_size_bytes: 70368744177664}", "m.yaml:1:42: spm.bank_size_bytes = 70368744177664, but "
     "times num_banks (65536) it must be below 2^62"),
    ("te: {timing: systolic, rows: 8}", "m.yaml:1:5: te.cols: it is required with timing systolic\n"
     "m.yaml:1:5: te.dataflow: it is required with timing systolic"),
    ("te: {rows: 8}", "m.yaml:1:12: te.rows = 8, but it is allowed only with timing systolic"),
    ("te: {macs_per_cycle: 2147483647, f_w: {4: 2}, f_a: {}}", "m.yaml:1:22: te.macs_per_cycle = 2147483647, but times f_w[4] and f_a[1] it "
     "makes the rate 4294967294, whose terms must be below 2^31"),
    ("ve: {lanes: 2147483647, f_a: {4: 2}}", "m.yaml:1:13: ve.lanes = 2147483647, but times ops_per_lane and f_a[4] it makes the "
     "rate 4294967294, whose terms must be below 2^31"),
    ("noc: {dma_at: []}", "m.yaml:1:15: noc.dma_at = [], but the number of places must equal dma.engines (1), and the list has 0; write for example [[0,0]]"),
    ("dram: {channels: 2}\nnoc: {dram_at: [[0, 0], [2, 0]]}", "m.yaml:2:25: noc.dram_at[1] = [2, 0], but it must lie in the mesh of "
     "2 rows and 4 columns, counted from 0"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line"), RULE_REFUSALS)
def test_refusals_between_fields(tmp_path: Path, text: str, line: str) -> None:
    assert refused_text(tmp_path, text) == line
