"""The JSON Schema of a sweep's spec, for editors: it describes only the form. `load_spec` checks whether names exist and values
are valid."""

from __future__ import annotations

from typing import Any

from kernbench.sweep.area import KEY
from kernbench.sweep.axes import MAX_LEVELS
from kernbench.sweep.goals import DERIVED, GOALS
from kernbench.sweep.spec import SCHEMA
from kernbench.sweep.spec.load import KEYS
from kernbench.sweep.spec.search import MAX_BATCH, MAX_POINTS, SAMPLERS
from kernbench.sweep.spec.targets import KINDS

TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
SECONDS: dict[str, Any] = {"type": "number", "exclusiveMinimum": 0}
NUMBER: dict[str, Any] = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^-?[0-9]+/[0-9]+$"}]}
VALUES: dict[str, Any] = {"type": "array", "minItems": 1, "maxItems": MAX_LEVELS}
_TARGET_PARTS: dict[str, dict[str, Any]] = {"label": TEXT, "params": {"type": "object"}, "verify": {"type": "boolean"}}


def _count(low: int, high: int | None = None) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, **({} if high is None else {"maximum": high})}


def _object(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False, **more}


def _targets() -> dict[str, Any]:
    kinds = [_object({key: _TARGET_PARTS.get(key, TEXT) for key in keys}, kind) for kind, keys in KINDS.items()]
    return {"type": "array", "minItems": 1, "items": {"anyOf": [TEXT, *kinds]}}


def _axis() -> dict[str, Any]:
    ends = {"from": NUMBER, "to": NUMBER, "step": NUMBER}
    how = {"count": _count(1, MAX_LEVELS), "scale": {"enum": ["linear", "log"]}, "multiple_of": _count(1)}
    return {"anyOf": [VALUES, _object(ends | how, "from", "to")]}


def _sample() -> dict[str, Any]:
    points, seed = _count(1, MAX_POINTS), _count(0)
    return {"oneOf": [_object({kind: points, "seed": seed}, kind) for kind in ("random", "sobol")]}


def sweep_json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of `kernbench/sweep/1`."""
    ways = {"enum": ["min", "max"]}
    parts: dict[str, Any] = {
        "schema": {"const": SCHEMA},
        "name": TEXT,
        "targets": _targets(),
        "machine": {"anyOf": [TEXT, {"type": "array", "items": TEXT}]},
        "set": {"type": "object", "description": "values of the machine that all points have"},
        "axes": {"type": "object", "additionalProperties": _axis()},
        "zip": {
            "type": "array",
            "items": {"type": "object", "minProperties": 1, "additionalProperties": VALUES},
            "description": "groups of axes that move together",
        },
        "where": {"type": "array", "items": TEXT, "description": "conditions that every point must keep"},
        "sample": _sample(),
        "limits": _object({"seconds": SECONDS, "memory": {"type": ["string", "integer"]}}),
        "budget": _object({"points": _count(1), "seconds": SECONDS}),
        "goals": _object(
            dict.fromkeys((*GOALS, *DERIVED), ways),
            patternProperties={"[-+*/%]": ways},
            description="what is better: numbers of results, and expressions of them",
        ),
        "constraints": {"type": "array", "items": TEXT, "description": "conditions that results must meet"},
        KEY: {**TEXT, "description": "a table of components: results have the area of their machine"},
        "search": {
            "oneOf": [
                _object(
                    {"trials": _count(1, MAX_POINTS), "sampler": {"enum": list(SAMPLERS)}, "seed": _count(0, 2**32 - 1)}
                    | {"batch": _count(1, MAX_BATCH), "prune": {"type": "boolean"}},
                    "trials",
                ),
                _object({"largest": TEXT, "meets": TEXT}, "largest", "meets"),
            ]
        },
        "invalid": {"enum": ["refuse", "skip"]},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The spec of a sweep",
        **_object({key: parts[key] for key in KEYS}, "schema", "targets"),
    }
