"""Every refusal of programs on systems, its message pinned: file, place, entry, field, value, rule.

Programs are written one entry a line, so that entry `i` stands in line `i + 2` of the file.
"""

# ruff: noqa: E501  (messages stand in one piece, so that they can be searched for)
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernbench import Machine, load_config, load_program
from kernbench.common.errors import InputError

SYSTEM = """schema: kernbench/system/1
sip: {cols: 2}
cube:
  pes: 2
  hbm: {channels: 4, capacity_bytes: 8 KiB}
  sram: {bytes: 1 KiB}
pe:
  spm: {num_banks: 4, bank_width_bytes: 16, bank_size_bytes: 1 KiB}
"""
Entry = dict[str, Any]
TILE: Entry = {"tensor_role": "weight", "qbits": 8, "num_elements": 64, "spm_bank": 0, "spm_offset": 0}
LOAD: Entry = {"opcode": "DMA_LOAD_TILE", "node": "sip0.cube0.pe1", **TILE, "dram_addr": 0}
ROWS: Entry = {key: value for key, value in LOAD.items() if key != "num_elements"} | {"rows": 2, "row_elements": 8}
SEND: Entry = {"opcode": "DMA_SEND_TILE", "node": "sip0.cube0.pe0", "peer": "sip0.cube0.pe1", **TILE, "peer_bank": 0, "peer_offset": 0}
RECV: Entry = {**SEND, "opcode": "DMA_RECV_TILE"}
COPY: Entry = {"opcode": "HOST_COPY_TILE", "direction": "to_device", "qbits": 8, "num_elements": 64, "dram_addr": 0}
KV: Entry = {"opcode": "KV_STORE_TILE", "head_id": 0, "kv_kind": "k", "dram_base_addr": 0, "qbits_kv": 8, "spm_bank": 0, "spm_offset": 0,
      "t_start": 0, "t_len": 1}  # fmt: skip
LAUNCH: Entry = {"opcode": "LAUNCH"}
PES = "its PEs are sip0.cube0.pe0 to sip0.cube1.pe1"
SLICES = (
    "and they must be in one slice of an HBM stack or in one SRAM; stack K has 8192 bytes from 0 + K * 8192 on, in slices of 4096; "
    "SRAM K has 1024 bytes from 16384 + K * 1024 on; K is 0 to 1"
)
AT_A_LINE = "a tile between scratchpads begins at a line: the offset must be a multiple of 16 (pe.spm.bank_width_bytes)"
NO_NODE = "control entries are of the whole program, and no node runs them"
ONE_NPU = "npu.yaml is one NPU, and only a machine of kernbench/system/1"


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages name files as they were given: here by their bare names."""
    monkeypatch.chdir(tmp_path)
    Path("system.yaml").write_text(SYSTEM)
    Path("npu.yaml").write_text("te: {engines: 2}\n")


def refusal(entry: Entry, config: str = "system.yaml") -> str:
    """The message for a program of one entry, behind the entry's name."""
    Path("prog.json").write_text(f'{{"metadata": {{"version": "1.0"}}, "cmdq": [\n{json.dumps(entry)}\n]}}\n')
    with pytest.raises(InputError) as caught:
        Machine(load_config(config), load_program("prog.json"))
    assert caught.value.exit_code == 2
    return str(caught.value)


REFUSALS: list[tuple[Entry, str]] = [
    # nodes
    ({**LOAD, "node": "sip0.cube0.pe7"}, f'prog.json:2:37: cmdq[0] (id 0, DMA_LOAD_TILE): node = "sip0.cube0.pe7", but system.yaml has no PE of that name: {PES}'),
    ({**LOAD, "node": "sip3.cube0.pe0"}, f'prog.json:2:37: cmdq[0] (id 0, DMA_LOAD_TILE): node = "sip3.cube0.pe0", but system.yaml has no PE of that name: {PES}'),
    ({**LOAD, "node": "pe1"}, f'prog.json:2:37: cmdq[0] (id 0, DMA_LOAD_TILE): node = "pe1", but system.yaml has no PE of that name: {PES}'),
    ({**LOAD, "node": ""}, f'prog.json:2:37: cmdq[0] (id 0, DMA_LOAD_TILE): node = "", but system.yaml has no PE of that name: {PES}'),
    ({**LOAD, "node": 3}, "prog.json:2:37: cmdq[0] (id 0, DMA_LOAD_TILE): node = 3, but it must be text"),
    ({**LOAD, "node": "sip0.cube0.m_cpu"}, f'prog.json:2:37: cmdq[0] (id 0, DMA_LOAD_TILE): node = "sip0.cube0.m_cpu", but system.yaml has no PE of that name: {PES}'),
    ({**LOAD, "node": "sip0.cube0.pe1.pe_dma"}, f'prog.json:2:37: cmdq[0] (id 0, DMA_LOAD_TILE): node = "sip0.cube0.pe1.pe_dma", but system.yaml has no PE of that name: {PES}'),
    ({**COPY, "node": "sip0.cube0.pe0"}, 'prog.json:2:112: cmdq[0] (id 0, HOST_COPY_TILE): node = "sip0.cube0.pe0", but system.yaml has no pcie_ep of that name; did you mean sip0.io0.pcie_ep?'),
    ({**COPY, "node": "sip0.io1.pcie_ep"}, 'prog.json:2:112: cmdq[0] (id 0, HOST_COPY_TILE): node = "sip0.io1.pcie_ep", but system.yaml has no pcie_ep of that name; did you mean sip0.io0.pcie_ep?'),
    ({**LAUNCH, "node": "sip0.cube0.pe0"}, 'prog.json:2:30: cmdq[0] (id 0, LAUNCH): node = "sip0.cube0.pe0", but system.yaml has no m_cpu of that name; did you mean sip0.cube0.m_cpu?'),
    ({**LAUNCH, "node": "sip0.cube7.m_cpu"}, 'prog.json:2:30: cmdq[0] (id 0, LAUNCH): node = "sip0.cube7.m_cpu", but system.yaml has no m_cpu of that name; did you mean sip0.cube1.m_cpu?'),
    ({"opcode": "NOP", "node": "sip0.cube0.pe0"}, f'prog.json:2:27: cmdq[0] (id 0, NOP): node = "sip0.cube0.pe0", but {NO_NODE}'),
    ({"opcode": "BARRIER", "node": "sip0.cube0.pe0"}, f'prog.json:2:31: cmdq[0] (id 0, BARRIER): node = "sip0.cube0.pe0", but {NO_NODE}'),
    ({"opcode": "END", "node": "sip0.cube0.pe0"}, f'prog.json:2:27: cmdq[0] (id 0, END): node = "sip0.cube0.pe0", but {NO_NODE}'),
    ({**SEND, "dma_id": 4}, "prog.json:2:214: cmdq[0] (id 0, DMA_SEND_TILE): dma_id = 4, but a PE has 1 (pe.dma.engines in system.yaml)"),
    # peers
    ({**SEND, "peer": "sip0.cube0.pe0"}, 'prog.json:2:63: cmdq[0] (id 0, DMA_SEND_TILE): peer = "sip0.cube0.pe0", but it is the PE itself: a tile must move between two PEs'),
    ({**RECV, "peer": "sip0.cube0.pe0"}, 'prog.json:2:63: cmdq[0] (id 0, DMA_RECV_TILE): peer = "sip0.cube0.pe0", but it is the PE itself: a tile must move between two PEs'),
    ({**SEND, "peer": "sip0.cube0.pe9"}, f'prog.json:2:63: cmdq[0] (id 0, DMA_SEND_TILE): peer = "sip0.cube0.pe9", but system.yaml has no PE of that name: {PES}'),
    ({**SEND, "peer": "sip0.cube0.pe1.pe_tcm"}, f'prog.json:2:63: cmdq[0] (id 0, DMA_SEND_TILE): peer = "sip0.cube0.pe1.pe_tcm", but system.yaml has no PE of that name: {PES}'),
    # places in scratchpads
    ({**SEND, "spm_offset": 8}, f"prog.json:2:167: cmdq[0] (id 0, DMA_SEND_TILE): spm_offset = 8, but {AT_A_LINE}"),
    ({**SEND, "peer_offset": 3}, f"prog.json:2:201: cmdq[0] (id 0, DMA_SEND_TILE): peer_offset = 3, but {AT_A_LINE}"),
    ({**RECV, "spm_offset": 24}, f"prog.json:2:167: cmdq[0] (id 0, DMA_RECV_TILE): spm_offset = 24, but {AT_A_LINE}"),
    ({**RECV, "peer_offset": 15}, f"prog.json:2:201: cmdq[0] (id 0, DMA_RECV_TILE): peer_offset = 15, but {AT_A_LINE}"),
    # addresses
    ({**LOAD, "dram_addr": 4064}, f"prog.json:2:157: cmdq[0] (id 0, DMA_LOAD_TILE): dram_addr = 4064, but its bytes, aligned to 64, are [4032, 4160), {SLICES}"),
    ({**LOAD, "dram_addr": 8160}, f"prog.json:2:157: cmdq[0] (id 0, DMA_LOAD_TILE): dram_addr = 8160, but its bytes, aligned to 64, are [8128, 8256), {SLICES}"),
    ({**LOAD, "dram_addr": 16352}, f"prog.json:2:157: cmdq[0] (id 0, DMA_LOAD_TILE): dram_addr = 16352, but its bytes, aligned to 64, are [16320, 16448), {SLICES}"),
    ({**LOAD, "dram_addr": 17376}, f"prog.json:2:157: cmdq[0] (id 0, DMA_LOAD_TILE): dram_addr = 17376, but its bytes, aligned to 64, are [17344, 17472), {SLICES}"),
    ({**ROWS, "stride_bytes": 4096}, f"prog.json:2:137: cmdq[0] (id 0, DMA_LOAD_TILE): dram_addr = 0, but its bytes, aligned to 64, are [0, 4160), {SLICES}"),
    ({**COPY, "dram_addr": 4064}, f"prog.json:2:101: cmdq[0] (id 0, HOST_COPY_TILE): dram_addr = 4064, but its bytes, aligned to 64, are [4032, 4160), {SLICES}"),
    ({**KV, "dram_base_addr": 4032}, f"prog.json:2:77: cmdq[0] (id 0, KV_STORE_TILE): dram_base_addr = 4032, but its bytes, aligned to 64, are [4032, 4160), {SLICES}"),
    # fields
    ({**COPY, "direction": "up"}, 'prog.json:2:43: cmdq[0] (id 0, HOST_COPY_TILE): direction = "up", but it must be one of to_device, to_host'),
    ({**SEND, "num_elements": 0}, "prog.json:2:134: cmdq[0] (id 0, DMA_SEND_TILE): num_elements = 0, but it must be at least 1"),
]


@pytest.mark.parametrize(("entry", "message"), REFUSALS)
def test_programs_on_systems(entry: Entry, message: str) -> None:
    assert refusal(entry) == message


def test_both_ends_are_named() -> None:
    at = "cmdq[0] (id 0, DMA_SEND_TILE)"
    assert refusal({**SEND, "spm_offset": 8, "peer_offset": 3}).splitlines() == [
        f"prog.json:2:167: {at}: spm_offset = 8, but {AT_A_LINE}",
        f"prog.json:2:201: {at}: peer_offset = 3, but {AT_A_LINE}",
    ]


@pytest.mark.parametrize("entry", [SEND, RECV, COPY, LAUNCH])
def test_an_npu_runs_no_entry_of_systems(entry: Entry) -> None:
    opcode = entry["opcode"]
    assert refusal(entry, "npu.yaml") == f'prog.json:2:12: cmdq[0] (id 0, {opcode}): opcode = "{opcode}", but {ONE_NPU} runs it'


@pytest.mark.parametrize(("opcode", "column"), [("DMA_LOAD_TILE", 37), ("NOP", 27)])
def test_an_npu_has_no_nodes(opcode: str, column: int) -> None:
    entry = LOAD if opcode == "DMA_LOAD_TILE" else {"opcode": "NOP", "node": "sip0.cube0.pe1"}
    at = f"prog.json:2:{column}: cmdq[0] (id 0, {opcode})"
    assert refusal(entry, "npu.yaml") == f'{at}: node = "sip0.cube0.pe1", but {ONE_NPU} has nodes'


@pytest.mark.parametrize("entry", [COPY, LAUNCH])
def test_a_system_without_io_chiplets_has_no_way_to_the_host(entry: Entry) -> None:
    Path("system.yaml").write_text(SYSTEM.replace("cols: 2", "cols: 2, io: []"))
    assert refusal(entry) == ("system.yaml:2:20: sip.io = [], but there is no route from the host to sip0.cube0.pe0.pe_dma; "
                              "give the SIP an IO chiplet: [{name: io0, side: w}]")  # fmt: skip


NO_KEY = [
    ({**LOAD, "dram_addr": 2**40}, "dram.capacity_bytes"),
    ({**KV, "dram_base_addr": 2**40}, "dram.capacity_bytes"),
    ({**KV, "kv_layout_id": 1}, "in a PE"),
    ({**LOAD, "dma_id": 1}, "(dma.engines"),
    ({**SEND, "peer_bank": 4}, "(spm.num_banks"),
]


@pytest.mark.parametrize(("entry", "key"), NO_KEY)
def test_messages_name_keys_that_the_file_has(entry: Entry, key: str) -> None:
    assert key not in refusal(entry)
