"""The JSON Schema of what `kbsim serve --json` prints."""

from __future__ import annotations

from collections.abc import Sequence

from kernbench.common.json_shapes import COUNT, NUMBER, TEXT, Shape, closed, list_of, or_null, titled
from kernbench.workloads.serving.result import GOALS, METRICS, TIMELINE, TPOT_PARTS, TTFT_PARTS

_SUMMARY = closed({"count": COUNT, **dict.fromkeys(("mean", "median", "std", "p50", "p90", "p95", "p99"), NUMBER)})
_SIGNED: Shape = {"type": "number"}


def _parts(names: Sequence[str]) -> Shape:
    return or_null(closed({"bound": {"enum": list(names)}, **{f"{name}_ms": NUMBER for name in names}}))


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
        **dict.fromkeys(("preemptions", "cached_tokens", "prompt_tokens", "output_tokens", "steps"), COUNT),
        "whole": window,
        "steady": or_null(window),
        "timeline": closed({"interval_s": NUMBER, **dict.fromkeys(TIMELINE, list_of(NUMBER))}),
    }))  # fmt: skip
