"""The JSON Schemas for the output of `kbsim ccl run --json` and `kbsim ccl replay --json`."""

from __future__ import annotations

from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.reduction import OPERATIONS
from kernbench.ccl.registry import TIERS
from kernbench.ccl.rings import TOPO_NAME_TO_KIND
from kernbench.common.dtypes import DTYPES, KERNEL_ONLY
from kernbench.common.json_shapes import COUNT, NUMBER, TEXT, Shape, closed, list_of, or_null, titled
from kernbench.config.system.parts import PROTOCOLS
from kernbench.sim_engine.json_schema import result_json_schema, unreceived

#: done: all sizes are in rows; what else ended the run.
STATUSES = ("done", "aborted", "deadlock", "failed", "refused", "interrupted", "internal error")


def ccl_json_schema() -> Shape:
    """Return the JSON Schema (draft 2020-12) of `kbsim ccl run --json`.

    `result` is present if a size did not end, and `message` if an error ended the run. `runs` has the results for several
    algorithms, element types or roots.
    """
    result = result_json_schema()
    del result["$schema"]
    row = {
        "size": COUNT,
        "count": COUNT,
        "dtype": {"enum": [name for name in DTYPES if name not in KERNEL_ONLY]},
        "redop": {"enum": [*OPERATIONS, "none"]},
        "root": {"type": "integer", "minimum": -1, "description": "-1: there is none"},
        "cycles": COUNT,
        "time_us": NUMBER,
        "algbw": {**NUMBER, "description": "[GB/s]"},
        "busbw": {**NUMBER, "description": "[GB/s]"},
        "wrong": or_null(COUNT),
        "bound": TEXT,
        "bound_share": NUMBER,
        "unreceived": list_of(closed(unreceived())),
    }
    place = closed({"cycles": COUNT, "time_us": NUMBER, "algbw": NUMBER, "busbw": NUMBER, "wrong": or_null(COUNT)})
    one = closed({
        "status": {"enum": list(STATUSES)},
        "message": TEXT,
        "collective": {"enum": list(COLLECTIVES)},
        "algorithm": TEXT,
        "machine": TEXT,
        "ranks": COUNT,
        "shape": {**list_of(COUNT), "minItems": 3, "maxItems": 3},
        "topology": {"enum": list(TOPO_NAME_TO_KIND)},
        "queues": closed({
            "slots": or_null(COUNT), "slot_bytes": or_null(COUNT), "tier": or_null({"enum": list(TIERS)}),
            "protocol": or_null({"enum": list(PROTOCOLS)}),
        }, ("protocol",)),
        "checked": {"type": "boolean"},
        "algorithms": {**list_of(TEXT), "description": "of each row, if the tuner chose them"},
        "protocols": {**list_of({"enum": list(PROTOCOLS)}), "description": "of each row, if the tuner chose them"},
        "warmup": {**COUNT, "description": "launches before those that are timed"},
        "iters": {**COUNT, "description": "launches whose mean is the time"},
        "runtime": {**TEXT, "description": "the profile whose costs of each launch are in the times, if one was given"},
        "rows": list_of(closed({**row, "in_place": or_null(place)}, ("in_place",))),
        "unfinished": {**list_of(COUNT), "description": "[B] requested sizes that are not in rows"},
        "result": result,
    }, ("message", "result", "algorithms", "protocols", "warmup", "iters", "runtime"))  # fmt: skip
    many = closed({"status": {"enum": list(STATUSES)}, "runs": list_of(one)})
    return titled("kernbench collectives", {"anyOf": [one, many]})


def replay_json_schema() -> Shape:
    """Return the JSON Schema (draft 2020-12) of `kbsim ccl replay --json`."""
    kinds = {"compute": COUNT, "communication": COUNT, "cpu": COUNT}
    call = {
        "collective": {"enum": ["send", *COLLECTIVES]},
        "size": {**COUNT, "description": "[B] that a rank has before it"},
        "ranks": list_of(COUNT),
        "algorithm": {**TEXT, "description": "- where nothing is sent"},
        "cycles": COUNT,
        "times": {**COUNT, "description": "how often the trace has it"},
    }
    return titled(
        "kernbench replay",
        closed({
            "status": {"enum": ["done"]},
            "machine": TEXT,
            "ranks": COUNT,
            "cycles": COUNT,
            "time_us": NUMBER,
            "estimated": {"type": "boolean"},
            "critical_path": closed(kinds),
            "per_rank": list_of(closed({"rank": COUNT, "nodes": COUNT, **kinds, "end": COUNT})),
            "communication": list_of(closed(call)),
        }),
    )  # fmt: skip
