"""The JSON Schema of the output of `kbsim run BENCH --json` and `kbsim step BENCH --json`."""

from __future__ import annotations

from kernbench.common.json_shapes import COUNT, CYCLE, NO_TEXT, NUMBER, TEXT, Shape, closed, list_of, map_of, or_null, titled
from kernbench.sim_engine.json_schema import result_json_schema


def bench_json_schema() -> Shape:
    """JSON Schema (draft 2020-12) of a run of a bench, including a run that was stopped."""
    result = result_json_schema()
    del result["$schema"]
    engines = result["properties"]["engines"]
    status = result["properties"]["status"]
    run = {
        "bench": TEXT,
        "machine": TEXT,
        "params": {"type": "object"},
        "status": status,
        "cycles": COUNT,
        "t_ns": NUMBER,
        "launches": list_of(_launch()),
        "bounds": list_of(closed({"name": TEXT, "kind": TEXT, "cycles": COUNT})),
        "utilisation": list_of(_utilisation()),
        "implicit_waits": COUNT,
        "notes": list_of(TEXT),
        "verification": or_null(_verification()),
        "result": {"$ref": "#/$defs/result"},
    }
    kernel = {"pe": TEXT, "launch": NO_TEXT, "program": CYCLE, "line": NO_TEXT, "waits_for": NO_TEXT, "since": CYCLE}
    step = {
        "bench": TEXT,
        "status": status,
        "cycle": COUNT,
        "kernels": list_of(closed({**kernel, "in_flight": COUNT, "implicit_waits": COUNT})),
        "engines": engines,
        "result": {"$ref": "#/$defs/result"},
    }
    return titled("kernbench bench", {"anyOf": [closed(run), closed(step)], "$defs": {"result": result}})


def _launch() -> Shape:
    times = {"start": CYCLE, "end": CYCLE}
    return closed({"name": TEXT, "issued": COUNT, **times, "pes": map_of(closed(times)), "cycles": CYCLE})


def _utilisation() -> Shape:
    """The shares of the run that the used engines of a kind were busy or stalled."""
    shares = {name: {**NUMBER, "maximum": 1} for name in ("mean", "least", "most", "stalled")}
    counts = dict.fromkeys(("engines", "used", "jobs", "work"), COUNT)
    return closed({"kind": {"enum": ["dma", "te", "ve"]}, **counts, **shares})


def _verification() -> Shape:
    return closed({"ok": {"type": "boolean"}, "checked": list_of(TEXT), "failures": list_of({"type": "object"})})
