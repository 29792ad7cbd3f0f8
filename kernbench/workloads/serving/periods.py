"""The limits of latencies over time: a run in periods, each with the parts of its latencies and the limit of the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.workloads.blocks.batch import Sequences
from kernbench.workloads.serving.fleet import Role
from kernbench.workloads.serving.machine_step import MachineStep
from kernbench.workloads.serving.result import TPOT_PARTS, TTFT_PARTS, ServingResult, Window
from kernbench.workloads.serving.timeline import Interval, Timeline

MAX_PERIODS = 1024
_DEFAULT_PERIODS = 12

#: The first change to try, by the largest part.
REMEDIES: Mapping[str, str] = {
    "kv_blocks": "more room for the KV cache: fewer bits (--kv-cache-dtype fp8, --w) or more devices (--tp, --replicas)",
    "sequence_slots": "a larger --max-num-seqs (with adapters --max-loras), or more engines (--replicas)",
    "token_budget": "a larger --max-num-batched-tokens if TPOT allows it, or more engines (--replicas)",
    "running_step": "shorter steps: a smaller --max-num-batched-tokens, or more engines (--replicas)",
    "prefill": "a faster device or more devices (--tp), or shorter chunks beside it (--max-num-batched-tokens)",
    "decode_step": "a faster device or more devices (--tp), or fewer bits of weights and cache (--w, --kv-cache-dtype)",
    "prefill_step": "a smaller --max-num-batched-tokens, or engines that only prefill (--prefill-replicas)",
    "pipeline": "fewer stages (--pp) with more devices each (--tp), or more engines (--replicas)",
    "host": "a runtime profile with less host work (--runtime), or --async-scheduling",
    "between_steps": "fewer preemptions: more room for the KV cache, or a smaller --max-num-seqs",
}


@dataclass(frozen=True, slots=True)
class Limit:
    """What limits a typical step: each resource with the share of the step's time that it needs alone."""

    kind: str  #: `decode` or `prefill`
    sequences: tuple[Sequences, ...]
    shares: dict[str, float]  #: the largest first

    @property
    def resource(self) -> str:
        """The resource that needs the largest share."""
        return next(iter(self.shares))

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data."""
        tokens = sum(one.tokens * one.count for one in self.sequences)
        return {"kind": self.kind, "tokens": tokens, "resource": self.resource, "shares": dict(self.shares)}


@dataclass(frozen=True, slots=True)
class EngineGroup:
    """Equal engines of a run: their step timer, the number of blocks of one, and their common timeline."""

    step: MachineStep
    timeline: Timeline
    machine: str = ""
    role: Role = "both"
    count: int = 1
    blocks: int = 1


@dataclass(frozen=True, slots=True)
class GroupPeriod:
    """The results of a group's engines in a period."""

    group: EngineGroup
    busy: float  #: share of the time of its engines
    kv_share: float  #: of its blocks, as a mean over the busy time
    step_ns: dict[str, int]  #: of steps by kind
    ttft_limit: Limit | None  #: of a typical step with prefill
    tpot_limit: Limit | None  #: of a typical step of the kind that contributes most to TPOT

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data."""
        return {
            "machine": self.group.machine, "role": self.group.role, "engines": self.group.count, "busy": round(self.busy, 6),
            "kv_share": round(self.kv_share, 6), **_limits(self),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Period:
    """A part of a run. Latencies are those of requests that arrive in the period, and of tokens that are produced in it."""

    window: Window
    arrived: int
    ended: int
    ttft: dict[str, Any] | None  #: in the format of `ServingResult.why`
    tpot: dict[str, Any] | None
    running: float  #: requests, on average over the busy time
    waiting: float
    kv_blocks: float
    groups: tuple[GroupPeriod, ...]

    @property
    def ttft_limit(self) -> Limit | None:
        """The limit of a typical step with prefill, in the group that spends most time in such steps."""
        return max(self.groups, key=lambda one: one.step_ns["prefill"]).ttft_limit if self.groups else None

    @property
    def tpot_limit(self) -> Limit | None:
        """The limit of a typical step of the kind that contributes most to TPOT, in the group that spends most time in such
        steps."""
        limits = [(one.step_ns[limit.kind], limit) for one in self.groups if (limit := one.tpot_limit) is not None]
        return max(limits, key=itemgetter(0))[1] if limits else None

    @property
    def kv_share(self) -> float:
        """The share of all blocks, as a mean over the busy time."""
        busy = sum(sum(one.step_ns.values()) for one in self.groups)
        return sum(one.kv_share * sum(one.step_ns.values()) for one in self.groups) / max(1, busy)

    @property
    def parts(self) -> dict[str, dict[str, float]]:
        """The share of each part of TTFT and TPOT."""
        return {name: shares_of(of, parts) for name, of, parts in _latencies(self)}

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data."""
        found: dict[str, Any] = {
            "start_s": self.window.start_ns / 1e9, "end_s": (self.window.end_ns + 1) / 1e9,
            "arrived": self.arrived, "ended": self.ended,
            "running": round(self.running, 6), "waiting": round(self.waiting, 6), "kv_blocks": round(self.kv_blocks, 6),
            "kv_share": round(self.kv_share, 6),
        }  # fmt: skip
        for name, of, parts in _latencies(self):
            found[f"{name}_ms"] = None if of is None else sum(of[f"{part}_ms"] for part in parts)
            found[name] = of
        return {**found, **_limits(self), "groups": [one.to_dict() for one in self.groups]}


def _limits(of: Period | GroupPeriod) -> dict[str, Any]:
    limits = {"ttft_limit": of.ttft_limit, "tpot_limit": of.tpot_limit}
    return {name: None if limit is None else limit.to_dict() for name, limit in limits.items()}


def _latencies(period: Period) -> tuple[tuple[str, dict[str, Any] | None, Sequence[str]], ...]:
    return ("ttft", period.ttft, TTFT_PARTS), ("tpot", period.tpot, TPOT_PARTS)


def shares_of(of: Mapping[str, Any] | None, parts: Sequence[str]) -> dict[str, float]:
    """The share of each part that is not 0, the largest first."""
    values = {part: float((of or {}).get(f"{part}_ms", 0.0)) for part in parts}
    whole = sum(values.values())
    return {part: value / whole for part, value in sorted(values.items(), key=lambda one: -one[1]) if value > 0}


def periods_of(result: ServingResult, groups: Sequence[EngineGroup], every_s: float | None = None) -> list[Period]:
    """The run in periods of about `every_s` seconds; a period consists of whole intervals of its timeline. By default at most
    12 periods.

    InputError if there would be more than 1,024 periods.
    """
    line = result.record.timeline
    count = len(line.intervals)
    if every_s is None:
        each = max(1, -(-count // _DEFAULT_PERIODS))
    else:
        each = max(1, round(every_s * 1e9 / line.length_ns))
        if every_s * 1e9 * MAX_PERIODS < result.end_ns:
            rule = f"it gives more than {MAX_PERIODS} periods of a run of {result.end_ns / 1e9:.6g} s"
            raise InputError(Problem("kbsim serve why", rule, "--every", every_s))
    for group in groups:
        group.timeline.coarsen(line.length_ns)
    known: dict[tuple[MachineStep, tuple[Sequences, ...]], dict[str, float]] = {}
    found = []
    for first in range(0, count, each):
        window = Window(first * line.length_ns, min((first + each) * line.length_ns - 1, max(result.end_ns, 1)))
        whole, *of_groups = (_sums(one, first, each) for one in (line, *(group.timeline for group in groups)))
        why, busy = result.why(window), max(1, whole.busy_ns)
        tpot = why["tpot"]
        kind = "decode" if tpot is None or tpot["decode_step_ms"] >= tpot["prefill_step_ms"] else "prefill"
        ns = window.end_ns + 1 - window.start_ns
        of = [_of_group(group, sums, ns, kind, known) for group, sums in zip(groups, of_groups, strict=True)]
        found.append(Period(
            window, whole.arrived, whole.ended, why["ttft"], tpot, whole.running_ns / busy, whole.waiting_ns / busy,
            whole.kv_ns / busy, tuple(of),
        ))  # fmt: skip
    return found


def _sums(line: Timeline, first: int, count: int) -> Interval:
    whole = Interval()
    for one in line.intervals[first : first + count]:
        whole.take(one)
    return whole


def _of_group(
    group: EngineGroup, sums: Interval, ns: int, kind: str,
    known: dict[tuple[MachineStep, tuple[Sequences, ...]], dict[str, float]],
) -> GroupPeriod:  # fmt: skip
    """`ns`: of the period; `kind`: of the steps that TPOT is mostly made of; `known`: limits of steps that are known."""

    def limit(of: str) -> Limit | None:
        typical = typical_step(sums, of)
        if not typical:
            return None
        if (group.step, typical) not in known:
            known[group.step, typical] = group.step.limits(typical)
        return Limit(of, typical, known[group.step, typical])

    step_ns = {"prefill": sums.prefill_ns, "decode": sums.busy_ns - sums.prefill_ns}
    ttft = None if group.role == "decode" else limit("prefill")
    tpot = None if group.role == "prefill" else limit(kind)
    kv = sums.kv_ns / max(1, sums.busy_ns) / group.blocks
    busy = min(1.0, sums.busy_ns / (ns * group.count))  # a step counts in the period of its start, and may end later
    return GroupPeriod(group, busy, kv, step_ns, ttft, tpot)


def typical_step(whole: Interval, kind: str) -> tuple[Sequences, ...]:
    """A step of mean size, of the steps with prefill (`prefill`) or of those with decodes only (`decode`); empty if there is
    none.

    Sizes are rounded to three binary digits, so that similar periods share one step, which is simulated once.
    """
    if kind == "prefill":
        steps, decodes, context = whole.prefill_steps, whole.prefill_decodes, whole.prefill_decode_context
        drafts = whole.prefill_drafts
    else:
        steps = whole.steps - whole.prefill_steps
        decodes, context = whole.decodes - whole.prefill_decodes, whole.decode_context - whole.prefill_decode_context
        drafts = whole.drafts - whole.prefill_drafts
    if not steps:
        return ()
    found = []
    if kind == "prefill":
        chunks = max(1, round(whole.chunks / steps))
        tokens, before = whole.prefill_tokens / steps / chunks, whole.chunk_context / whole.chunks
        found.append(Sequences(max(1, _rounded(tokens)), _rounded(before), chunks))
    if round(decodes / steps):
        found.append(Sequences(1 + round(drafts / decodes), _rounded(context / decodes), _rounded(decodes / steps)))
    return tuple(found)


def _rounded(value: float) -> int:
    """The value, rounded to three binary digits."""
    step = 1 << max(0, round(value).bit_length() - 3)
    return round(value / step) * step


def advice(periods: Sequence[Period]) -> dict[str, str]:
    """The change to try first for each latency, by the part that took most time over all periods and requests."""
    found = {}
    for name, parts in (("ttft", TTFT_PARTS), ("tpot", TPOT_PARTS)):
        sums = dict.fromkeys(parts, 0.0)
        for period in periods:
            of = period.ttft if name == "ttft" else period.tpot
            weight = period.arrived if name == "ttft" else period.running
            for part in parts:
                sums[part] += weight * (of or {}).get(f"{part}_ms", 0.0)
        if any(sums.values()):
            found[name] = REMEDIES[max(parts, key=lambda part: sums[part])]
    return found
