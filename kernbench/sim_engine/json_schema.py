"""The JSON Schema of a result (`Result.to_dict`), of `kbsim run --json` and of `kbsim step --json`."""

from __future__ import annotations

from kernbench.cmdq.opcodes import OPCODES
from kernbench.common.json_shapes import COUNT, CYCLE, NO_TEXT, TEXT, Shape, closed, list_of, titled
from kernbench.sim_engine.result import MODEL_VERSION
from kernbench_core.numbers import CHANNELS, DMA_STATES, STALLS

ID = COUNT
LINE: Shape = {"type": ["string", "null"], "description": "of a kernel"}
RATE: Shape = {
    "type": "string",
    "pattern": "^[0-9]+(/[0-9]+)?$",
    "description": "[byte/cycle] p or p/q",
}


def _counters() -> Shape:
    use = {"jobs": COUNT, "busy": COUNT, "idle": COUNT}
    compute = {**use, "stalled": closed({"bank_conflict": COUNT})}
    stalled = closed({"backpressure": COUNT, "bank_conflict": COUNT})
    dma = closed({**use, "stalled": stalled, "queue_full": COUNT, "priority_deferred": COUNT, "bytes": COUNT})
    te, ve = closed({**compute, "macs": COUNT}), closed({**compute, "ops": COUNT})
    resource = closed({"bytes": COUNT, "busy": COUNT, "member_cycles": COUNT})
    banks = list_of(COUNT)
    scratchpad = closed({"requests": banks, "grants": banks, "denials": banks})
    npu = {"^dma[0-9]+$": dma, "^te[0-9]+$": te, "^ve[0-9]+$": ve, "^dram\\.ch[0-9]+$": resource}
    npu["^noc\\.r[0-9]+c[0-9]+-r[0-9]+c[0-9]+$"] = resource
    system = {
        "^[^-]*\\.pe_dma[0-9]*$": dma,
        "^[^-]*\\.pcie_ep$": dma,
        "^[^-]*\\.pe_gemm[0-9]*$": te,
        "^[^-]*\\.pe_math[0-9]*$": ve,
        "^[^-]*\\.m_cpu$": closed({**compute, "launches": COUNT}),
        "^[^-]*\\.pe_tcm$": scratchpad,
        "^[^-]*\\.(hbm_ctrl\\.ch[0-9]+|sram)$": resource,
        "^[^-]+-[^-]+$": resource,
    }
    counted = "docs/model/counters.md: cycles, and job-cycles of queue_full and priority_deferred"
    whole = {"type": "object", "additionalProperties": False}
    of_npu = {**whole, "description": "of one NPU", "properties": {"spm": scratchpad}, "required": ["spm"]}
    of_system = {**whole, "description": "of a system, by node or link", "patternProperties": system}
    return {"description": counted, "anyOf": [{**of_npu, "patternProperties": npu}, of_system]}


def _metrics() -> Shape:
    bounds = {
        "type": "object",
        "description": "[cycle] lower bounds: the largest, its name, and each by the name of what it is of",
        "properties": {"cycles": COUNT, "limit": TEXT, "critical_path": COUNT},
        "required": ["cycles", "limit", "critical_path"],
        "additionalProperties": COUNT,
    }
    parts = ("dram", "mac", "noc", "spm", "static", "total", "ve")
    energy = closed({name: {"type": "number", "minimum": 0} for name in parts}, description="[pJ]")
    return {
        "type": "object",
        "properties": {"bounds": bounds, "energy_pj": energy},
        "required": ["bounds", "energy_pj"],
    }


def _job() -> Shape:
    """A transfer (`JobState`) and its flows."""
    flow = closed(
        {
            "channel": TEXT,
            "bytes_left": COUNT,
            "rate": RATE,
            "held_since": CYCLE,
            "waits": {"enum": ["bank", "backpressure", "line", None]},
        }
    )
    return closed(
        {
            "id": ID,
            "opcode": TEXT,
            "state": {"enum": list(DMA_STATES)},
            "channel": {"enum": list(CHANNELS)},
            "bytes": COUNT,
            "bytes_left": COUNT,
            "rate": RATE,
            "stall": {"enum": list(STALLS)},
            "stalled_since": CYCLE,
            "joins_at": CYCLE,
            "flows": list_of(flow),
            "line": LINE,
        }
    )


def _engine() -> Shape:
    """One engine of `kbsim step --json` (`EngineState`)."""
    return closed(
        {
            "name": TEXT,
            "activity": {"enum": ["idle", "busy", "bank_conflict", "backpressure"]},
            "jobs": list_of(_job()),
            "queue": list_of(ID),
            "queue_stalls": list_of({"enum": list(STALLS)}),
            "queue_since": list_of(CYCLE),
            "entry": CYCLE,
            "opcode": NO_TEXT,
            "started": CYCLE,
            "body_left": CYCLE,
            "held_since": CYCLE,
            "next_event": CYCLE,
            "line": LINE,
        }
    )


def _queue_wait() -> dict[str, Shape]:
    """A PE that waits for another PE, over a queue between them."""
    rank = {"type": ["integer", "null"], "minimum": 0}
    lines = dict.fromkeys(("held", "last_send", "last_recv"), TEXT)
    counts = dict.fromkeys(("plane", "used", "slots", "since"), COUNT)
    names = dict.fromkeys(("pe", "launch", "line", "direction"), TEXT)
    ranks = {"rank": rank, "waits_for": rank, "circle": rank}
    return {**ranks, "reason": {"enum": ["message", "credit"]}, **names, **counts, **lines}


def unreceived() -> dict[str, Shape]:
    """Messages of a queue that were not received."""
    counts = dict.fromkeys(("cycle", "rank", "to", "plane", "count"), COUNT)
    return {"code": {"const": "UNRECEIVED"}, **counts, "direction": TEXT, "line": TEXT, "message": TEXT}


def result_json_schema() -> Shape:
    """JSON Schema (draft 2020-12) of a result.

    `engines` is in the output of `kbsim step`; `deadlock` and `failure` are present after such an end.
    """
    opcode = {"enum": list(OPCODES)}
    broken = {"code": {"const": "COMPONENT"}, "cycle": COUNT, "component": TEXT, "message": TEXT, "traceback": TEXT}
    plugged = {"jobs": COUNT, "bytes": COUNT, "held": COUNT}
    overlap = {"code": {"const": "OVERLAP"}, "cycle": COUNT, "entry": ID, "with": ID, "message": TEXT}
    wait = {"id": ID, "opcode": opcode, "waits_for": list_of(ID), "since": COUNT, "reason": TEXT}
    empty = {"code": {"const": "EMPTY"}, "cycle": COUNT, "message": TEXT}
    warnings = {"anyOf": [closed(overlap), closed(unreceived()), closed(empty)]}
    properties = {
        "status": {"enum": ["done", "aborted", "deadlock", "failed", "running"]},
        "cycles": COUNT,
        "t_ns": {"type": "number", "minimum": 0},
        "model_version": {"const": MODEL_VERSION},
        "program": TEXT,
        "machine": TEXT,
        "entries": list_of(closed({"id": ID, "opcode": opcode, "issue": CYCLE, "start": CYCLE, "end": CYCLE})),
        "counters": _counters(),
        "metrics": _metrics(),
        "warnings": list_of(warnings),
        "deadlock": list_of({"anyOf": [closed(wait), closed(_queue_wait())]}),
        "components": {"type": "object", "additionalProperties": closed(plugged)},
        "failure": {"oneOf": [closed(overlap), closed(broken, ("traceback",))]},
        "engines": list_of(_engine()),
    }
    optional = ("deadlock", "components", "failure", "engines")
    return titled("kernbench result", closed(properties, optional)) | {
        "allOf": [
            {
                "if": {"properties": {"status": {"const": status}}},
                "then": {"required": [key]},
                "else": {"properties": {key: False}},
            }
            for status, key in (("deadlock", "deadlock"), ("failed", "failure"))
        ],
    }
