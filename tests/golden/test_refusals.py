"""Every refusal of docs/model/endings.md, its message pinned: file, place, entry, field, value, rule.

The programs are written one entry a line, so that entry `i` stands in line `i + 2` of the file.
"""

# ruff: noqa: E501  (messages stand in one piece, so that they can be searched for)
from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kernbench.cmdq import Program, check_program, load_program
from kernbench.common.errors import InputError
from kernbench.config import load_config

CASES = Path(__file__).resolve().parents[3] / "shared" / "data" / "model_cases.jsonl"
MACHINE = "te: {engines: 2}\nve: {engines: 1}\ndram: {capacity_bytes: 1 MiB}\nkv_layouts: [{t_max: 64, head_dim: 128}, {t_max: 8, head_dim: 3}]\n"
LOAD: dict[str, Any] = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "dram_addr": 0, "spm_bank": 0, "spm_offset": 0,
        "num_elements": 64}  # fmt: skip
ROWS: dict[str, Any] = {**{k: v for k, v in LOAD.items() if k != "num_elements"}, "rows": 2, "row_elements": 20, "stride_bytes": 20}
KV: dict[str, Any] = {"opcode": "KV_STORE_TILE", "head_id": 0, "kv_kind": "k", "dram_base_addr": 0, "qbits_kv": 4, "spm_bank": 0, "spm_offset": 0,
      "t_start": 0, "t_len": 1}  # fmt: skip
KV_LOAD: dict[str, Any] = {**{k: v for k, v in KV.items() if k not in ("t_start", "t_len")}, "opcode": "KV_LOAD_TILE",
           "kv_range": {"t_start": 0, "t_len": 1}}  # fmt: skip
GEMM: dict[str, Any] = {"opcode": "TE_GEMM_TILE", "m": 16, "n": 16, "k": 16, "qbits_weight": 4, "qbits_activation": 8, "ifm_bank": 0,
        "ifm_offset": 0, "wgt_bank": 0, "wgt_offset": 0, "ofm_bank": 0, "ofm_offset": 0}  # fmt: skip
ADD: dict[str, Any] = {"opcode": "VE_ADD_TILE", "length": 64, "qbits_activation": 8, "in_bank": 0, "in_offset": 0, "in2_bank": 0, "in2_offset": 0,
       "out_bank": 0, "out_offset": 0}  # fmt: skip
EXP: dict[str, Any] = {k: v for k, v in ADD.items() if not k.startswith("in2")} | {"opcode": "VE_EXP_TILE"}
NOP: dict[str, Any] = {"opcode": "NOP"}
LOAD_AT, TE_AT, VE_AT = ("cmdq[0] (id 0, DMA_LOAD_TILE)", "cmdq[0] (id 0, TE_GEMM_TILE)", "cmdq[0] (id 0, VE_ADD_TILE)")
KV_AT, KV_LOAD_AT = "cmdq[0] (id 0, KV_STORE_TILE)", "cmdq[0] (id 0, KV_LOAD_TILE)"
SPM = "of the scratchpad, which has 1048576 (spm in machine.yaml)"


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages name files as they were given: here by their bare names."""
    monkeypatch.chdir(tmp_path)
    Path("machine.yaml").write_text(MACHINE)


def refusal(*entries: dict[str, Any]) -> str:
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    Path("prog.json").write_text(f'{{"metadata": {{"version": "1.0"}}, "cmdq": [\n{lines}\n]}}\n')
    with pytest.raises(InputError) as caught:
        check_program(load_program("prog.json"), load_config("machine.yaml"))
    assert caught.value.exit_code == 2
    return str(caught.value)


FIELDS: list[tuple[dict[str, Any], str]] = [
    # no bytes
    ({**LOAD, "num_elements": 0}, f"prog.json:2:130: {LOAD_AT}: num_elements = 0, but it must be at least 1"),
    ({**ROWS, "rows": 0}, f"prog.json:2:122: {LOAD_AT}: rows = 0, but it must be at least 1"),
    ({**ROWS, "row_elements": 0}, f"prog.json:2:141: {LOAD_AT}: row_elements = 0, but it must be at least 1"),
    ({**KV, "t_len": 0}, f"prog.json:2:150: {KV_AT}: t_len = 0, but it must be at least 1"),
    ({**KV, "d_len": 0}, f"prog.json:2:162: {KV_AT}: d_len = 0, but it must be at least 1"),
    ({**KV_LOAD, "kv_range": {"t_start": 0, "t_len": 0}},
     f"prog.json:2:162: {KV_LOAD_AT}: kv_range.t_len = 0, but it must be at least 1"),
    # unknown opcode and fields, missing fields
    ({**LOAD, "opcode": "DMA_TELEPORT_TILE"}, "prog.json:2:12: cmdq[0] (id 0, DMA_TELEPORT_TILE): opcode = \"DMA_TELEPORT_TILE\", but "
     "there is no such opcode; did you mean DMA_STORE_TILE?"),
    ({"opcode": 7}, "prog.json:2:12: cmdq[0] (id 0): opcode = 7, but there is no such opcode; opcodes are DMA_LOAD_TILE, "
     "DMA_STORE_TILE, DMA_PREFETCH_TILE, KV_LOAD_TILE, KV_STORE_TILE, TE_GEMM_TILE, TE_MATMUL_TILE, TE_QKT_TILE, TE_AV_TILE, "
     "VE_LAYERNORM_TILE, VE_RMSNORM_TILE, VE_SOFTMAX_TILE, VE_GELU_TILE, VE_SILU_TILE, VE_SIGMOID_TILE, VE_TANH_TILE, VE_EXP_TILE, "
     "VE_ADD_TILE, VE_MUL_TILE, VE_COPY_TILE, VE_SUM_TILE, VE_MAX_TILE, VE_MIN_TILE, BARRIER, NOP, END, "
     "DMA_SEND_TILE, DMA_RECV_TILE, HOST_COPY_TILE, LAUNCH"),
    ({"id": 3}, "prog.json:2:1: cmdq[0] (id 3): opcode: this field is missing"),
    ({**NOP, "dma_id": 0}, "prog.json:2:29: cmdq[0] (id 0, NOP): dma_id: NOP has no such field; did you mean head_id?"),
    ({**EXP, "in2_bank": 0}, "prog.json:2:138: cmdq[0] (id 0, VE_EXP_TILE): in2_bank: VE_EXP_TILE has no such field; did you mean "
     "in_bank?"),
    ({**KV_LOAD, "kv_range": {"t_start": 0, "t_len": 1, "t_end": 5}}, f"prog.json:2:174: {KV_LOAD_AT}: kv_range.t_end: kv_range "
     "has no such field; did you mean t_len?"),
    ({**KV_LOAD, "kv_range": {"t_start": 0}}, f"prog.json:2:138: {KV_LOAD_AT}: kv_range.t_len: this field is missing"),
    ({**KV_LOAD, "kv_range": [0, 1]}, f"prog.json:2:138: {KV_LOAD_AT}: kv_range = [0, 1], but it must be a mapping"),
    ({k: v for k, v in LOAD.items() if k != "num_elements"}, f"prog.json:2:1: {LOAD_AT}: num_elements: this field is missing; give either "
     "num_elements, or all of rows, row_elements and stride_bytes"),
    ({k: v for k, v in ROWS.items() if k != "stride_bytes"}, f"prog.json:2:1: {LOAD_AT}: stride_bytes: this field is missing; give either "
     "num_elements, or all of rows, row_elements and stride_bytes"),
    ({**LOAD, "rows": 2}, f"prog.json:2:142: {LOAD_AT}: rows = 2, but it is not allowed together with num_elements; give either num_elements, "
     "or all of rows, row_elements and stride_bytes"),
    ({k: v for k, v in ADD.items() if k != "in2_bank"}, f"prog.json:2:1: {VE_AT}: in2_bank: this field is missing"),
    # qbits
    ({**LOAD, "qbits": 3}, f"prog.json:2:63: {LOAD_AT}: qbits = 3, but it must be one of 1, 2, 4, 8, 16, 32, 64"),
    ({**LOAD, "qbits": 8.0}, f"prog.json:2:63: {LOAD_AT}: qbits = 8.0, but it must be one of 1, 2, 4, 8, 16, 32, 64; write 8"),
    ({**KV, "qbits_kv": 0}, f"prog.json:2:92: {KV_AT}: qbits_kv = 0, but it must be one of 1, 2, 3, 4, 5, 6, 8, 16, 32, 64"),
    ({**GEMM, "qbits_weight": True}, f"prog.json:2:71: {TE_AT}: qbits_weight = true, but it must be one of 1, 2, 4, 8, 16, 32, 64"),
    ({**ADD, "qbits_activation": "8"}, f'prog.json:2:61: {VE_AT}: qbits_activation = "8", but it must be one of 1, 2, 4, 8, 16, 32, 64; write 8'),
    ({**LOAD, "tensor_role": "bias"}, f'prog.json:2:44: {LOAD_AT}: tensor_role = "bias", but it must be one of activation, weight, kv, '
     "embedding"),
    ({**KV, "kv_kind": "K"}, f'prog.json:2:54: {KV_AT}: kv_kind = "K", but it must be one of k, v; did you mean k?'),
    # addresses and ranges
    ({**LOAD, "dram_addr": -64}, f"prog.json:2:79: {LOAD_AT}: dram_addr = -64, but it must be at least 0"),
    ({**LOAD, "dram_addr": 2**63}, f"prog.json:2:79: {LOAD_AT}: dram_addr = 9223372036854775808, but it must be below 2^63"),
    ({**LOAD, "dram_addr": 2**20 - 63}, f"prog.json:2:79: {LOAD_AT}: dram_addr = 1048513, but the transfer's bytes, aligned to 64, are "
     "[1048512, 1048640), and the DRAM has 1048576 (dram.capacity_bytes in machine.yaml)"),
    ({**ROWS, "dram_addr": 1000, "stride_bytes": 2**20 - 1000}, f"prog.json:2:79: {LOAD_AT}: dram_addr = 1000, but the transfer's bytes, "
     "aligned to 64, are [960, 1048640), and the DRAM has 1048576 (dram.capacity_bytes in machine.yaml)"),
    ({**KV, "head_id": 256}, f"prog.json:2:79: {KV_AT}: dram_base_addr = 0, but the transfer's bytes, aligned to 64, are "
     "[1048576, 1048640), and the DRAM has 1048576 (dram.capacity_bytes in machine.yaml)"),
    ({**LOAD, "spm_offset": -1}, f"prog.json:2:111: {LOAD_AT}: spm_offset = -1, but it must be at least 0"),
    ({**LOAD, "spm_bank": 16}, f"prog.json:2:94: {LOAD_AT}: spm_bank = 16, but the scratchpad has 16 banks (spm.num_banks in "
     "machine.yaml)"),
    ({**LOAD, "spm_offset": 2**16}, f"prog.json:2:111: {LOAD_AT}: spm_offset = 65536, but its 64 bytes would be at [1048576, 1048640) {SPM}"),
    ({**LOAD, "spm_bank": 13, "spm_offset": 2**16 - 16}, f"prog.json:2:112: {LOAD_AT}: spm_offset = 65520, but its 64 bytes would be at "
     f"[1048528, 1048592) {SPM}"),
    ({**GEMM, "ifm_bank": 99}, f"prog.json:2:109: {TE_AT}: ifm_bank = 99, but the scratchpad has 16 banks (spm.num_banks in machine.yaml)"),
    ({**GEMM, "wgt_offset": 2**20}, f"prog.json:2:158: {TE_AT}: wgt_offset = 1048576, but its 128 bytes would be at "
     f"[16777216, 16777344) {SPM}"),
    ({**GEMM, "ofm_offset": 65521}, f"prog.json:2:190: {TE_AT}: ofm_offset = 65521, but its 256 bytes would be at [1048321, 1048577) {SPM}"),
    ({**ADD, "in2_offset": 65536}, f"prog.json:2:123: {VE_AT}: in2_offset = 65536, but its 64 bytes would be at [1048576, 1048640) {SPM}"),
    ({**ADD, "out_bank": 16}, f"prog.json:2:138: {VE_AT}: out_bank = 16, but the scratchpad has 16 banks (spm.num_banks in machine.yaml)"),
    # sizes of jobs
    ({**GEMM, "m": 0}, f"prog.json:2:33: {TE_AT}: m = 0, but it must be at least 1"),
    ({**GEMM, "n": -1}, f"prog.json:2:42: {TE_AT}: n = -1, but it must be at least 1"),
    ({**GEMM, "k": 1.5}, f"prog.json:2:51: {TE_AT}: k = 1.5, but it must be an integer, without a decimal point"),
    ({**GEMM, "k": 2.0}, f"prog.json:2:51: {TE_AT}: k = 2.0, but it must be an integer, without a decimal point; write 2"),
    ({**ADD, "length": 0}, f"prog.json:2:37: {VE_AT}: length = 0, but it must be at least 1"),
    ({**ADD, "batch": 0}, f"prog.json:2:167: {VE_AT}: batch = 0, but it must be at least 1"),
    # engines
    ({**LOAD, "dma_id": 1}, f"prog.json:2:144: {LOAD_AT}: dma_id = 1, but the machine has 1 DMA engine (dma.engines in machine.yaml)"),
    ({**GEMM, "te_id": 2}, f"prog.json:2:202: {TE_AT}: te_id = 2, but the machine has 2 tensor engines (te.engines in machine.yaml)"),
    ({**ADD, "ve_id": 1}, f"prog.json:2:167: {VE_AT}: ve_id = 1, but the machine has 1 vector engine (ve.engines in machine.yaml)"),
    # strides
    ({**ROWS, "stride_bytes": 19}, f"prog.json:2:161: {LOAD_AT}: stride_bytes = 19, but a row has 20 bytes, and the stride must not be "
     "below that"),
    # KV
    ({**KV, "kv_layout_id": 2}, f"prog.json:2:169: {KV_AT}: kv_layout_id = 2, but the machine has 2 (kv_layouts in machine.yaml)"),
    ({**KV, "t_start": 60, "t_len": 5}, f"prog.json:2:151: {KV_AT}: t_len = 5, but t_start + t_len = 65 must not be above t_max = 64 of "
     "the KV layout"),
    ({**KV_LOAD, "kv_range": {"t_start": 0, "t_len": 65}}, f"prog.json:2:162: {KV_LOAD_AT}: kv_range.t_len = 65, but t_start + t_len = 65 "
     "must not be above t_max = 64 of the KV layout"),
    ({**KV, "d_start": 64, "d_len": 65}, f"prog.json:2:177: {KV_AT}: d_len = 65, but d_start + d_len = 129 must not be above "
     "head_dim = 128 of the KV layout"),
    ({**KV, "d_start": 128}, f"prog.json:2:164: {KV_AT}: d_start = 128, but it must be below head_dim = 128 of the KV layout"),
    ({**KV, "d_start": 3, "d_len": 4}, f"prog.json:2:164: {KV_AT}: d_start = 3, but row 0 of the transfer would start at bit 4 of a byte, "
     "with 4 bits per element; rows must start at a whole byte"),
    ({**KV, "kv_layout_id": 1, "t_len": 2, "d_len": 2}, f"prog.json:2:1: {KV_AT}: d_start = 0, but row 1 of the transfer would start at "
     "bit 4 of a byte, with 4 bits per element; rows must start at a whole byte"),
    ({**KV, "kv_layout_id": 1, "t_start": 1}, f"prog.json:2:1: {KV_AT}: d_start = 0, but row 0 of the transfer would start at bit 4 of a "
     "byte, with 4 bits per element; rows must start at a whole byte"),
    # common fields
    ({**NOP, "id": -1}, "prog.json:2:25: cmdq[0] (id 0, NOP): id = -1, but it must be at least 0"),
    ({**NOP, "id": True}, "prog.json:2:25: cmdq[0] (id 0, NOP): id = true, but it must be an integer"),
    ({**NOP, "layer_id": -1}, "prog.json:2:31: cmdq[0] (id 0, NOP): layer_id = -1, but it must be at least 0"),
    ({**NOP, "phase": 1}, "prog.json:2:28: cmdq[0] (id 0, NOP): phase = 1, but it must be text"),
    ({**NOP, "source": "CPU"}, 'prog.json:2:29: cmdq[0] (id 0, NOP): source = "CPU", but it must be one of ISA, MMIO'),
    ({**NOP, "marker": []}, "prog.json:2:29: cmdq[0] (id 0, NOP): marker = [], but it must be text or an integer from 0 to 2^63 - 1"),
    ({**NOP, "deps_before": 0}, "prog.json:2:34: cmdq[0] (id 0, NOP): deps_before = 0, but it must be a list of ids; write [0]"),
    ({**NOP, "deps_after": ["a"]}, 'prog.json:2:33: cmdq[0] (id 0, NOP): deps_after = ["a"], but of each id in it: it must be an integer'),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "line"), FIELDS)
def test_a_wrong_field_is_refused_at_its_column(entry: dict[str, Any], line: str) -> None:
    assert refusal(entry) == line
    named = re.match(r"prog\.json:2:(\d+): cmdq\S+ \(.*?\): ([\w.]+) = ", line)
    value: Any = entry
    for step in named[2].split(".") if named else ():
        value = value.get(step)
    if named is not None and value is not None:  # a default that is refused stands nowhere
        column = int(named[1])
        assert Path("prog.json").read_text().splitlines()[1][column - 1 :].startswith(json.dumps(value))


STRUCTURE: list[tuple[list[dict[str, Any]], str]] = [
    ([NOP, {**NOP, "deps_before": [0, 99]}],
     "prog.json:3:38: cmdq[1] (id 1, NOP): deps_before[1] = 99, but the program has no entry with this id"),
    ([NOP, {**NOP, "deps_after": [99]}], "prog.json:3:34: cmdq[1] (id 1, NOP): deps_after[0] = 99, but the program has no entry with this id"),
    ([{"opcode": "BARRIER", "wait_for": [99]}],
     "prog.json:2:36: cmdq[0] (id 0, BARRIER): wait_for[0] = 99, but the program has no entry with this id"),
    ([{**NOP, "id": 5, "deps_before": [5]}], "prog.json:2:44: cmdq[0] (id 5, NOP): deps_before[0] = 5, but an entry cannot wait for itself"),
    ([{**NOP, "deps_after": [0]}], "prog.json:2:34: cmdq[0] (id 0, NOP): deps_after[0] = 0, but an entry cannot wait for itself"),
    ([{"opcode": "BARRIER", "wait_for": [0]}],
     "prog.json:2:36: cmdq[0] (id 0, BARRIER): wait_for[0] = 0, but an entry cannot wait for itself"),
    ([{**NOP, "deps_before": [4]}, NOP, NOP, NOP, {**NOP, "deps_before": [0]}],
     "prog.json:2:1: cmdq[0] (id 0, NOP): it waits for itself in a circle: 0 -> 4 -> 0 (each waits for the next)"),
    ([NOP, {"opcode": "BARRIER", "id": 30, "wait_for": [20], "deps_after": [20]}, {**NOP, "id": 20}],
     "prog.json:3:1: cmdq[1] (id 30, BARRIER): it waits for itself in a circle: 30 -> 20 -> 30 (each waits for the next)"),
    ([{**NOP, "deps_after": [1]}, {**NOP, "deps_after": [2]}, {**NOP, "deps_after": [0]}],
     "prog.json:2:1: cmdq[0] (id 0, NOP): it waits for itself in a circle: 0 -> 2 -> 1 -> 0 (each waits for the next)"),
    ([{**NOP, "deps_before": [1]}, {**NOP, "deps_before": [0]}, {**NOP, "deps_before": [3]}, {**NOP, "deps_before": [2]}],
     "prog.json:2:1: cmdq[0] (id 0, NOP): it waits for itself in a circle: 0 -> 1 -> 0 (each waits for the next)\n"
     "prog.json:4:1: cmdq[2] (id 2, NOP): it waits for itself in a circle: 2 -> 3 -> 2 (each waits for the next)"),
    ([NOP, {**NOP, "id": 0}], "prog.json:3:25: cmdq[1] (id 0, NOP): id = 0, but cmdq[0] has this id too: ids must differ"),
    ([{**NOP, "id": 1}, NOP], "prog.json:3:1: cmdq[1] (id 1, NOP): id = 1, but cmdq[0] has this id too: ids must differ"),
    ([{"opcode": "END"}, NOP, NOP], "prog.json:3:1: cmdq[1] (id 1, NOP): it is after END, cmdq[0]: no entry is allowed after END"),
    ([{"opcode": "END"}, {"opcode": "END"}],
     "prog.json:3:1: cmdq[1] (id 1, END): it is after END, cmdq[0]: no entry is allowed after END"),
    ([{**NOP, "x": 1}, {**NOP, "deps_before": [0, 7]}],
     "prog.json:2:24: cmdq[0] (id 0, NOP): x: NOP has no such field; its fields are id, deps_before, deps_after, node, layer_id, phase, "
     "head_id, token_idx, seq_len, block_id, tile_id, precision, model_name, tenant_id, core_id, npu_id, thread_id, source, desc_addr, "
     "token, irq_line, marker, debug\n"
     "prog.json:3:38: cmdq[1] (id 1, NOP): deps_before[1] = 7, but the program has no entry with this id"),
]  # fmt: skip


@pytest.mark.parametrize(("entries", "lines"), STRUCTURE)
def test_wrong_ids_and_dependencies_are_refused(entries: list[dict[str, Any]], lines: str) -> None:
    assert refusal(*entries) == lines


TOP: list[tuple[Any, str]] = [
    ({}, 'p: metadata: this field is missing; write {"version": "1.0", "name": ...}\np: cmdq: this field is missing'),
    ({"metadata": {"version": "1.0"}, "cmdq": {}}, "p: cmdq = an empty mapping, but it must be a list of entries"),
    ({"metadata": [], "cmdq": []}, 'p: metadata = [], but it must be a mapping; write {"version": "1.0", "name": ...}'),
    ({"metadata": {}, "cmdq": []}, 'p: metadata.version: this field is missing; write "version": "1.0"'),
    ({"metadata": {"version": 1.0}, "cmdq": []}, 'p: metadata.version = 1, but it must be "1.0", as text'),
    ({"metadata": {"version": "1.0", "name": 3}, "cmdq": []}, "p: metadata.name = 3, but it must be text"),
    ({"metadata": {"version": "1.0", "model": "x"}, "cmdq": []}, "p: metadata.model: there is no such key; the keys at this level are version, "
     "name"),
    ({"metadata": {"version": "1.0"}, "cmdq": [], "x": 1}, "p: x: there is no such key; the keys at this level are metadata, cmdq"),
    ({"metadata": {"version": "1.0"}, "cmdq": [3]}, "p: cmdq[0] (id 0): an entry must be a mapping"),
    ([], "p: the file must contain a mapping of keys to values"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "lines"), TOP)
def test_the_top_of_a_program(program: Any, lines: str) -> None:
    Path("p.json").write_text(json.dumps(program))
    with pytest.raises(InputError) as caught:
        load_program("p.json")
    without_places = [line.split(": ", 1)[1] for line in str(caught.value).splitlines()]
    assert all(line.startswith("p.json:1:") for line in str(caught.value).splitlines())
    assert ["p: " + line for line in without_places] == lines.splitlines()


def test_all_problems_are_listed_and_the_list_has_an_end() -> None:
    lines = refusal(*[{**GEMM, "te_id": 5}] * 30).splitlines()
    assert len(lines) == 21
    assert lines[0].startswith("prog.json:2:202: cmdq[0] (id 0, TE_GEMM_TILE): te_id = 5, but ")
    assert lines[19].startswith("prog.json:21:202: cmdq[19] ")
    assert lines[20] == "and 10 more"


def test_several_problems_of_one_entry() -> None:
    assert [line.split(": ")[2].split(" = ")[0] for line in refusal({**GEMM, "te_id": 5, "ifm_bank": 16, "ofm_offset": 10**9}).splitlines()] == [
        "te_id", "ifm_bank", "ofm_offset",
    ]  # fmt: skip


def test_a_long_circle_is_found_and_printed_short() -> None:
    entries = [{**NOP, "deps_before": [(i + 1) % 50_000]} for i in range(50_000)]
    with pytest.raises(InputError) as caught:
        load_program({"metadata": {"version": "1.0"}, "cmdq": entries})
    assert str(caught.value) == (
        "program: cmdq[0] (id 0, NOP): it waits for itself in a circle: 0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> 8 -> 9 -> 10 -> 11 -> "
        "... (49976 more) ... -> 49988 -> 49989 -> 49990 -> 49991 -> 49992 -> 49993 -> 49994 -> 49995 -> 49996 -> 49997 -> 49998 -> "
        "49999 -> 0 (each waits for the next)"
    )


def test_no_circle_where_there_is_none() -> None:
    """What waits through a barrier or END is no circle of dependencies: it is a deadlock of the run."""
    program = Program()
    program.barrier(wait_for=[1])
    program.nop()
    program.end()
    check_program(program, load_config({}))


def test_a_job_too_long_to_count() -> None:
    machine = load_config({"te": {"period": 2**31 - 1, "macs_per_cycle": "1/1000000"}, "spm": {"bank_size_bytes": 2**40}})
    program = Program()
    program.te_gemm(**{k: v for k, v in GEMM.items() if k != "opcode"} | {"m": 2**20, "n": 2**10})
    with pytest.raises(InputError) as caught:
        check_program(program, machine)
    assert str(caught.value) == (
        "program: cmdq[0] (id 0, TE_GEMM_TILE): m = 1048576, but the job would take 24595658753492849184298313 cycles, and a run has "
        "fewer than 2^62"
    )


def test_the_scratchpad_is_checked_without_traffic_too() -> None:
    machine = load_config({"te": {"spm_traffic": False}})
    program = Program()
    program.te_gemm(**{k: v for k, v in GEMM.items() if k != "opcode"} | {"ifm_offset": 2**16})
    with pytest.raises(InputError, match="ifm_offset = 65536"):
        check_program(program, machine)


def test_the_edges_are_allowed() -> None:
    """One less than each refusal: the last byte of DRAM and scratchpad, the last token and element, a stride of a row."""
    program = Program()
    program.append(**{**LOAD, "dram_addr": 2**20 - 64})
    program.append(**{**LOAD, "spm_bank": 12, "spm_offset": 2**16 - 16})
    program.append(**ROWS)
    program.append(**{**KV, "t_start": 63, "t_len": 1})
    program.append(**{**KV, "d_start": 126, "d_len": 2})
    program.append(**{**KV, "kv_layout_id": 1, "t_start": 2, "t_len": 1, "d_start": 0, "d_len": 2})
    program.append(**{**KV, "head_id": 255})
    program.append(**{**GEMM, "te_id": 1, "ofm_offset": 65520})
    check_program(program, load_config("machine.yaml"))


def cases() -> list[Any]:
    if not CASES.exists():
        return [pytest.param(None, marks=pytest.mark.skip(reason="../shared/data/model_cases.jsonl is not there"))]
    return [pytest.param(case, id=case["name"]) for case in map(json.loads, CASES.read_text().splitlines())]


@pytest.mark.parametrize("case", cases())
def test_model_cases_are_refused_or_read(case: dict[str, Any]) -> None:
    """The 18 cases that must be refused are, and the other 57 are not."""
    problems = []
    try:
        check_program(load_program(case["program"]), load_config(case["machine"]))
    except InputError as error:
        problems = error.problems
    assert (len(problems) == 1) == (case["expected"]["status"] == "refused"), problems
