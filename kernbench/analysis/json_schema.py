"""The JSON Schemas of the output of `kbsim compare`, `kbsim whatif` and `kbsim tenants` with `--json`."""

from __future__ import annotations

from kernbench.common.json_shapes import COUNT, NUMBER, TEXT, Shape, closed, list_of, map_of, or_null, titled
from kernbench.workloads.json_schema import generation_shapes

_STATUS: Shape = {"enum": ["done", "aborted", "deadlock", "failed"]}
_SIGNED: Shape = {"type": "number"}
_VALUE: Shape = {"type": ["number", "string", "boolean", "null"]}


def compare_json_schema() -> Shape:
    """JSON Schema (draft 2020-12) of one target on several machines."""
    machine = {
        "name": TEXT,
        "machine": TEXT,
        "status": _STATUS,
        "speedup": or_null(NUMBER),
        "cycles": COUNT,
        "t_ns": NUMBER,
        "bound": COUNT,
        "bound_by": TEXT,
        "bound_share": NUMBER,
        "energy_pj": NUMBER,
        "dram_bytes": COUNT,
        **dict.fromkeys(("dma_busy", "te_busy", "ve_busy", "bank_denials"), NUMBER),
        "bounds": map_of(COUNT),
        "causes": or_null(list_of(closed({"cause": TEXT, "t_ns": NUMBER}))),
        "changes": or_null(list_of(closed({"cause": TEXT, "t_ns": _SIGNED}))),
        "router_links": list_of(closed({"link": TEXT, **dict.fromkeys(("flits", "no_credit", "no_channel", "lost"), COUNT)})),
        "settings": or_null(list_of(closed({"path": TEXT, "first": _VALUE, "here": _VALUE}))),
    }
    whole = {"target": TEXT, "sentence": TEXT, "fastest": or_null(TEXT), "machines": list_of(closed(machine))}
    on_chip = {"name": TEXT, "machine": TEXT, "t_ns": NUMBER, "speedup": NUMBER, **generation_shapes()}
    numbers = dict.fromkeys(("prompt", "tokens", "batch", "tp", "w", "a", "kv"), COUNT)
    of_chips = dict.fromkeys(("target", "runtime", "sentence", "fastest"), TEXT) | numbers
    of_chips["machines"] = list_of(closed(on_chip))
    return titled("kernbench compare", {"anyOf": [closed(whole), closed(of_chips)]})


def what_if_json_schema() -> Shape:
    """JSON Schema (draft 2020-12) of the runs of `kbsim whatif`."""
    saved: Shape = {"type": ["integer", "null"]}
    share: Shape = {"type": ["number", "null"], "maximum": 1}
    changes: Shape = {"type": "object"}
    freed = closed(
        {"resources": list_of(TEXT), "status": _STATUS, "cycles": COUNT, "saved": saved, "share": share, "changes": changes}
    )
    whole = {"program": TEXT, "machine": TEXT, "status": _STATUS, "cycles": COUNT, "t_ns": NUMBER, "sentence": TEXT}
    first = or_null(closed({"resource": TEXT, "keys": list_of(TEXT)}))
    return titled("kernbench whatif", closed({**whole, "first": first, "freed": list_of(freed), "all": freed}))


def tenants_json_schema() -> Shape:
    """JSON Schema (draft 2020-12) of several programs or benches on one machine."""
    stalled = closed(dict.fromkeys(("backpressure", "bank_conflict", "queue_full"), COUNT))
    counts = dict.fromkeys(("weight", "outstanding", "cycles", "alone", "dram_bytes"), COUNT)
    of_benches = {"pes": or_null(COUNT), "verified": or_null({"type": "boolean"})}
    tenant = closed({"name": TEXT, **counts, "slowdown": or_null(NUMBER), "stalled": stalled, **of_benches})
    whole = {"machine": TEXT, "status": _STATUS, "cycles": COUNT, "throughput": NUMBER, "fairness": or_null(NUMBER)}
    return titled("kernbench tenants", closed({**whole, "tenants": list_of(tenant)}))
