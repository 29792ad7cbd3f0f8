"""More of a resource never lowers goodput by more than the noise of the schedule, and results depend on nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.serving import (
    Arrivals,
    ContinuousBatching,
    EngineOptions,
    FormulaTimer,
    MachineStep,
    Request,
    SeedCapacity,
    ServingResult,
    StepBatch,
    TableStore,
    TableTimer,
    Workload,
    find_capacity,
    parse_slo,
    simulate,
)
from kernbench.workloads.blocks.batch import Sequences

#: More of a resource changes which requests share a step, and so who is just in time: at most so many requests are lost by it.
NOISE = 3


class Load(NamedTuple):
    """Requests as gaps [ms], tokens in, tokens out; and the limits that they have to meet."""

    requests: list[tuple[int, int, int]]
    ttft_ms: int
    tpot_ms: int


loads = st.builds(
    Load,
    st.lists(st.tuples(st.sampled_from([0, 1, 5, 20]), st.integers(1, 100), st.integers(1, 40)), min_size=20, max_size=60),
    st.sampled_from([5, 20, 100]),
    st.sampled_from([2, 4, 8]),
)


def good(load: Load, bytes_per_ns: float, blocks: int) -> int:
    """Requests that meet both limits: a step reads the weights and the keys of its sequences from memory."""

    def step(batch: StepBatch) -> int:
        read = 1_000_000 + 1_000 * batch.decode_context + sum(1_000 * before for _, _, before in batch.chunks)
        return round(read / bytes_per_ns) + 10_000 * batch.prefill_tokens

    now, requests = 0, []
    for number, (gap, tokens, output) in enumerate(load.requests):
        now += gap * 1_000_000
        requests.append(Request(number, arrival_ns=now, prompt=tokens, output=output))
    options = EngineOptions(num_gpu_blocks=blocks, max_model_len=140, max_num_seqs=16, max_num_batched_tokens=128)
    rows = simulate(requests, ContinuousBatching(options), FormulaTimer(step)).rows()
    return sum(row["ttft_ms"] <= load.ttft_ms and (row["tpot_ms"] or 0) <= load.tpot_ms for row in rows)


@settings(max_examples=15, deadline=None)
@given(load=loads, factor=st.sampled_from([1.25, 2.0, 4.0]), blocks=st.sampled_from([10, 20, 60]))
def test_more_bandwidth_never_lowers_goodput(load: Load, factor: float, blocks: int) -> None:
    assert good(load, factor, blocks) >= good(load, 1.0, blocks) - NOISE


@settings(max_examples=15, deadline=None)
@given(load=loads, more=st.sampled_from([4, 20, 100]), blocks=st.sampled_from([10, 20, 60]))
def test_more_blocks_never_lower_goodput(load: Load, more: int, blocks: int) -> None:
    """Of a limit for TTFT. With more blocks more requests run at a time: steps are longer, so TPOT may be worse."""
    wait = load._replace(tpot_ms=1_000)
    assert good(wait, 1.0, blocks + more) >= good(wait, 1.0, blocks) - NOISE


PROGRAM = """
from kernbench.serving import Arrivals, ContinuousBatching, EngineOptions, Request, StepwiseBatching, Workload, fixed_step
from kernbench.serving import simulate
for kind in ("hash", "radix"):
    options = EngineOptions(num_gpu_blocks=20, max_model_len=100, max_num_seqs=4, prefix_cache=kind, max_loras=2)
    made = [Request(i, arrival_ns=i * 300, prompt=40, output=20, prefix=((f"p{i % 3}", 30),), adapter=i % 3) for i in range(30)]
    print(list(simulate(made, StepwiseBatching(options), fixed_step(1000)).rows()))
options = EngineOptions(num_gpu_blocks=20, max_model_len=100, max_num_seqs=4, scheduling_policy="priority")
made = [Request(i, arrival_ns=i * 300, prompt=40, output=20, prefix=((f"p{i % 3}", 30),), priority=i % 2) for i in range(30)]
result = simulate(made, ContinuousBatching(options), fixed_step(1000))
print(list(result.rows()), result.to_dict())
load = Workload(dataset_name="prefix_repetition", num_prompts=30, prefix_repetition_prefix_len=20, adapters=3,
    prefix_repetition_suffix_len=20, prefix_repetition_output_len=9, arrivals=Arrivals(request_rate=1e5, burstiness=0.5))
options = EngineOptions(num_gpu_blocks=20, max_model_len=100, max_num_seqs=4, pipeline_parallel_size=3, max_loras=2)
result = simulate(load.requests(), StepwiseBatching(options), fixed_step(1000))
print(list(result.rows()), result.to_dict())
"""


@pytest.mark.nightly
def test_results_do_not_depend_on_the_seed_of_hashes() -> None:
    said = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1", "77")
    ]
    assert said[0] and len(set(said)) == 1


class Slow(MachineStep):
    """Of a time that no table of few entries interpolates exactly."""

    edges = ([1, 64, 4096], [1, 8, 64], [0, 64, 4096])

    def device_ns(self, sequences: Sequence[Sequences]) -> float:
        return 1e6 + sum(one.count * (1e4 * one.tokens**0.5 + 7.3 * one.context) for one in sequences)

    def host_ns(self, sequences: int, *, prompt: bool) -> int:
        return 0

    def weight_bytes(self) -> int:
        return 0

    token_bytes = memory_bytes = content = weight_bytes


def served(folder: Path, rate: float, seed: int) -> ServingResult:
    """A run of a process of its own, which reads and writes the tables of a folder."""
    return at_rate(TableTimer(Slow(), store=TableStore(folder, "slow"), sample=0), rate, seed)


def at_rate(timer: TableTimer, rate: float, seed: int) -> ServingResult:
    load = Workload(num_prompts=40, random_input_len=60, random_output_len=20, random_range_ratio=0.5, seed=seed,
                    arrivals=Arrivals(request_rate=rate))  # fmt: skip
    options = EngineOptions(num_gpu_blocks=100, max_model_len=140, max_num_seqs=16, max_num_batched_tokens=128)
    result = simulate(load.requests(), ContinuousBatching(options), timer)
    timer.save()
    return result


@pytest.mark.parametrize("processes", [1, 2, 5])
def test_results_do_not_depend_on_how_many_processes_fill_the_table(processes: int, tmp_path: Path) -> None:
    """Each opens the tables before any other has saved its own. Then a run finds all entries, and gives what one gave alone."""
    alone = served(tmp_path / "alone", 50.0, 0)
    timers = [TableTimer(Slow(), store=TableStore(tmp_path / "many", "slow"), sample=0) for _ in range(processes)]
    for number, timer in enumerate(timers):
        at_rate(timer, 20.0 * (1 + number), number)
    again = served(tmp_path / "many", 50.0, 0)
    assert list(again.rows()) == list(alone.rows()) and again.to_dict() == alone.to_dict()


def test_a_capacity_does_not_depend_on_the_processes_that_search(tmp_path: Path) -> None:
    """All seeds by one process, each by a process of its own, in another order, and with a table that others have filled."""
    targets = parse_slo("p90 ttft<20ms, p90 tpot<4ms")

    def search(folder: Path, seeds: Sequence[int]) -> list[SeedCapacity]:
        return list(find_capacity(partial(served, folder), targets, seeds=seeds, tolerance=0.1, start_rate=32.0).seeds)

    together = search(tmp_path / "one", (0, 1, 2))
    assert all(0 < one.met < one.missed for one in together)
    assert [search(tmp_path / f"own {seed}", (seed,))[0] for seed in (0, 1, 2)] == together
    assert search(tmp_path / "one", (2, 0, 1)) == [together[2], together[0], together[1]]
