"""A served language model: latencies, throughput and order of a measured run of vLLM beside those of the engine."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernbench.config import load_config
from kernbench.serving import ContinuousBatching, EngineOptions, MachineStep, Request, ServingResult, TableTimer, machine_step
from kernbench.serving import simulate as serve
from kernbench.validate.chips import FOLDER
from kernbench.validate.run import Runner
from kernbench.validate.suite import Figure, Row, Series, Skipped, SuiteData
from kernbench.workloads.models.files import load_model

NAME = "served_llama31_8b"
LATENCY_WHY = "what is asked of this comparison; the times of kernels alone are within 5 % to 10 % of measured ones"
ORDER_WHY = "the scheduler decides it, and small differences of time must not change it"
LOAD_WHY = "for information: the rate of arrival, or what the measured run served, whichever is less; there is no measurement"
STATISTICS = (("mean", None), ("median", 50), ("p90", 90), ("p95", 95), ("p99", 99))
CURVES = (("running", "running requests"), ("waiting", "waiting requests"), ("kv", "KV blocks in use [%]"))


@dataclass(frozen=True, slots=True)
class Served:
    """A measured request; times in s after the first arrival."""

    inputs: int
    outputs: int
    arrival: float
    scheduled: float
    first_token: float
    last_token: float


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the engine, and its requests in the order of arrival."""

    result: ServingResult
    requests: list[Request]


_RUNS: dict[float, Run] = {}  #: runs of the last comparison, by requests per second; for the figures
_MEASURED: list[list[dict[str, float]]] = []  #: the rows of the time series of the last comparison


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """The run as it was measured, and predictions at lower rates. The suite is skipped if there are no tables."""
    folder = Path(runner.options.chip_tables or FOLDER, "rtx4090")
    path = folder / f"{NAME}_requests.csv"
    if not os.path.isfile(path):
        raise Skipped("there is no folder of chip tables with this run; name one with --data or KERNBENCH_CHIP_TABLES")
    measured = _served(path)
    _MEASURED[:] = [_numbers(folder / f"{NAME}_timeseries.csv")]
    _RUNS.clear()
    step = _step(data)
    rate = (len(measured) - 1) / measured[-1].arrival
    run = _RUNS[rate] = _simulated(data, step, measured, 1.0)
    yield from _latencies(data, measured, run)
    yield from _throughput(data, measured, run)
    yield from _order(data, measured, run)
    for asked in () if runner.options.quick else data.fact("predicted_per_s"):
        lower = _RUNS[float(asked)] = _simulated(data, step, measured, rate / asked)
        yield from _prediction(data, asked, measured, lower)


def _served(path: Path) -> list[Served]:
    names = ("input_tokens", "output_tokens", "arrival_s", "scheduled_s", "first_token_s", "last_token_s")
    found = []
    for row in _numbers(path):
        inputs, outputs, *times = (row[name] for name in names)
        found.append(Served(int(inputs), int(outputs), *times))
    return sorted(found, key=lambda one: one.arrival)


def _numbers(path: Path) -> list[dict[str, float]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: float(cell) for name, cell in row.items()} for row in csv.DictReader(file)]


def _step(data: SuiteData) -> MachineStep:
    return machine_step(load_model(data.fact("model")), load_config(data.fact("machine")), runtime=data.fact("runtime"))


def _simulated(data: SuiteData, step: MachineStep, measured: Sequence[Served], stretch: float) -> Run:
    """The requests with the intervals between their arrivals multiplied by a factor."""
    names = ("num_gpu_blocks", "max_num_seqs", "max_num_batched_tokens", "max_model_len")
    options = EngineOptions(**{name: data.fact(name) for name in names})
    requests = [
        Request(i, arrival_ns=round(one.arrival * stretch * 1e9), prompt=one.inputs, output=one.outputs)
        for i, one in enumerate(measured)
    ]
    timer = TableTimer(step, step.capture_sizes, sample=0)
    return Run(serve(requests, ContinuousBatching(options), timer), requests)


def _latencies(data: SuiteData, measured: Sequence[Served], run: Run) -> Iterator[Row]:
    theirs = {
        "ttft": [1e3 * (one.first_token - one.arrival) for one in measured],
        "tpot": [1e3 * (one.last_token - one.first_token) / (one.outputs - 1) for one in measured if one.outputs > 1],
        "e2el": [1e3 * (one.last_token - one.arrival) for one in measured],
    }
    for metric, values in theirs.items():
        ours = run.result.values_ms(metric)
        ours = ours[~np.isnan(ours)]
        for name, percent in STATISTICS:
            expected, found = (_statistic(one, percent) for one in (values, ours))
            yield _row(f"10/s: {name} {metric}", expected, found, "ms", data.fact("latency_allowed"), LATENCY_WHY)


def _statistic(values: Sequence[float] | NDArray[np.float64], percent: int | None) -> float:
    """A percentile, or the mean."""
    return float(np.mean(values) if percent is None else np.percentile(values, percent))


def _throughput(data: SuiteData, measured: Sequence[Served], run: Run) -> Iterator[Row]:
    tokens, end = sum(one.outputs for one in measured), max(one.last_token for one in measured)
    allowed = data.fact("throughput_allowed")
    ours = run.result.end_ns / 1e9
    yield _row("10/s: output throughput", tokens / end, tokens / ours, "token/s", allowed, LATENCY_WHY)
    yield _row("10/s: request throughput", len(measured) / end, len(measured) / ours, "request/s", allowed, LATENCY_WHY)


def _order(data: SuiteData, measured: Sequence[Served], run: Run) -> Iterator[Row]:
    errors = [abs((ours.first_token_ns or 0) / 1e9 - one.first_token) for ours, one in zip(run.requests, measured, strict=True)]
    most = data.fact("first_token_s")
    yield _row("10/s: first token, median error", (0, most), float(np.median(errors)), "s", 0, LATENCY_WHY)
    order = sorted(range(len(measured)), key=lambda i: (measured[i].scheduled, i))
    times = [run.requests[i].scheduled_ns or 0 for i in order]
    late = sum(one > other for one, other in pairwise(times))
    yield _row("10/s: requests first scheduled out of order", 0, late, "requests", 0, ORDER_WHY)


def _prediction(data: SuiteData, asked: int, measured: Sequence[Served], run: Run) -> Iterator[Row]:
    """What no run has measured: reported. Below its capacity, the engine serves all requests that arrive. Above its capacity,
    it serves the rate of the run."""
    capacity = len(measured) / max(one.last_token for one in measured)
    served = len(run.requests) / (run.result.end_ns / 1e9)
    yield _row(f"{asked}/s, predicted: request throughput", min(asked, capacity), served, "request/s", None, LOAD_WHY)


def _row(
    case: str, expected: float | tuple[float, float], ours: float, unit: str, allowed: float | None, why: str
) -> Row:
    return Row(case=case, source="run", expected=expected, ours=ours, unit=unit, allowed=allowed, why=why)


def figures(data: SuiteData, rows: Sequence[Row]) -> list[Figure]:
    """Running and waiting requests and the KV cache over time: measured, simulated, and predicted at lower rates."""
    if not _RUNS:
        return []
    first, *others = _RUNS
    blocks = data.fact("num_gpu_blocks") - 1
    made = []
    for name, label in CURVES:
        column = "kv_cache_pct" if name == "kv" else name
        theirs = [(row["t"], row[column]) for row in _MEASURED[0]]
        series = [Series("measured", theirs), Series("simulated", _curve(_RUNS[first], name, blocks), "line")]
        made.append(Figure(f"10 requests/s: {label}", "time [s]", label, series))
    for name, label in CURVES:
        series = [Series(f"{rate:g} requests/s", _curve(_RUNS[rate], name, blocks), "line") for rate in others]
        if series:
            made.append(Figure(f"predicted: {label}", "time [s]", label, series))
    return made


def _curve(run: Run, name: str, blocks: int) -> list[tuple[float, float]]:
    """The mean over each interval in which the engine was busy."""
    timeline = run.result.record.timeline
    scale = 100 / blocks if name == "kv" else 1.0
    points = []
    for i, one in enumerate(timeline.intervals):
        if one.busy_ns:
            points.append(((i + 0.5) * timeline.length_ns / 1e9, scale * getattr(one, f"{name}_ns") / one.busy_ns))
    return points
