"""What a run of `kbsim serve` takes: from an empty table of step times, from a filled one, and beside a SimPy program.

`python -m tests.speed.serving_rows --requests 1000000` adds the long run, which takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from kernbench.config import load_config
from kernbench.serving import Arrivals, ContinuousBatching, Request, Scenario, ServingResult, Workload, simulate
from kernbench.workloads.models.files import load_model
from tests.speed.goals import Goal, goal_lines
from tests.speed.kept import without_kept_results
from tests.speed.peak import peak_mib
from tests.speed.simpy_serving import Limits, serve

#: [1/s] 80 % of 25 requests/s: a step of 256 decodes, and of the 1,024 tokens of prefill that keep their number, takes 80 ms
RATE = 20.0
GOAL_EMPTY_S, GOAL_FILLED_S, GOAL_MILLION_S = 60, 10, 600


@dataclass
class ServingRow:
    """One run. `early_mib`, `late_mib`: memory of its process at a tenth and at nine tenths of the requests; `peak_mib`: the
    most, which is when the result reads its columns."""

    name: str
    requests: int
    seconds: float
    steps: int
    entries: int
    early_mib: float
    late_mib: float
    peak_mib: float
    goal_s: float | None = None

    @property
    def per_second(self) -> float:
        """Requests of a second of CPU."""
        return self.requests / self.seconds


def scenario(count: int, tables: Path, **engine: object) -> Scenario:
    """Random lengths around 512 in and 128 out, Poisson arrivals."""
    load = Workload(num_prompts=count, random_input_len=512, random_output_len=128, arrivals=Arrivals(request_rate=RATE))
    machine = load_config("npu_server")
    return Scenario(model=load_model("llama3-8b"), machine=machine, workload=load, w=4, tables=tables, sample=0, engine=engine)


def _memory_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _ours(count: int, tables: Path) -> ServingRow:
    seen: list[float] = []

    def watched(requests: Iterator[Request]) -> Iterator[Request]:
        for place, request in enumerate(requests):
            if place in (count // 10, 9 * count // 10):
                seen.append(_memory_mib())
            yield request

    before = time.process_time()
    with without_kept_results():
        given = scenario(count, tables)
        step = given.step()
        timer = given.timer(step)
        result = simulate(watched(given.workload.requests()), ContinuousBatching(given.engine_options(step)), timer)
        timer.save()
        result.to_dict()
    seconds = time.process_time() - before
    return ServingRow("kbsim serve", count, seconds, result.record.steps, getattr(timer, "filled", 0), *seen, peak_mib())


def _beside_simpy(count: int, tables: Path) -> tuple[float, float]:
    """CPU seconds of the engine and of the peer, without scheduling ahead. Their latencies are equal, to the nanosecond."""
    given = replace(scenario(count, tables, async_scheduling=False), num_gpu_blocks=1 << 16)  # the peer never preempts
    step = given.step()
    options, timer = given.engine_options(step), given.timer(step)
    times = []
    found: list[list[tuple[int, int | None, int | None]]] = []

    def ours(requests: list[Request]) -> ServingResult:
        return simulate(requests, ContinuousBatching(options), timer)

    def theirs(requests: list[Request]) -> None:
        serve(requests, timer, Limits(options.max_num_seqs, options.max_num_batched_tokens))

    ours(list(given.workload.requests()))  # fills the table for both
    works: tuple[Callable[[list[Request]], object], ...] = (ours, theirs)
    for work in works:
        requests = list(given.workload.requests())
        before = time.process_time()
        work(requests)
        times.append(time.process_time() - before)
        found.append([(one.id, one.first_token_ns, one.last_token_ns) for one in requests])
    if found[0] != found[1]:
        raise AssertionError("the engine and the SimPy program gave other latencies")
    return times[0], times[1]


def serving_rows(quick: bool = False, requests: int | None = None) -> tuple[list[ServingRow], tuple[float, float]]:
    """10,000 requests from an empty and from a filled table, then as many as asked for; each in its own process. And the CPU
    seconds of the engine and of a SimPy program."""
    count = 1_000 if quick else 10_000
    with tempfile.TemporaryDirectory() as folder:
        tables, made = Path(folder), get_context("spawn")

        def run(number: int) -> ServingRow:
            with made.Pool(1) as pool:
                return pool.apply(_ours, (number, tables))

        rows = [replace(run(count), name="empty table", goal_s=None if quick else GOAL_EMPTY_S)]
        rows.append(replace(run(count), name="filled table", goal_s=None if quick else GOAL_FILLED_S))
        if requests:
            million = requests == 1_000_000
            rows.append(replace(run(requests), name="filled table", goal_s=GOAL_MILLION_S if million else None))
        return rows, _beside_simpy(count // 5, tables)


def serving_table(rows: list[ServingRow], beside: tuple[float, float]) -> str:
    """As text."""
    lines = ["  Llama-3-8B W4 on npu_server, 512 tokens in and 128 out, at 80 % of capacity",
             "  table   requests     steps simulated  seconds requests/s  MiB: at 10 %  90 %  most"]  # fmt: skip
    for row in rows:
        memory = f"{row.early_mib:>14.0f}{row.late_mib:>6.0f}{row.peak_mib:>6.0f}"
        lines.append(f"  {row.name.removesuffix(' table'):7}{row.requests:>9,}{row.steps:>10,}{row.entries:>10}"
                     f"{row.seconds:>9.2f}{row.per_second:>11,.0f}{memory}")  # fmt: skip
    ours, theirs = beside
    lines.append(f"  a SimPy program of the same scheduler: {theirs:.2f} s with equal latencies; kernbench {ours:.2f} s")
    return "\n".join(lines)


def serving_goals(rows: list[ServingRow]) -> list[Goal]:
    """CPU time of runs that have a goal."""
    named = {f"kbsim serve, {row.requests:,} requests, {row.name}": row for row in rows}
    return [Goal(name, row.seconds, row.goal_s, "s") for name, row in named.items() if row.goal_s is not None]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.speed.serving_rows", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests")
    parser.add_argument("--requests", type=int, metavar="N", help="also a run of so many requests")
    asked = parser.parse_args()
    ROWS, BESIDE = serving_rows(asked.quick, asked.requests)
    print(f"{serving_table(ROWS, BESIDE)}\n{goal_lines(serving_goals(ROWS))}")
