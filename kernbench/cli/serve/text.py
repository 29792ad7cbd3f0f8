"""How the commands of `kbsim serve` show times, causes and costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kernbench.cli.text import duration, percent, scaled
from kernbench.common.json_shapes import counted

_KWH = 3.6e6  #: [J]

#: Metrics in the output.
TITLES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2el": "E2EL", "queue": "queue"}


def ms_text(value: float) -> str:
    """A time in ms, in its unit."""
    return duration(value * 1e6)


#: The names of the parts of `why` in the output.
PARTS = {
    "kv_blocks": "waiting for KV blocks",
    "sequence_slots": "waiting for a place (--max-num-seqs)",
    "token_budget": "waiting for tokens of a step (--max-num-batched-tokens)",
    "running_step": "waiting for steps scheduled before",
    "prefill": "prefill",
    "decode_step": "steps of decodes alone",
    "prefill_step": "steps with prefill",
    "pipeline": "waiting for stages of the pipeline",
    "host": "host beyond the device",
    "between_steps": "preempted or not scheduled",
}


#: Shorter names for narrow columns.
SHORT_PARTS = {
    "kv_blocks": "KV blocks",
    "sequence_slots": "--max-num-seqs",
    "token_budget": "tokens of a step",
    "running_step": "steps before",
    "prefill": "prefill",
    "decode_step": "decode steps",
    "prefill_step": "prefill steps",
    "pipeline": "pipeline",
    "host": "host",
    "between_steps": "not scheduled",
}


def why_parts(of: Mapping[str, Any] | None) -> dict[str, float]:
    """The share of each part of TTFT or of the time between tokens; parts of nothing are left out."""
    values = {name.removesuffix("_ms"): value for name, value in (of or {}).items() if name != "bound"}
    whole = sum(values.values())
    return {name: value / whole for name, value in values.items() if value > 0}


def why_lines(shown: Mapping[str, Any]) -> Iterator[str]:
    """The parts of TTFT and TPOT, the largest part first."""
    for name in ("ttft", "tpot"):
        parts = why_parts(shown["why"][name])
        if parts:
            largest = sorted(parts, key=lambda one: -parts[one])
            yield f"{TITLES[name]} is " + ", ".join(f"{percent(parts[one])} {PARTS[one]}" for one in largest)


def cost_lines(cost: Mapping[str, Any], energy: Mapping[str, Any]) -> Iterator[str]:
    """What a million output tokens cost: money, energy from the supply, and energy by the model of the machine."""
    usd, supply = (cost.get(f"{name}_per_million_output_tokens") for name in ("usd", "supply_joules"))
    parts = [] if usd is None else [f"${usd:.3g}"]
    parts += [] if supply is None else [f"{supply / _KWH:.3g} kWh from the supply"]
    if parts:
        yield f"a million output tokens cost {' and '.join(parts)}"
    joules = energy.get("joules_per_million_output_tokens")
    if joules is not None:
        by_part = energy.get("by_part_j", {})
        whole = sum(by_part.values())
        largest = sorted(by_part, key=lambda one: -by_part[one])
        by_share = ", ".join(f"{one} {percent(by_part[one] / whole)}" for one in largest if by_part[one] >= whole / 100)
        yield f"energy {_energy_text(joules / 1e6)} an output token{by_share and f': {by_share}'}"
    each = energy.get("request_j")
    if each is not None:
        yield f"energy of a request: mean {_energy_text(each['mean'])}, p99 {_energy_text(each['p99'])}"


def _energy_text(joules: float) -> str:
    return scaled(joules * 1e12, ("pJ", "nJ", "uJ", "mJ", "J"))


def table_text(of: Mapping[str, Any]) -> str:
    """Where the times of steps come from, and their error."""
    steps = f"{counted(of['entries'], 'step')}, {of['simulated']:,} of them simulated now"
    return f"step times interpolated between {steps}{error_text(of['error'])}"


def error_text(error: Mapping[str, Any] | None) -> str:
    """The difference between interpolated and exact steps, as the end of a line."""
    if error is None:
        return ""
    steps = counted(error["steps"], "exact step")
    return f"; error {error['mean']:.1%} on average, {error['worst']:.1%} at most in {steps}"
