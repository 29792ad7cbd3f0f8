"""Traces written by hand: one record of every type, and a small lawful run."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from kernbench.trace.events import RECORDS, Record, encode
from kernbench.trace.files import zstd_module

UNITS: list[dict[str, Any]] = [
    {"unit": "control", "component": "CPU", "index": 0, "parent": ""},
    {"unit": "dma0", "component": "DMA", "index": 0, "parent": "", "weights": [1, 1, 1]},
    {"unit": "te0", "component": "TE", "index": 0, "parent": "", "macs_per_cycle": "4096"},
    {"unit": "ve0", "component": "VE", "index": 0, "parent": "", "ops_per_cycle": "64"},
    {"unit": "dram.ch0", "component": "DRAM", "index": 0, "parent": "", "capacity": "16"},
    {"unit": "noc.r1c0-r0c0", "component": "NOC", "index": 0, "parent": "", "capacity": "64"},
    {"unit": "noc.r0c0-r1c0", "component": "NOC", "index": 1, "parent": "", "capacity": "64"},
    {"unit": "spm", "component": "SRAM", "index": 0, "parent": "", "banks": 2},
]
MACHINE: dict[str, Any] = {
    "schema": "kernbench/npu/1",
    "freq_ghz": 1.5,
    "dma": {"engines": 1, "max_concurrent_transfers": 4},
    "dram": {"channels": 1, "bus_width_bytes": 64, "dram_burst_cycles": 4, "peak_bw_bytes_per_cycle": 128},
    "spm": {"num_banks": 2, "bank_width_bytes": 16, "ports": 1},
    "te": {"engines": 1, "macs_per_cycle": 4096},
    "ve": {"engines": 1, "lanes": 64, "ops_per_lane": 1},
}


def meta(**changed: Any) -> Record:
    """The first line of both."""
    fields: dict[str, Any] = {
        "t_cycle": 0,
        "version": "1.0",
        "sim_version": "0.1.0",
        "model_version": 1,
        "sim_id": "5f2a9c",
        "level": "full",
        "freq_ghz": "1.5",
        "window_cycles": 16,
        "program": "by_hand",
        "program_hash": "aa" * 32,
        "config_hash": "bb" * 32,
        "sim_config": MACHINE,
        "units": UNITS,
        "defaults": {"core_id": 0, "npu_id": 0, "tenant_id": 0, "thread_id": 0},
        "commands": 5,
    }
    return RECORDS["TRACE_META"](**{**fields, **changed})


def record(name: str, t_cycle: int, **fields: Any) -> Record:
    """One record by the name of its type."""
    made: Record = RECORDS[name](t_cycle=t_cycle, **fields)
    return made


def lines(records: Iterable[Record]) -> bytes:
    """Records as the text of a file."""
    return b"".join(encode(one) + b"\n" for one in records)


def write_trace(path: str | Path, records: Iterable[Record]) -> Path:
    """Write records to a file, packed as its name's end says."""
    path, text = Path(path), lines(records)
    if path.suffix == ".gz":
        text = gzip.compress(text, mtime=0)
    elif path.suffix == ".zst":
        text = zstd_module().compress(text)
    path.write_bytes(text)
    return path


_TE = {"job_id": 1, "cmd_id": 1, "unit": "te0"}
_VE = {"job_id": 2, "cmd_id": 2, "unit": "ve0"}
_LOAD = {"job_id": 0, "cmd_id": 0, "unit": "dma0"}
_FLOW = {"tx_id": 0, "channel": 0, "unit": "dram.ch0", "cmd_id": 0, "job_id": 0}
_LINK = {"tx_id": 0, "channel": 0, "link_id": 1, "unit": "noc.r0c0-r1c0", "cmd_id": 0, "job_id": 0}


def one_of_each() -> list[Record]:
    """One record of every type, every optional field given at least once; a file, but no lawful run."""
    llm = {"layer_id": 3, "block_id": 1, "phase": "QKV_PROJ", "head_id": 7, "token_idx": 41, "seq_len": 512}
    llm |= {"model_name": "llama2_7b", "precision": "W4A8"}
    common = {"t_ns": 2.5, "sim_id": "other", "core_id": 2, "npu_id": 1, "tenant_id": 4, "thread_id": 3}
    return [
        meta(filter={"cycles": [0, 90], "only": ["*"]}, t_ns=0, core_id=1),
        record("CMD_ENQUEUE", 0, cmd_id=0, cmd_type="DMA_LOAD_TILE", unit="dma0", source="ISA", token=10, bytes=64, **llm,
               tensor="weight", desc_addr=140737488355328, tile_id=5, deps=[], **common),
        record("CMD_ENQUEUE", 0, cmd_id=1, cmd_type="TE_GEMM_TILE", unit="te0", source="MMIO", deps=[0], work=4194304,
               qbits=8, position=1, visible=9),
        record("CMD_START", 0, cmd_id=0, unit="dma0"),
        record("CMD_END", 8, cmd_id=0, unit="dma0", status="OK", tenant_id=1),
        record("JOB_ISSUE", 8, **_TE, job_type="TE_GEMM", tile_id=5, phase="QKV_PROJ"),
        record("JOB_ISSUE", 8, **_VE, job_type="VE_LAYERNORM", vec_chunk_id=6),
        record("JOB_DONE", 9, **_TE, job_type="TE_GEMM", latency_cycles=60),
        record("DMA_START", 10, tx_id=0, channel=0, direction="DRAM_TO_SRAM", src_addr=4096, dst_addr=0, size_bytes=64,
               **_LOAD, phase="QKV_PROJ", head_cycles=4, weight=1, peer="spm"),
        record("DMA_END", 11, tx_id=0, channel=0, latency_cycles=8, **_LOAD),
        record("CACHE_LOOKUP", 12, tx_id=0, **_LOAD, hits=1, misses=2, hit_bytes=64, miss_bytes=100, evictions=1,
               write_backs=1),
        record("WRITE_BACK_START", 12, channel=0, unit="dram.ch0"),
        record("TE_START", 12, **_TE, m=128, n=128, k=256, tile_m=64, tile_n=64, tile_k=64, phase="QKV_PROJ",
               body_cycles=342, total_cycles=354),
        record("TE_END", 13, **_TE, mac_count=4194304, latency_cycles=357, stall_cycles=3),
        record("WRITE_BACK_END", 13, channel=0, unit="dram.ch0"),
        record("VE_START", 14, **_VE, op_type="LAYERNORM", len=4096, batch=128, phase="LN1", body_cycles=84, total_cycles=96),
        record("VE_END", 15, **_VE, op_count=524288, latency_cycles=97, stall_cycles=1),
        record("SRAM_ACCESS", 16, addr=8192, size_bytes=64, bank_id=1, access_type="READ", by="TE", conflict=True,
               **{**_TE, "unit": "spm"}, cycles=5),
        record("SRAM_CONFLICT", 17, unit="spm", bank_id=1, access_type="WRITE", num_requests=3, allowed=1,
               stalled_clients=["DMA", "VE"], cmd_id=0),
        record("DRAM_TX_START", 18, **_FLOW, size_bytes=64, weight=1),
        record("DRAM_TX_END", 19, **_FLOW, size_bytes=64),
        record("DRAM_TX_SUSPEND", 20, **_FLOW, reason="backpressure"),
        record("DRAM_TX_RESUME", 21, **_FLOW),
        record("NOC_TX_START", 22, **_LINK, size_bytes=64),
        record("NOC_TX_END", 23, **_LINK),
        record("NOC_FLITS", 23, tx_id=0, channel=0, **_LOAD, packets=2, travel_cycles=30, alone_cycles=20, no_credit_cycles=3,
               no_channel_cycles=2, lost_cycles=1),
        record("IRQ_EMIT", 24, cmd_id=0, token=10, irq_line=3),
        record("TOKEN_COMPLETE", 25, token=10, cmd_id=0, status="OK"),
        record("MARKER", 26, marker="layer done", cmd_id=0),
        record("MARKER", 26, marker=17, cmd_id=1),
        record("TOKEN", 27, token_idx=41, start_cycle=0, latency_cycles=27, phase="decode"),
        record("ERROR", 28, component="CPU", code="DEADLOCK", msg="nothing can ever happen again", cmd_id=1, job_id=1),
        record("WARN", 29, component="TE", code="LOW_UTIL", msg="te0 was busy in 3 of 16 cycles, less than half", unit="te0",
               cmd_id=1, job_id=1, layer_id=3),
        record("ENGINE_EVENT", 30, **_LOAD, start_cycle=0, end_cycle=30, bytes=64),
        record("MEM_ACCESS_EVENT", 31, tx_id=0, channel=0, **_LOAD, source_engine="DMA", dram_addr=4096, spm_addr=0,
               size_bytes=64, direction="DRAM_TO_SRAM", cycles=4),
        record("STALL_EVENT", 32, **_LOAD, reason="bank_conflict", channel=0, bank_id=1, by_job=1,
               scratchpad="spm"),
        record("RESUME_EVENT", 33, **_LOAD, reason="bank_conflict", duration_cycles=1, channel=0),
        record("BANDWIDTH_SAMPLE", 34, unit="dram.ch0", window_cycles=16, read_bytes=64, write_bytes=32, busy_cycles=6,
               member_cycles=6),
        record("QUEUE_SAMPLE", 35, unit="dma0", queued=[1, 0, 2], active=[1, 1, 0]),
        record("ENGINE_SAMPLE", 36, unit="dma0", window_cycles=16, busy_cycles=8, backpressure_cycles=2,
               bank_conflict_cycles=1),
        record("BANK_SAMPLE", 37, unit="spm", window_cycles=16, requests=[5, 4], grants=[5, 3], denials=[0, 1]),
        record("NOC_QUEUE_DEPTH", 37, unit="dma0", window_cycles=16, depth=[2, 0], flit_cycles=9, packets=1),
        record("ENERGY_SAMPLE", 38, window_cycles=16, dram_pj=1280, noc_pj=64.5, spm_pj=64, mac_pj=0.25, ve_pj=8, static_pj=0),
        record("POWER_STATE", 39, unit="ve0", state="IDLE"),
        record("HW_COUNTER", 40, counter="te_busy", value=17.5, unit="te0", source="board.csv"),
        record("TRACE_END", 41, status="failed", cycles=41, events=43, counters={"te0": {"jobs": 1}}, energy_pj={"total": 1.5}),
    ]  # fmt: skip


_STORED = {"tx_id": 3, "channel": 0, "cmd_id": 3, "job_id": 3}
_ENDS = {"dma0": "DMA_END", "te0": "TE_END", "ve0": "VE_END"}
_WORK = {"te0": {"mac_count": 16384, "stall_cycles": 1}, "ve0": {"op_count": 128, "stall_cycles": 0}}


def _ended(t_cycle: int, ids: dict[str, Any], job_type: str, start: int, latency: int, **moved: int) -> list[Record]:
    """What stands at the end of a job."""
    unit = ids["unit"]
    own = {"tx_id": ids["job_id"], "channel": 0} if unit == "dma0" else _WORK[unit]
    return [
        record("CMD_END", t_cycle, cmd_id=ids["cmd_id"], unit=unit, status="OK"),
        record("JOB_DONE", t_cycle, **ids, job_type=job_type, latency_cycles=latency),
        record(_ENDS[unit], t_cycle, **ids, **own, latency_cycles=latency),
        record("ENGINE_EVENT", t_cycle, **ids, start_cycle=start, end_cycle=t_cycle, **moved),
    ]


def _samples(t_cycle: int, cycles: int, *, read: int = 0, write: int = 0, dma: int, te: tuple[int, int], ve: int,
             banks: tuple[list[int], list[int], list[int]]) -> list[Record]:  # fmt: skip
    """The samples at the end of a window; `te`: its busy and its held cycles."""
    busy = (read + write) // 16
    moved = {"read_bytes": read, "write_bytes": write, "busy_cycles": busy, "member_cycles": busy}
    engines = {"dma0": (dma, 0), "te0": te, "ve0": (ve, 0)}
    parts = {"noc_pj": read + write, "spm_pj": 0, "mac_pj": 0.5 * te[0], "ve_pj": 64 if ve else 0, "static_pj": 0}
    return [
        record("BANDWIDTH_SAMPLE", t_cycle, unit="dram.ch0", window_cycles=cycles, **moved),
        record("BANDWIDTH_SAMPLE", t_cycle, unit="noc.r0c0-r1c0" if read else "noc.r1c0-r0c0", window_cycles=cycles, **moved),
        *([record("QUEUE_SAMPLE", t_cycle, unit="te0", queued=[0], active=[1])] if read else []),
        *(record("ENGINE_SAMPLE", t_cycle, unit=unit, window_cycles=cycles, busy_cycles=used, backpressure_cycles=0,
                 bank_conflict_cycles=held) for unit, (used, held) in engines.items() if used),
        record("BANK_SAMPLE", t_cycle, unit="spm", window_cycles=cycles, requests=banks[0], grants=banks[1], denials=banks[2]),
        record("ENERGY_SAMPLE", t_cycle, window_cycles=cycles, dram_pj=20 * (read + write), **parts),
    ]  # fmt: skip


def _end() -> Record:
    counters = {
        "dma0": {"jobs": 2, "busy": 14, "idle": 15, "stalled": {"backpressure": 0, "bank_conflict": 0},
                 "queue_full": 0, "priority_deferred": 0, "bytes": 96},
        "te0": {"jobs": 1, "busy": 8, "idle": 20, "stalled": {"bank_conflict": 1}, "macs": 16384},
        "ve0": {"jobs": 1, "busy": 6, "idle": 23, "stalled": {"bank_conflict": 0}, "ops": 128},
        "dram.ch0": {"bytes": 96, "busy": 6, "member_cycles": 6},
        "noc.r1c0-r0c0": {"bytes": 32, "busy": 2, "member_cycles": 2},
        "noc.r0c0-r1c0": {"bytes": 64, "busy": 4, "member_cycles": 4},
        "spm": {"requests": [20, 21], "grants": [20, 20], "denials": [0, 1]},
    }  # fmt: skip
    energy = {"dram": 1920, "noc": 96, "spm": 0, "mac": 4.0, "ve": 64, "static": 0, "total": 2084.0}
    return record("TRACE_END", 29, status="done", cycles=29, events=73, counters=counters, energy_pj=energy)


def lawful() -> list[Record]:
    """A whole run of 29 cycles at level `full`: a load, a GEMM, a layernorm and a store, one after the other, then END.

    The GEMM waits one cycle for a bank. Windows are 16 cycles, so there are two, of 16 and 13.
    """
    te, ve, load, store = _TE, _VE, _LOAD, {"job_id": 3, "cmd_id": 3, "unit": "dma0"}
    return [
        meta(),
        record("CMD_ENQUEUE", 0, cmd_id=0, cmd_type="DMA_LOAD_TILE", unit="dma0", bytes=64, token_idx=5, layer_id=0,
               phase="QKV"),
        record("CMD_ENQUEUE", 0, cmd_id=1, cmd_type="TE_GEMM_TILE", unit="te0", deps=[0], work=16384, layer_id=0, phase="QKV"),
        record("CMD_ENQUEUE", 0, cmd_id=2, cmd_type="VE_LAYERNORM_TILE", unit="ve0", deps=[1], work=128, layer_id=1,
               phase="LN"),
        record("CMD_ENQUEUE", 0, cmd_id=3, cmd_type="DMA_STORE_TILE", unit="dma0", deps=[2], bytes=32, token=7, token_idx=5,
               layer_id=1, phase="LN"),
        record("CMD_ENQUEUE", 0, cmd_id=4, cmd_type="END", unit="control", deps=[0, 1, 2, 3]),
        record("JOB_ISSUE", 0, **load, job_type="DMA_READ", phase="QKV"),
        record("CMD_START", 0, cmd_id=0, unit="dma0"),
        record("DMA_START", 0, tx_id=0, channel=0, direction="DRAM_TO_SRAM", src_addr=4096, dst_addr=0, size_bytes=64, **load,
               phase="QKV", head_cycles=4, weight=1),
        record("DRAM_TX_START", 4, **_FLOW, size_bytes=64, weight=1),
        record("NOC_TX_START", 4, **_LINK, size_bytes=64),
        record("MEM_ACCESS_EVENT", 7, tx_id=0, channel=0, **load, source_engine="DMA", dram_addr=4096, spm_addr=0,
               size_bytes=64, direction="DRAM_TO_SRAM", cycles=4),
        record("SRAM_ACCESS", 7, addr=0, size_bytes=64, bank_id=0, access_type="WRITE", by="DMA", conflict=False,
               **{**load, "unit": "spm"}, cycles=4),
        *_ended(8, load, "DMA_READ", 0, 8, bytes=64),
        record("DRAM_TX_END", 8, **_FLOW, size_bytes=64),
        record("NOC_TX_END", 8, **_LINK),
        record("JOB_ISSUE", 8, **te, job_type="TE_GEMM", phase="QKV"),
        record("CMD_START", 8, cmd_id=1, unit="te0"),
        record("TE_START", 8, **te, m=16, n=32, k=32, tile_m=16, tile_n=32, tile_k=32, phase="QKV", body_cycles=4,
               total_cycles=8),
        record("STALL_EVENT", 11, **te, reason="bank_conflict", bank_id=1),
        record("SRAM_CONFLICT", 11, unit="spm", bank_id=1, access_type="READ", num_requests=2, allowed=1,
               stalled_clients=["TE"], cmd_id=1),
        record("RESUME_EVENT", 12, **te, reason="bank_conflict", duration_cycles=1),
        *(record("SRAM_ACCESS", 14, addr=a, size_bytes=n, bank_id=0, access_type=t, by="TE", conflict=c,
                 **{**te, "unit": "spm"}, cycles=5)
          for a, n, t, c in ((64, 512, "READ", True), (576, 1024, "READ", True), (1600, 512, "WRITE", False))),
        *_samples(15, 16, read=64, dma=8, te=(7, 1), ve=0, banks=([14, 15], [14, 14], [0, 1])),
        *_ended(17, te, "TE_GEMM", 8, 9),
        record("JOB_ISSUE", 17, **ve, job_type="VE_LAYERNORM", phase="LN"),
        record("CMD_START", 17, cmd_id=2, unit="ve0"),
        record("VE_START", 17, **ve, op_type="LAYERNORM", len=64, batch=2, phase="LN", body_cycles=2, total_cycles=6),
        *(record("SRAM_ACCESS", 20, addr=a, size_bytes=128, bank_id=0, access_type=t, by="VE", conflict=False,
                 **{**ve, "unit": "spm"}, cycles=2)
          for a, t in ((1600, "READ"), (2112, "WRITE"))),
        *_ended(23, ve, "VE_LAYERNORM", 17, 6),
        record("JOB_ISSUE", 23, **store, job_type="DMA_WRITE", phase="LN"),
        record("CMD_START", 23, cmd_id=3, unit="dma0"),
        record("DMA_START", 23, tx_id=3, channel=0, direction="SRAM_TO_DRAM", src_addr=2112, dst_addr=8192, size_bytes=32,
               **store, phase="LN", head_cycles=4, weight=1),
        record("DRAM_TX_START", 27, **_STORED, unit="dram.ch0", size_bytes=32, weight=1),
        record("NOC_TX_START", 27, **_STORED, link_id=0, unit="noc.r1c0-r0c0", size_bytes=32),
        record("MEM_ACCESS_EVENT", 28, tx_id=3, channel=0, **store, source_engine="DMA", dram_addr=8192, spm_addr=2112,
               size_bytes=32, direction="SRAM_TO_DRAM", cycles=2),
        record("SRAM_ACCESS", 28, addr=2112, size_bytes=32, bank_id=0, access_type="READ", by="DMA", conflict=False,
               **{**store, "unit": "spm"}, cycles=2),
        *_samples(28, 13, write=32, dma=6, te=(1, 0), ve=6, banks=([6, 6], [6, 6], [0, 0])),
        *_ended(29, store, "DMA_WRITE", 23, 6, bytes=32),
        record("DRAM_TX_END", 29, **_STORED, unit="dram.ch0", size_bytes=32),
        record("NOC_TX_END", 29, **_STORED, link_id=0, unit="noc.r1c0-r0c0"),
        record("IRQ_EMIT", 29, cmd_id=3, token=7, irq_line=2),
        record("TOKEN_COMPLETE", 29, token=7, cmd_id=3, status="OK"),
        record("MARKER", 29, marker="stored", cmd_id=3),
        record("TOKEN", 29, token_idx=5, start_cycle=0, latency_cycles=29),
        record("CMD_START", 29, cmd_id=4, unit="control"),
        record("CMD_END", 29, cmd_id=4, unit="control", status="OK"),
        _end(),
    ]  # fmt: skip


def lawful_lines(copies: int) -> Iterator[bytes]:
    """The lines of a lawful run of any length: that run over and over, 32 cycles each, with its own commands and jobs."""
    first, *between, last = lawful()
    yield encode(msgspec.structs.replace(first, commands=5 * copies))
    short = [one for one in between if getattr(one, "window_cycles", 0) == 13]
    body = [one for one in between if one not in short]
    body += [msgspec.structs.replace(one, t_cycle=31, window_cycles=16) for one in short]
    queued = [one for one in body if one.event.name == "CMD_ENQUEUE"]
    running = [one for one in body if one.event.name != "CMD_ENQUEUE"]
    for copy in range(copies):
        yield from (encode(_moved(one, copy, 0)) for one in queued)
    for copy in range(copies):
        yield from (encode(_moved(one, copy, 32 * copy)) for one in running)
    counters = {unit: {key: _times(value, copies) for key, value in said.items()} for unit, said in last.counters.items()}
    for said in counters.values():
        if "idle" in said:
            said["idle"] = 32 * copies - said["busy"] - sum(said["stalled"].values())
    energy = {part: pj * copies for part, pj in last.energy_pj.items()}
    end = {"cycles": 32 * copies, "events": 73 * copies, "counters": counters, "energy_pj": energy}
    yield encode(msgspec.structs.replace(last, t_cycle=32 * copies, **end))


def _moved(one: Record, copy: int, cycles: int) -> Record:
    """A record of a later copy."""
    shifts = dict.fromkeys(("t_cycle", "start_cycle", "end_cycle"), cycles)
    shifts |= dict.fromkeys(("cmd_id", "job_id", "tx_id"), 5 * copy)
    found = {name: getattr(one, name) + shift for name, shift in shifts.items() if getattr(one, name, None) is not None}
    return msgspec.structs.replace(one, **found)


def _times(value: Any, copies: int) -> Any:
    if isinstance(value, dict):
        return {key: inner * copies for key, inner in value.items()}
    return [inner * copies for inner in value] if isinstance(value, list) else value * copies
