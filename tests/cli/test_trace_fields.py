"""Every field and every choice of the trace's schema is written by some run, or there is a reason."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from kernbench.trace.schema import COMMON_FIELDS, EVENTS
from tests.cli.conftest import Kbsim

#: Of what nothing is written, and why.
NEVER = {
    **{f"TOKEN_COMPLETE.status={status}": "a command that does not end well completes no token"
       for status in ("ERROR", "TIMEOUT", "DEADLOCK", "CANCELLED")},
    "ERROR.code=COMPONENT": "of a plug-in that fails: tests/contract/test_mistakes.py",
    "TRACE_END.status=interrupted": "of a run that Ctrl-C ends: tests/cli/test_cli_tracing.py",
}  # fmt: skip
META = {
    "source": "MMIO", "token": 7, "desc_addr": 4096, "layer_id": 3, "block_id": 1, "phase": "decode", "head_id": 2,
    "token_idx": 5, "seq_len": 6, "model_name": "toy", "precision": "W4A8", "tile_id": 4, "irq_line": 1, "marker": "m",
    "core_id": 1, "npu_id": 1, "tenant_id": 2, "thread_id": 1,
}  # fmt: skip
LOAD = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "num_elements": 640, "spm_bank": 0, "spm_offset": 0}
GEMM = {"opcode": "TE_GEMM_TILE", "m": 16, "n": 64, "k": 32, "qbits_weight": 8, "qbits_activation": 8}
GEMM |= {f"{name}_{part}": 0 for name in ("ifm", "wgt", "ofm") for part in ("bank", "offset")}
NORM = {"opcode": "VE_LAYERNORM_TILE", "length": 640, "qbits_activation": 8}
NORM |= {f"{name}_{part}": 0 for name in ("in", "out") for part in ("bank", "offset")}
KV = {"opcode": "KV_LOAD_TILE", "head_id": 0, "kv_kind": "k", "dram_base_addr": 0, "kv_range": {"t_start": 0, "t_len": 4}}
KV |= {"qbits_kv": 8, "spm_bank": 0, "spm_offset": 0}
NPU = {
    "schema": "kernbench/npu/1", "allocation": "fifo_v1", "noc": {}, "dram": {"t_setup_cycles": 2},
    "dma": {"queue_depth_per_master": 2, "max_concurrent_transfers": 8,
            "channels": {"act_weight": {"max_concurrent": 8}, "kv_load": {"priority": 1}}},
    "spm": {"num_banks": 2, "bank_size_bytes": 8192, "check_overlap": "warn", "backpressure_cycles": 1},
}  # fmt: skip
ENTRIES: list[dict[str, Any]] = [
    *({**LOAD, **META, "dram_addr": 64 * k} for k in range(4)),
    {**GEMM, **META, "source": "ISA"},
    {**NORM, **META},
    {**LOAD, **META, "opcode": "DMA_STORE_TILE", "dram_addr": 4096, "deps_before": [0]},
    KV,
    {"opcode": "NOP", "marker": 1},
]
#: Longer than eight windows of 16 cycles: the channel is saturated; then an engine that works little, and rests.
SLOW = [{**LOAD, "num_elements": 6400, "dram_addr": 0}, {**NORM, "length": 64, "deps_before": [0]}, {**NORM, "length": 64}]
#: Stores to lines of a cache of one line, which each write the one before back to DRAM.
CACHED = {"schema": "kernbench/npu/1", "llc": {"capacity_bytes": 64, "line_bytes": 64, "ways": 1, "bw_bytes_per_cycle": 64}}
STORES = [{**LOAD, "opcode": "DMA_STORE_TILE", "num_elements": 64, "dram_addr": 64 * k} for k in range(4)]
STORES += [{**NORM, "deps_before": [3]}]  # the run goes on until the last line is written
#: Packets of several loads, which wait for channels and credits of routers.
FLITS = {"schema": "kernbench/npu/1", "noc": {"model": "flit", "flit": {"channels": 1, "depth": 1, "credit_cycles": 9}}}
FLITS |= {"dma": {"max_concurrent_transfers": 8, "channels": {"act_weight": {"max_concurrent": 8}}}}
LOADS = [{**LOAD, "dram_addr": 640 * k} for k in range(8)]
PES = ("sip0.cube0.pe0", "sip0.cube0.pe1")
SYSTEM = {
    "schema": "kernbench/system/1",
    "cube": {"pes": 2, "hbm": {"channels": 4, "capacity_bytes": "8 KiB"}, "sram": {"bytes": "1 KiB"}},
    "pe": {"spm": {"num_banks": 4, "bank_width_bytes": 16, "bank_size_bytes": "1 KiB"}},
}
SENDS = [
    {**LOAD, "opcode": "DMA_SEND_TILE", "node": PES[0], "peer": PES[1], "peer_bank": 0, "peer_offset": 0},
    {**LOAD, "opcode": "DMA_LOAD_TILE", "node": PES[1], "dram_addr": 0},
    {**LOAD, "opcode": "DMA_STORE_TILE", "node": PES[1], "dram_addr": 1024},
]


def written(lines: str) -> set[str]:
    """`EVENT.field` and `EVENT.field=choice` of all lines."""
    choices: dict[str, set[str]] = defaultdict(set)
    for event in EVENTS:
        choices[event.name] = {field.name for field in event.fields if field.choices}
    found = set()
    for line in lines.splitlines():
        record = json.loads(line)
        name = record.pop("event_type")
        found |= {f"{name}.{field}" for field in record} | {f"common.{field}" for field in record}
        found |= {f"{name}.{field}={record[field]}" for field in choices[name] & set(record)}
    return found


def promised() -> set[str]:
    """The same, as the schema has them."""
    found = {f"common.{field.name}" for field in COMMON_FIELDS}
    for event in EVENTS:
        found |= {f"{event.name}.{field.name}" for field in event.fields}
        found |= {f"{event.name}.{field.name}={choice}" for field in event.fields for choice in field.choices}
    return found


def traced(kbsim: Kbsim, entries: list[dict[str, Any]], machine: dict[str, Any], *more: str, code: int = 0) -> set[str]:
    """What the trace of a run says."""
    Path("p.json").write_text(json.dumps({"metadata": {"version": "1.0"}, "cmdq": entries}), encoding="utf-8")
    Path("m.json").write_text(json.dumps(machine), encoding="utf-8")
    level = () if "--trace-level" in more else ("--trace-level", "full")
    window = () if "--trace-window" in more else ("--trace-window", "64")
    said = kbsim("run", "p.json", "--config", "m.json", "--trace", "t.jsonl", "-q", *level, *window, *more)
    assert said.code == code, said.err
    assert kbsim("trace", "validate", "t.jsonl").code == 0
    return written(Path("t.jsonl").read_text(encoding="utf-8"))


def test_every_field_of_the_schema_is_written(kbsim: Kbsim) -> None:
    found: set[str] = set()
    found |= traced(kbsim, STORES, CACHED, "--trace-level", "full")
    for level in ("summary", "full", "access"):
        found |= traced(kbsim, ENTRIES, NPU, "--trace-level", level)
    Path("board.csv").write_text("counter,value,unit\nte_busy,17.5,te0\n", encoding="utf-8")
    assert kbsim("trace", "align", "t.jsonl", "board.csv", "-o", "merged.jsonl").code == 0
    found |= written(Path("merged.jsonl").read_text(encoding="utf-8"))
    assert kbsim("trace", "export", "t.jsonl", "--to", "jsonl", "-o", "flat.jsonl").code == 0
    found |= written(Path("flat.jsonl").read_text(encoding="utf-8"))
    found |= traced(kbsim, ENTRIES, NPU, "--trace-only", "dma*", "--trace-cycles", "0:50")
    found |= traced(kbsim, ENTRIES, {**NPU, "max_cycles": 40}, code=3)
    failing = {**NPU, "spm": {**NPU["spm"], "check_overlap": "error"}}  # type: ignore[dict-item]
    found |= traced(kbsim, ENTRIES, failing, code=5)
    found |= traced(kbsim, ENTRIES, {**NPU, "energy": {**NPU.get("energy", {}), "by_cause": True}})  # type: ignore[dict-item]
    found |= traced(kbsim, SLOW, {"schema": "kernbench/npu/1"}, "--trace-window", "16")
    found |= traced(kbsim, SENDS, SYSTEM)
    found |= traced(kbsim, LOADS, FLITS)
    found |= traced(kbsim, LOADS, {"schema": "kernbench/npu/1", "control": {"mmio": {}}})
    flags = ("--set", "pe.ipcq.protocols={simple: {cycles: 9}}", "--trace", "t.jsonl", "--trace-level", "full", "-q")
    assert kbsim("ccl", "run", "all_reduce", "--algo", "ring", "-g", "2", "-b", "64", "-e", "64", *flags).code == 0
    found |= written(Path("t.jsonl").read_text(encoding="utf-8"))
    assert kbsim("run", "stuck.json", "--trace", "t.jsonl", "-q").code == 4
    found |= written(Path("t.jsonl").read_text(encoding="utf-8"))
    assert promised() - found - set(NEVER) == set()
    assert set(NEVER) & found == set()


def test_a_warning_names_the_layer_of_its_command(kbsim: Kbsim) -> None:
    traced(kbsim, [{**LOAD, "dram_addr": 0}, {**LOAD, "dram_addr": 64, "layer_id": 9}], NPU)
    events = [json.loads(line) for line in Path("t.jsonl").read_text(encoding="utf-8").splitlines()]
    warnings = [event for event in events if event["event_type"] == "WARN" and event["code"] == "OVERLAP"]
    assert [(event["cmd_id"], event["layer_id"]) for event in warnings] == [(1, 9)]
