"""The results of a run of the engine: latencies, throughputs, and a row for each request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import meant
from kernbench.workloads.serving.engine import Engine
from kernbench.workloads.serving.request import Request, State
from kernbench.workloads.serving.scheduler import BLOCKED, StepBatch, Tokens
from kernbench.workloads.serving.spill import Spill
from kernbench.workloads.serving.statistics import Summary, summary, truncation
from kernbench.workloads.serving.step_trace import StepTrace
from kernbench.workloads.serving.timeline import Timeline

_COLUMNS = (
    "id", "arrival_ns", "scheduled_ns", "first_token_ns", "last_token_ns", "prompt", "output", "generated", "cached",
    "preemptions", "state", "energy_pj", *(f"queued_{name}_ns" for name in BLOCKED),
)  # fmt: skip
_NEVER = -1  #: a time in a row that does not exist
METRICS = ("ttft", "tpot", "itl", "e2el", "queue")
#: Parts of TTFT: waiting in the queue by the resource that was missing, waiting for steps that were already scheduled, and the
#: time from the first step to the first token.
TTFT_PARTS = (*BLOCKED, "running_step", "prefill")
#: Parts of the time between tokens: the device in steps with decodes only and in steps with prefill, waiting for pipeline
#: stages that other steps occupy, the time of the host beyond both, and time without a step of the request.
TPOT_PARTS = ("decode_step", "prefill_step", "pipeline", "host", "between_steps")
_POINTS = 200  #: points of a curve
GOALS = ("ttft", "tpot", "e2el")  #: latencies for which a request can have a goal


class Record:
    """Records the events of an engine."""

    def __init__(self, trace: StepTrace | None = None) -> None:
        self.trace = trace
        self.requests = Spill(_COLUMNS)
        # a time between tokens, the number of such times, the time of the step, the time of its device, its wait for pipeline
        # stages that other steps occupied, and whether the step has prefill
        self.gaps = Spill(("at_ns", "ns", "count", "step_ns", "device_ns", "pipeline_ns", "prefill"))
        self.timeline = Timeline()
        self.steps = 0
        self.drafts: Counter[int] = Counter()  # verifications by the number of their drafts
        self.accepted: Counter[int] = Counter()  # verifications by the number of accepted drafts
        self.swapped_blocks = 0  # blocks that were moved to the host or back
        self.device_ns = 0  # [ns] device time of all steps, without the time of the host beyond the device
        self.energy_pj: dict[str, float] = {}  # [pJ] of all steps by part of the machine

    def step(self, engine: Engine, batch: StepBatch, start_ns: int, end_ns: int, tokens: Tokens) -> None:
        """A step has ended."""
        self.steps += 1
        flight, took = engine.ended, end_ns - start_ns
        self.device_ns += min(took, flight.device_ns)
        if self.trace is not None:
            self.trace.step(batch, start_ns, end_ns, flight.stages)
        self.timeline.step(batch, tokens, start_ns, took // engine.places, sum(flight.energy_pj.values()))
        of_step = took, flight.device_ns, flight.queued_ns, bool(batch.chunks)
        if tokens.continued:
            self.gaps.append(end_ns, end_ns - engine.last_end_ns, tokens.continued, *of_step)
        for gap, count in Counter(tokens.gaps_ns).items():
            self.gaps.append(end_ns, gap, count, *of_step)
        for drafts, accepted in tokens.verified:
            self.drafts[drafts] += 1
            self.accepted[accepted] += 1
        self.swapped_blocks += batch.swapped_blocks
        for name, pj in flight.energy_pj.items():
            self.energy_pj[name] = self.energy_pj.get(name, 0.0) + pj

    def request(self, request: Request, now_ns: int) -> None:
        """A request has ended."""
        self.timeline.at(request.arrival_ns).arrived += 1
        self.timeline.at(now_ns).ended += 1
        times = (request.scheduled_ns, request.first_token_ns, request.last_token_ns)
        self.requests.append(
            request.id, request.arrival_ns, *(_NEVER if one is None else one for one in times), request.prompt, request.output,
            request.generated, request.cached, request.preemptions, request.state, round(request.energy_pj),
            *(request.queued_ns if request.scheduled_ns is not None else [0] * len(BLOCKED)),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a run, between two arrivals."""

    start_ns: int
    end_ns: int


class _Columns(dict[str, NDArray[Any]]):
    """Columns of the requests; a column is read at its first use."""

    def __init__(self, requests: Spill) -> None:
        super().__init__()
        self._requests = requests

    def __missing__(self, name: str) -> NDArray[Any]:
        found = self[name] = self._requests.column(name)
        return found


class ServingResult:
    """The result of a run. `kernbench.serving.simulate` makes it.

    The run has three parts: `warmup`, until latencies are those of the rest (by the rule MSER-5); `steady`, until the last
    arrival; and the time in which the remaining requests are served. Numbers cover the whole run or its steady part.
    """

    def __init__(self, record: Record, end_ns: int) -> None:
        self.record = record
        self.end_ns = end_ns
        self._columns = _Columns(record.requests)
        arrival = self._columns["arrival_ns"]
        self._done: NDArray[np.bool_] = self._columns["state"] == State.FINISHED
        self.whole = Window(int(arrival.min()) if len(arrival) else 0, end_ns)
        self.steady = self._find_steady()

    def _find_steady(self) -> Window | None:
        """None if all requests arrived at once, or if there were too few."""
        arrival, last = (self._columns[name][self._done] for name in ("arrival_ns", "last_token_ns"))
        order = np.argsort(arrival, kind="stable")
        place = truncation(((last - arrival)[order]).astype(np.float64))
        if place is None or arrival[order[place]] == arrival[order[-1]]:
            return None
        return Window(int(arrival[order[place]]), int(arrival[order[-1]]))

    def count(self, state: State) -> int:
        """The number of requests that ended in this state."""
        return int(np.count_nonzero(self._columns["state"] == state))

    def count_tokens(self, kind: str) -> int:
        """The sum of the `prompt` or `output` tokens of the finished requests."""
        return int(self._columns[kind][self._done].sum())

    @property
    def backlog(self) -> float:
        """The share of the requests that had not ended when the last one arrived; if it is near 1, the run has no steady
        part."""
        arrival, last = self._columns["arrival_ns"], self._columns["last_token_ns"]
        return float(np.mean(last > arrival.max())) if len(arrival) else 0.0

    def _inside(self, window: Window | None) -> NDArray[np.bool_]:
        arrival, found = self._columns["arrival_ns"], self._done
        if window is not None:
            found = found & (arrival >= window.start_ns) & (arrival <= window.end_ns)
        return found

    def values_ms(self, metric: str, window: Window | None = None) -> NDArray[np.float64]:
        """[ms] `ttft`, `tpot`, `e2el` or `queue` of each finished request that arrived in the window; nan if the request has no
        such time."""
        inside = self._inside(window)
        arrival, first, last, output = (
            self._columns[name][inside] for name in ("arrival_ns", "first_token_ns", "last_token_ns", "output")
        )
        found: NDArray[np.float64]
        if metric == "ttft":
            found = (first - arrival) / 1e6
        elif metric == "e2el":
            found = (last - arrival) / 1e6
        elif metric == "queue":
            found = (self._columns["scheduled_ns"][inside] - arrival) / 1e6
        elif metric == "tpot":
            found = np.where(output > 1, (last - first) / np.maximum(output - 1, 1) / 1e6, np.nan)
        else:
            rule = f"it must be one of {', '.join(METRICS)}"
            raise InputError(Problem("serving", rule, "metric", metric, meant(metric, METRICS)))
        return found

    def joules(self) -> Summary | None:
        """[J] of the finished requests: each has its share of the energy of its steps. None if energy was not simulated."""
        return summary(self._columns["energy_pj"][self._done] / 1e12) if self.record.energy_pj else None

    def summary(self, metric: str, window: Window | None = None) -> Summary | None:
        """The summary in ms of one of `ttft`, `tpot`, `itl`, `e2el`, `queue`; None if there is no value."""
        if metric != "itl":
            values = self.values_ms(metric, window)
            return summary(values[~np.isnan(values)])
        gaps, count = self._gaps(window, "ns", "count")
        return summary(gaps / 1e6, count)

    def _gaps(self, window: Window | None, *names: str) -> list[NDArray[Any]]:
        """Columns of the times between tokens that end in the window."""
        columns = [self.record.gaps.column(name) for name in names]
        if window is None:
            return columns
        at = self.record.gaps.column("at_ns")
        inside = (at >= window.start_ns) & (at <= window.end_ns)
        return [column[inside] for column in columns]

    @property
    def longest_step_ns(self) -> int:
        """[ns] The longest step that gave a request its second or a later token."""
        return int(self.record.gaps.column("step_ns").max(initial=0))

    def curve_ms(self, metric: str, window: Window | None = None) -> list[tuple[float, float]]:
        """The cumulative distribution in at most a few hundred points: a time in ms, and the share of values that are at most
        this time."""
        if metric == "itl":
            gaps, count = self._gaps(window, "ns", "count")
            values = gaps / 1e6
        else:
            values = self.values_ms(metric, window)
            values = values[~np.isnan(values)]
            count = np.ones(len(values), np.int64)
        if not len(values):
            return []
        order = np.argsort(values, kind="stable")
        ends = np.cumsum(count[order])
        shares = np.arange(_POINTS + 1) / _POINTS
        places = np.minimum(np.searchsorted(ends, shares * ends[-1]), len(values) - 1)
        return [(float(values[order[place]]), float(share)) for place, share in zip(places, shares, strict=True)]

    def why(self, window: Window | None = None) -> dict[str, Any]:
        """The parts of TTFT and of the time between tokens that the engine measures.

        `ttft`: [ms] the mean over requests, by the resource that was missing in the queue, and of the prefill. `tpot`: [ms] the
        mean over tokens, by the work of the token's step. None if there is no value. The parts add up to the mean of `ttft` and
        `itl`.
        """
        inside = self._inside(window)
        arrival, scheduled, first = (self._columns[f"{name}_ns"][inside] for name in ("arrival", "scheduled", "first_token"))
        queued = [int(self._columns[f"queued_{name}_ns"][inside].sum()) for name in BLOCKED]
        prefill, queue = int((first - scheduled).sum()), int((scheduled - arrival).sum())
        ttft = dict(zip(TTFT_PARTS, (*queued, queue - sum(queued), prefill), strict=True))
        tpot, tokens = self._between_tokens(window)
        return {"ttft": _shares(ttft, len(arrival)), "tpot": _shares(tpot, tokens)}

    def _between_tokens(self, window: Window | None) -> tuple[dict[str, int], int]:
        """[ns] The sum of all times between tokens that end in the window, by part; and the number of these times."""
        sums, tokens = dict.fromkeys(TPOT_PARTS, 0), 0
        for block in self.record.gaps.blocks():
            columns = dict(zip(self.record.gaps.names, block.T, strict=True))
            at, count, step, waited = (columns[name] for name in ("at_ns", "count", "step_ns", "pipeline_ns"))
            if window is not None:
                count = count * ((at >= window.start_ns) & (at <= window.end_ns))
            worked = np.minimum(step, columns["device_ns"])
            mixed = worked * columns["prefill"]
            for part, ns in zip(TPOT_PARTS, (worked - mixed, mixed, waited, step - worked - waited, columns["ns"] - step),
                                strict=True):  # fmt: skip
                sums[part] += int((ns * count).sum())
            tokens += int(count.sum())
        return sums, tokens

    def rates(self, window: Window | None = None) -> dict[str, float]:
        """[1/s] of requests, output tokens and all tokens.

        For the whole run: the sums of all finished requests, divided by its duration. For a window: the sums of the requests
        that arrived in it, divided by the time in which this number of requests ends. This time is the length of the window,
        and longer if latency grows over the window.
        """
        inside = self._inside(window)
        seconds = self._seconds(window)
        output, prompt = (int(self._columns[name][inside].sum()) for name in ("output", "prompt"))
        counts = {"requests": int(np.count_nonzero(inside)), "output_tokens": output, "total_tokens": output + prompt}
        return {f"{name}_per_s": count / seconds if seconds else 0.0 for name, count in counts.items()}

    def _seconds(self, window: Window | None) -> float:
        """[s] The time in which the requests of a window end: the interval between two ends is the interval between the
        arrivals plus the growth of latency. The growth is the difference between the last and the first quarter of the
        requests."""
        if window is None:
            return (self.whole.end_ns - self.whole.start_ns) / 1e9
        inside = self._inside(window)
        arrival, last = (self._columns[name][inside] for name in ("arrival_ns", "last_token_ns"))
        quarter = len(arrival) // 4
        length = window.end_ns - window.start_ns
        if not quarter:
            return length / 1e9
        order = np.argsort(arrival, kind="stable")
        early, late = order[:quarter], order[-quarter:]
        apart = int(arrival[late].sum()) - int(arrival[early].sum())
        growth = int((last - arrival)[late].sum()) - int((last - arrival)[early].sum())
        return length * (1 + max(0, growth) / apart) / 1e9 if apart else length / 1e9

    def goodput(self, goals_ms: Mapping[str, float], window: Window | None = None) -> tuple[float, float]:
        """[1/s] The rate of requests that meet all goals (`ttft`, `tpot`, `e2el`: upper limits in ms), and their share of the
        finished requests."""
        for name in goals_ms:
            if name not in GOALS:
                rule = f"it must be one of {', '.join(GOALS)}"
                raise InputError(Problem("serving", rule, "goodput", name, meant(name, GOALS)))
        good = np.ones(int(np.count_nonzero(self._inside(window))), np.bool_)
        for name, most in goals_ms.items():
            good &= ~(self.values_ms(name, window) > most)  # a request of one token has no TPOT, and meets every goal for it
        seconds = self._seconds(window)
        count = int(np.count_nonzero(good))
        return (count / seconds if seconds else 0.0), (count / len(good) if len(good) else 0.0)

    def speculation(self) -> dict[str, Any] | None:
        """The results of drafts, counted as in vLLM; None if there were no drafts. Drafts after the end of a request count."""
        record = self.record
        verified = sum(record.drafts.values())
        if not verified:
            return None
        drafts = sum(count * times for count, times in record.drafts.items())
        accepted = sum(count * times for count, times in record.accepted.items())
        places = range(1, max(record.drafts) + 1)
        return {
            "verifications": verified,
            "draft_tokens": drafts,
            "accepted_tokens": accepted,
            "acceptance_rate": accepted / drafts,
            "acceptance_length": 1 + accepted / verified,
            "accepted_per_position": [
                sum(times for count, times in record.accepted.items() if count >= place) / verified for place in places
            ],
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each request, in the order in which they ended."""
        for block in self.record.requests.blocks():
            for values in block.tolist():
                yield row_of(dict(zip(_COLUMNS, values, strict=True)), bool(self.record.energy_pj))

    def to_dict(self, goals_ms: Mapping[str, float] | None = None) -> dict[str, Any]:
        """The run as plain data; `kbsim schema serve` describes it."""
        found: dict[str, Any] = {
            "duration_s": (self.end_ns - self.whole.start_ns) / 1e9,
            "requests": {state.name.lower(): self.count(state) for state in (State.FINISHED, State.ABORTED, State.REJECTED)},
            "preemptions": int(self._columns["preemptions"].sum()),
            "cached_tokens": int(self._columns["cached"].sum()),
            "prompt_tokens": int(self._columns["prompt"][self._done].sum()),
            "output_tokens": int(self._columns["generated"].sum()),
            "steps": self.record.steps,
            "speculation": self.speculation(),
            "swapped_blocks": self.record.swapped_blocks,
            "whole": self._window_dict(None, goals_ms),
            "steady": None if self.steady is None else self._window_dict(self.steady, goals_ms),
            "timeline": self._timeline_dict(),
        }
        return found

    def _window_dict(self, window: Window | None, goals_ms: Mapping[str, float] | None) -> dict[str, Any]:
        at = window or self.whole
        found: dict[str, Any] = {"start_s": at.start_ns / 1e9, "end_s": at.end_ns / 1e9, **self.rates(window)}
        if goals_ms:
            rate, share = self.goodput(goals_ms, window)
            found |= {"goodput_per_s": rate, "good_share": share}
        found["why"] = self.why(window)
        for metric in METRICS:
            of = self.summary(metric, window)
            found[f"{metric}_ms"] = None if of is None else of.to_dict()
        return found

    def _timeline_dict(self) -> dict[str, Any]:
        line = self.record.timeline
        length = line.length_ns
        columns: dict[str, list[float]] = {name: [] for name in TIMELINE}
        for one in line.intervals:
            busy = max(1, one.busy_ns)
            values = (
                one.busy_ns / length, one.prefill_ns / length, one.running_ns / busy, one.waiting_ns / busy, one.kv_ns / busy,
                one.preempted, one.prefill_tokens, one.tokens, one.arrived, one.ended, one.energy_pj / 1e12,
            )  # fmt: skip
            for name, value in zip(TIMELINE, values, strict=True):
                columns[name].append(round(value, 6))
        return {"interval_s": length / 1e9, **columns}


def _shares(parts_ns: Mapping[str, int], count: int) -> dict[str, Any] | None:
    """[ms] Each part divided by this number, and the name of the largest part."""
    if not count:
        return None
    bound = max(parts_ns, key=lambda name: parts_ns[name])
    return {"bound": bound, **{f"{name}_ms": ns / count / 1e6 for name, ns in parts_ns.items()}}


TIMELINE = (
    "busy", "prefill", "running", "waiting", "kv_blocks", "preempted", "prefill_tokens", "tokens", "arrived", "ended",
    "joules",
)  # fmt: skip


def row_of(plain: dict[str, int], energy: bool = False) -> dict[str, Any]:
    """A request as a row: times in ms, None for a time that does not exist. `energy`: whether the energy of steps was
    simulated."""
    arrival, scheduled, first, last = (plain[f"{name}_ns"] for name in ("arrival", "scheduled", "first_token", "last_token"))

    def since(end: int, begin: int) -> float | None:
        return None if _NEVER in (end, begin) else (end - begin) / 1e6

    decoded, between = plain["generated"] - 1, since(last, first)
    return {
        "id": plain["id"],
        "state": State(plain["state"]).name.lower(),
        "arrival_ms": arrival / 1e6,
        "prompt": plain["prompt"],
        "output": plain["output"],
        "generated": plain["generated"],
        "cached": plain["cached"],
        "preemptions": plain["preemptions"],
        "queue_ms": since(scheduled, arrival),
        "ttft_ms": since(first, arrival),
        "tpot_ms": between / decoded if between is not None and decoded > 0 else None,
        "e2el_ms": since(last, arrival),
        "joules": plain["energy_pj"] / 1e12 if energy else None,
    }
