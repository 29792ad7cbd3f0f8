"""What a run of the engine gave: latencies, throughputs, and a row for each request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernbench.workloads.serving.engine import Engine
from kernbench.workloads.serving.request import Request, State
from kernbench.workloads.serving.scheduler import StepBatch, Tokens
from kernbench.workloads.serving.spill import Spill
from kernbench.workloads.serving.statistics import Summary, summary
from kernbench.workloads.serving.timeline import Timeline

_COLUMNS = (
    "id", "arrival_ns", "scheduled_ns", "first_token_ns", "last_token_ns", "prompt", "output", "generated", "cached",
    "preemptions", "state",
)  # fmt: skip
_NEVER = -1  #: of a time in a row
METRICS = ("ttft", "tpot", "itl", "e2el", "queue")


class Record:
    """Takes down what the engine tells."""

    def __init__(self) -> None:
        self.requests = Spill(_COLUMNS)
        self.gaps = Spill(("ns", "count"))
        self.timeline = Timeline()
        self.steps = 0

    def step(self, engine: Engine, batch: StepBatch, start_ns: int, end_ns: int, tokens: Tokens) -> None:
        """A step has ended."""
        self.steps += 1
        if tokens.continued:
            self.gaps.append(end_ns - engine.last_end_ns, tokens.continued)
        for gap in tokens.gaps_ns:
            self.gaps.append(gap, 1)
        now, took = self.timeline.at(start_ns), end_ns - start_ns
        now.steps += 1
        now.busy_ns += took
        if batch.chunks:
            now.prefill_ns += took
            now.prefill_tokens += batch.prefill_tokens
        else:
            now.decode_ns += took
        now.tokens += len(tokens.first) + tokens.continued + len(tokens.gaps_ns)
        now.preempted += len(batch.preempted)
        now.running_ns += took * batch.running
        now.waiting_ns += took * batch.waiting
        now.kv_ns += took * batch.kv_blocks

    def request(self, request: Request, now_ns: int) -> None:
        """A request has ended."""
        times = (request.scheduled_ns, request.first_token_ns, request.last_token_ns)
        self.requests.append(
            request.id, request.arrival_ns, *(_NEVER if one is None else one for one in times), request.prompt, request.output,
            request.generated, request.cached, request.preemptions, request.state,
        )  # fmt: skip


class ServingResult:
    """A run. Made by `kernbench.serving.simulate`.

    `first_ns`, `last_ns`: of the window that statistics are of: requests that arrived in it. By default the whole run.
    """

    def __init__(self, record: Record, end_ns: int, window_ns: tuple[int, int] | None = None) -> None:
        self.record = record
        self.end_ns = end_ns
        self._columns = {name: record.requests.column(name) for name in _COLUMNS}
        self.window_ns = window_ns or (0, end_ns)
        arrival = self._columns["arrival_ns"]
        self._inside = (arrival >= self.window_ns[0]) & (arrival <= self.window_ns[1])
        self._done = self._inside & (self._columns["state"] == State.FINISHED)

    def count(self, state: State) -> int:
        """Requests of the window that ended so."""
        return int(np.count_nonzero(self._inside & (self._columns["state"] == state)))

    def _of(self, name: str) -> NDArray[np.int64]:
        return self._columns[name][self._done]

    def values_ms(self, metric: str) -> NDArray[np.float64]:
        """[ms] of each finished request: `ttft`, `tpot` (of those with two tokens or more), `e2el` or `queue`."""
        arrival, first, last = self._of("arrival_ns"), self._of("first_token_ns"), self._of("last_token_ns")
        if metric == "ttft":
            return (first - arrival) / 1e6
        if metric == "e2el":
            return (last - arrival) / 1e6
        if metric == "queue":
            return (self._of("scheduled_ns") - arrival) / 1e6
        output = self._of("output")
        more = output > 1
        tpot: NDArray[np.float64] = (last - first)[more] / (output[more] - 1) / 1e6
        return tpot

    def summary(self, metric: str) -> Summary | None:
        """Of one of `ttft`, `tpot`, `itl`, `e2el`, `queue`, in ms; None where there is no value."""
        if metric == "itl":
            return summary(self.record.gaps.column("ns") / 1e6, self.record.gaps.column("count"))
        return summary(self.values_ms(metric))

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each request, in the order in which they ended."""
        for block in self.record.requests.blocks():
            for values in block.tolist():
                yield row_of(dict(zip(_COLUMNS, values, strict=True)))


def row_of(plain: dict[str, int]) -> dict[str, Any]:
    """A request as a row: times in ms, None where there is none."""
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
    }
