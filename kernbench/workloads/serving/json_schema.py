"""The JSON Schemas of the output of `kbsim serve` with `--json`: of a run, of `why` and of `capacity`."""

from __future__ import annotations

from collections.abc import Sequence

from kernbench.common.json_shapes import COUNT, NUMBER, TEXT, Shape, closed, list_of, map_of, or_null, titled
from kernbench.workloads.serving.fleet import ROLES
from kernbench.workloads.serving.result import GOALS, METRICS, TIMELINE, TPOT_PARTS, TTFT_PARTS

_SUMMARY = closed({"count": COUNT, **dict.fromkeys(("mean", "median", "std", "p50", "p90", "p95", "p99"), NUMBER)})
_COST = tuple(f"{name}_per_million_{of}" for name in ("usd", "supply_joules") for of in ("output_tokens", "tokens"))
_SIGNED: Shape = {"type": "number"}


def _parts(names: Sequence[str]) -> Shape:
    return or_null(closed({"bound": {"enum": list(names)}, **{f"{name}_ms": NUMBER for name in names}}))


_LIMIT = or_null(
    closed({"kind": {"enum": ["decode", "prefill"]}, "tokens": COUNT, "resource": TEXT, "shares": map_of(NUMBER)})
)


def serve_why_json_schema() -> Shape:
    """JSON Schema (draft 2020-12) of `kbsim serve why --json`."""
    limits = {"ttft_limit": _LIMIT, "tpot_limit": _LIMIT}
    group = closed({
        "machine": TEXT, "role": {"enum": list(ROLES)}, "engines": COUNT, "busy": NUMBER, "kv_share": NUMBER, **limits,
    })  # fmt: skip
    period = closed(
        {
            "start_s": NUMBER, "end_s": NUMBER, "arrived": COUNT, "ended": COUNT,
            **dict.fromkeys(("running", "waiting", "kv_blocks", "kv_share"), NUMBER), "groups": list_of(group), **limits,
            "ttft_ms": or_null(NUMBER), "ttft": _parts(TTFT_PARTS),
            "tpot_ms": or_null(NUMBER), "tpot": _parts(TPOT_PARTS),
        }
    )  # fmt: skip
    advice = {"type": "object", "properties": {"ttft": TEXT, "tpot": TEXT}, "additionalProperties": False}
    return titled("kernbench serve why", closed({
        "status": {"const": "done"}, "model": TEXT, "machine": TEXT, "num_gpu_blocks": COUNT, "engines": COUNT,
        "periods": list_of(period), "advice": advice,
    }))  # fmt: skip


def serve_capacity_json_schema() -> Shape:
    """JSON Schema (draft 2020-12) of `kbsim serve capacity --json`."""
    seed = closed({"seed": COUNT, "met": NUMBER, "missed": or_null(NUMBER), "runs": COUNT, "bound": TEXT})
    return titled("kernbench serve capacity", closed({
        "status": {"const": "done"}, "model": TEXT, "machine": TEXT,
        **dict.fromkeys(("tp", "pp", "dp", "replicas", "prefill_replicas"), COUNT), "router": TEXT, "machines": COUNT,
        "slo": list_of(TEXT), "rate": NUMBER,
        "interval": {"type": "array", "items": or_null(_SIGNED), "minItems": 2, "maxItems": 2}, "bound": TEXT,
        "seeds": list_of(seed),
        "requests_per_s_per_usd_per_hour": or_null(NUMBER), "requests_per_s_per_watt": or_null(NUMBER),
        **dict.fromkeys(_COST, or_null(NUMBER)), "joules_per_million_output_tokens": or_null(NUMBER),
    }))  # fmt: skip


def serve_json_schema() -> Shape:
    """JSON Schema (draft 2020-12) of a run of an engine."""
    rates = dict.fromkeys(("requests_per_s", "output_tokens_per_s", "total_tokens_per_s"), NUMBER)
    window = closed(
        {
            "start_s": NUMBER, "end_s": NUMBER, **rates,
            "why": closed({"ttft": _parts(TTFT_PARTS), "tpot": _parts(TPOT_PARTS)}),
            "goodput_per_s": NUMBER, "good_share": {**NUMBER, "maximum": 1},
            **{f"{name}_ms": or_null(_SUMMARY) for name in METRICS},
        },
        optional=("goodput_per_s", "good_share"),
    )  # fmt: skip
    speculation = closed({
        **dict.fromkeys(("verifications", "draft_tokens", "accepted_tokens"), COUNT),
        **dict.fromkeys(("acceptance_rate", "acceptance_length"), NUMBER), "accepted_per_position": list_of(NUMBER),
    })  # fmt: skip
    fleet = closed({
        "machine": TEXT, "role": {"enum": list(ROLES)}, **dict.fromkeys(("count", "tp", "pp", "dp", "num_gpu_blocks"), COUNT),
        "served": list_of(COUNT), "busy": list_of(NUMBER),
    })  # fmt: skip
    cost = closed(dict.fromkeys(_COST, or_null(NUMBER)))
    energy = closed({
        "joules": NUMBER, "by_part_j": map_of(NUMBER),
        **dict.fromkeys(("joules_per_million_output_tokens", "joules_per_million_tokens"), or_null(NUMBER)),
        "request_j": or_null(_SUMMARY),
    })  # fmt: skip
    error = closed({"steps": COUNT, "mean": NUMBER, "bias": _SIGNED, "worst": NUMBER})
    goals = {"type": "object", "properties": dict.fromkeys(GOALS, NUMBER), "additionalProperties": False}
    return titled("kernbench serve", closed({
        "status": {"const": "done"},
        "model": TEXT,
        "machine": TEXT,
        "num_gpu_blocks": COUNT,
        "block_size": COUNT,
        "max_model_len": COUNT,
        "goals_ms": goals,
        "table": or_null(closed({"entries": COUNT, "simulated": COUNT, "error": or_null(error)})),
        "duration_s": NUMBER,
        "requests": closed(dict.fromkeys(("finished", "aborted", "rejected"), COUNT)),
        **dict.fromkeys(("preemptions", "cached_tokens", "prompt_tokens", "output_tokens", "steps", "swapped_blocks"), COUNT),
        "speculation": or_null(speculation),
        "whole": window,
        "steady": or_null(window),
        "cost": or_null(cost),
        "energy": or_null(energy),
        "fleet": or_null(list_of(fleet)),
        "timeline": closed({"interval_s": NUMBER, **dict.fromkeys(TIMELINE, list_of(NUMBER))}),
    }))  # fmt: skip
