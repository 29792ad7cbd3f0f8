"""A whole run of one engine."""

from __future__ import annotations

from collections.abc import Iterable

from kernbench.workloads.serving.engine import Engine, drive
from kernbench.workloads.serving.request import Request
from kernbench.workloads.serving.result import Record, ServingResult
from kernbench.workloads.serving.scheduler import Scheduler
from kernbench.workloads.serving.step_time import StepTimer
from kernbench.workloads.serving.step_trace import StepTrace


def simulate(
    requests: Iterable[Request], scheduler: Scheduler, timer: StepTimer, *, max_concurrency: int | None = None,
    trace: StepTrace | None = None,
) -> ServingResult:  # fmt: skip
    """Serve all requests, which must be in the order of their arrivals, and measure them.

    `max_concurrency`: a request is sent only when fewer requests are in progress; its time starts when it is sent. The requests
    can come from a generator: the memory use does not grow with their number. `trace`: the trace to which each step is written
    at its end.

    >>> from kernbench.serving import ContinuousBatching, EngineOptions, Request, fixed_step, simulate
    >>> engine = ContinuousBatching(EngineOptions(num_gpu_blocks=64, max_model_len=256))
    >>> result = simulate([Request(0, arrival_ns=0, prompt=32, output=4)], engine, fixed_step(2_000_000))
    >>> result.summary("ttft").mean, result.summary("itl").mean, result.summary("e2el").mean
    (2.0, 2.0, 8.0)
    """
    record = Record(trace)
    end_ns = drive(requests, Engine(scheduler, timer, record), max_concurrency)
    return ServingResult(record, end_ns)
