"""The JSON Schemas of what `kbsim llm --json` and `kbsim onnx --json` print."""

from __future__ import annotations

from kernbench.common.json_shapes import COUNT, NUMBER, TEXT, Shape, closed, list_of, map_of, or_null, titled
from kernbench.workloads.graphs.beyond import KINDS, REASONS
from kernbench.workloads.llm.run import ROLES
from kernbench.workloads.llm.steps import PHASES

SEGMENTS = ("source", "encoder", "embedding", "layer", "head", "draft")
_OF_MODEL = ("prompt", "tokens", "batch", "layers", "page_tokens", "cycles", "segments", "simulated", "dram_used_bytes")
_BOUND = closed({"cycles": COUNT, "share": NUMBER})
_LIMIT = closed({"name": TEXT, "cycles": COUNT, "share": NUMBER})


def llm_json_schema() -> Shape:
    """JSON Schema (draft 2020-12) of a run of a language model, or of a comparison of several."""
    phases = {"type": "object", "properties": {name: _phase() for name in PHASES}, "additionalProperties": False}
    step = closed({"phase": {"enum": list(PHASES)}, "tokens": COUNT, "context": COUNT, "cycles": COUNT})
    run = {
        "status": {"const": "done"},
        "model": TEXT,
        "machine": TEXT,
        "precision": TEXT,
        **dict.fromkeys(_OF_MODEL, COUNT),
        **{name: or_null(NUMBER) for name in ("ttft_ns", "tpot_ns", "tokens_per_s")},
        "kv_layout": or_null(closed({"t_max": COUNT, "head_dim": COUNT})),
        "phases": phases,
        "steps": list_of(step),
    }
    case = closed({"case": map_of(COUNT), **run})
    on_chip = {"status": {"const": "done"}, "model": TEXT, "machine": TEXT, "runtime": TEXT}
    chip_run = {"case": map_of(COUNT), **dict.fromkeys(("prompt", "batch", "tp", "w", "a", "kv"), COUNT), **generation_shapes()}
    kinds = [run, {"status": {"const": "done"}, "runs": list_of(case)}]
    kinds += [on_chip | chip_run, on_chip | {"runs": list_of(closed(chip_run))}]
    return titled("kernbench llm", {"anyOf": [closed(one) for one in kinds]})


def generation_shapes() -> dict[str, Shape]:
    """The keys of a run of a language model under a runtime profile: `Generation.to_dict`."""
    operation = {**dict.fromkeys(("name", "kind", "shape"), TEXT), "count": COUNT, "ns": NUMBER, "causes_ns": map_of(NUMBER)}
    counts = dict.fromkeys(("steps", "tokens", "context"), COUNT)
    times = dict.fromkeys(("ns", "launches_ns", "steps_ns"), NUMBER)
    phase = closed({**counts, **times, "operations": list_of(closed(operation))})
    return {
        "tokens_per_s": NUMBER, "ttft_ns": or_null(NUMBER), "tpot_ns": or_null(NUMBER),
        **dict.fromkeys(("weight_bytes", "kv_bytes", "memory_bytes"), COUNT),
        "phases": {"type": "object", "properties": dict.fromkeys(PHASES, phase), "additionalProperties": False},
    }  # fmt: skip


def _phase() -> Shape:
    segment = closed({"count": COUNT, "cycles": COUNT, "limit": TEXT, "bound": COUNT})
    return closed({
        "cycles": COUNT,
        "t_ns": NUMBER,
        "tokens": COUNT,
        "tokens_per_s": NUMBER,
        "reason": TEXT,
        "limit": _LIMIT,
        "dram_bound": _BOUND,
        "mac_bound": _BOUND,
        "te_use": {**NUMBER, "maximum": 1},
        "macs": COUNT,
        "dram_bytes": closed(dict.fromkeys(ROLES, COUNT)),
        "dram_bytes_per_token": closed(dict.fromkeys(ROLES, NUMBER)),
        "least_bytes": closed(dict.fromkeys(ROLES, COUNT)),
        "energy_pj": map_of(NUMBER),
        "energy_pj_per_token": NUMBER,
        "usd_per_million_tokens": NUMBER,
        "segments": {**map_of(segment), "propertyNames": {"enum": list(SEGMENTS)}},
    }, optional=("usd_per_million_tokens",))  # fmt: skip


def onnx_json_schema() -> Shape:
    """JSON Schema (draft 2020-12) of a run of a graph."""
    roles = closed(dict.fromkeys(("weights", "activations"), COUNT))
    node = {"name": TEXT, "op": TEXT, "note": TEXT, "jobs": COUNT, "macs": COUNT, "cycles": COUNT}
    return titled("kernbench onnx", closed({
        "status": {"const": "done"},
        "model": TEXT,
        "machine": TEXT,
        "cycles": COUNT,
        "t_ns": NUMBER,
        "macs": COUNT,
        "dram_bytes": roles,
        "least_bytes": COUNT,
        "dram_used_bytes": COUNT,
        "limit": _LIMIT,
        "dram_bound": _BOUND,
        "mac_bound": _BOUND,
        "vector_bound": _BOUND,
        "roofline": closed({
            "cycles": COUNT, "times": NUMBER, "bound": {"enum": list(KINDS)},
            "parts": list_of(closed({"reason": {"enum": list(REASONS)}, "cycles": COUNT, "op": TEXT, "of_op": COUNT})),
            "beyond": list_of(closed({"op": TEXT, "cycles": COUNT, "engine": TEXT, "busy": COUNT})),
        }),
        "energy_pj": map_of(NUMBER),
        "assumed": list_of(TEXT),
        "not_lowered": list_of(closed({"node": TEXT, "reason": TEXT})),
        "nodes": list_of(closed({**node, "busy": map_of(COUNT), "dram_bytes": roles})),
        "verification": closed({
            "passed": {"type": "boolean"}, "jobs": COUNT, "product_tiles": COUNT, "faults": list_of(TEXT),
            "outputs": list_of(closed({"name": TEXT, "equal": {"type": "boolean"}})),
        }),
    }, optional=("verification",)))  # fmt: skip
