"""The search: many runs of a target, each with the draws of its own seed, and the findings of these runs."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kernbench.analysis.fuzz.finding import Finding, Wrong, wrong_with
from kernbench.analysis.fuzz.shrink import fewest
from kernbench.analysis.fuzz.target import Fuzzed, Outcome, check_reference, most_cycles
from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted
from kernbench.sim_engine.perturbation import Draws, Key, ListedDraws, NoDraws, Ranges, SeededDraws, seed_of

RUNS = 1000  #: default number of runs
ALL = Ranges()
FINDINGS = 3  #: default number of distinct findings after which a search ends
AHEAD = 4  # the most batches that are queued for each process


@dataclass(frozen=True)
class Seen:
    """The message of a process about a run."""

    number: int
    status: str
    orders: bytes
    wrong: Wrong | None
    used: Mapping[Key, int]


@dataclass
class Search:
    """A search and its progress."""

    target: Fuzzed
    described: Mapping[str, Any]
    ranges: Ranges
    seed: int
    runs: int = 0
    aborted: int = 0  #: number of runs that were aborted because they took too long
    orders: set[bytes] = field(default_factory=set)  #: distinct orders of conflicting accesses
    findings: list[Finding] = field(default_factory=list)
    showing: int = 0  #: number of runs with an error
    seconds: float = 0.0
    conflicts: int = 0  #: pairs of conflicting accesses in the run without draws

    @property
    def progress(self) -> str:
        """`120 runs, 17 orders, 1 finding`"""
        counts = {"run": self.runs, "order": len(self.orders), "finding": len(self.findings)}
        return ", ".join(counted(number, noun) for noun, number in counts.items())


def search(
    target: Fuzzed,
    described: Mapping[str, Any],
    *,
    runs: int = RUNS,
    budget: float | None = None,
    seed: int = 0,
    jobs: int = 1,
    ranges: Ranges = ALL,
    most_findings: int = FINDINGS,
    progress: Callable[[Search], None] | None = None,
) -> Search:
    """Run a target under drawn timings, compare each run with the run without draws, and shrink the findings.

    `described`: the description of the target in a saved finding. `runs`: the largest number of runs. `budget`: [s] no run
    begins after this time. `jobs`: number of processes; for a given number of runs, the findings do not depend on it.
    InputError if the run without draws does not end.
    """
    begin = time.monotonic()
    found = Search(target, described, ranges, seed)
    reference = target.run(NoDraws(), ranges)
    check_reference(target.name, reference)
    again = target.run(NoDraws(), ranges)
    if again.digest != reference.digest:
        rule = "two runs without draws differ: the target depends on more than its inputs, such as random numbers or the time"
        raise InputError(Problem(target.name, rule, remedy="make it deterministic, with a fixed seed"))
    found.conflicts = len(reference.orders.pairs)
    found.orders.add(reference.orders.digest)
    known: set[tuple[str, str]] = set()
    at_rest = wrong_with(reference, reference)  # entries that overlap even without delays
    if at_rest is not None:
        known.add(at_rest.signature)
        found.findings.append(Finding(described, ranges, 0, {}, at_rest, reference.digest, reference.cycles))
        found.showing += 1
    with _runner(target, reference, ranges, seed, jobs) as seen:
        for one in seen(runs, lambda: budget is not None and time.monotonic() - begin >= budget):
            found.runs += 1
            found.aborted += one.status == "aborted"
            found.orders.add(one.orders)
            if one.wrong is not None:
                found.showing += 1
                if one.wrong.signature not in known and len(found.findings) < most_findings:
                    known.add(one.wrong.signature)
                    finding = _shrunk(found, reference, one)
                    if finding.wrong.signature not in {other.wrong.signature for other in found.findings}:
                        found.findings.append(finding)
                    known.add(finding.wrong.signature)
            if progress is not None:
                progress(found)
            if len(found.findings) >= most_findings:
                break
    found.seconds = time.monotonic() - begin
    return found


def run_once(target: Fuzzed, reference: Outcome, draws: Draws, ranges: Ranges) -> Outcome:
    """A run with as many draws as the reference run has transfers."""
    draws.jobs = reference.jobs
    return target.run(draws, ranges, most_cycles(reference))


def _focus(reference: Outcome, seed: int, number: int) -> str:
    """The PE that every second run delays alone: the first PE of a pair of conflicting accesses of two PEs."""
    orders = reference.orders
    pairs = [(a, b) for a, b in orders.pairs if orders.ops[a].who != orders.ops[b].who] if number % 2 == 0 else []
    return orders.ops[pairs[seed_of(seed, number, "focus") % len(pairs)][0]].who if pairs else ""


def _seen(target: Fuzzed, reference: Outcome, ranges: Ranges, seed: int, number: int) -> Seen:
    draws = SeededDraws(seed_of(seed, number), ranges, _focus(reference, seed, number))
    outcome = run_once(target, reference, draws, ranges)
    wrong = wrong_with(reference, outcome)
    return Seen(number, outcome.status, outcome.orders.digest, wrong, outcome.used if wrong is not None else {})


def _shrunk(found: Search, reference: Outcome, seen: Seen) -> Finding:
    """The finding of a run, with the fewest draws that show a finding of the same kind."""
    assert seen.wrong is not None
    kind = seen.wrong.kind

    def shows(draws: Mapping[Key, int]) -> bool:
        outcome = run_once(found.target, reference, ListedDraws(draws), found.ranges)
        wrong = wrong_with(reference, outcome)
        return wrong is not None and wrong.kind == kind

    left = fewest(seen.used, shows, found.ranges)
    outcome = run_once(found.target, reference, ListedDraws(left), found.ranges)
    wrong = wrong_with(reference, outcome) or seen.wrong
    return Finding(found.described, found.ranges, seen.number, left, wrong, outcome.digest, outcome.cycles, len(seen.used))


Runs = Callable[[int, Callable[[], bool]], Iterator[Seen]]
_SHARED: tuple[Fuzzed, Outcome, Ranges, int] | None = None  # state of the processes of the pool, which they inherit by fork


def _in_process(number: int) -> Seen:
    assert _SHARED is not None
    target, reference, ranges, seed = _SHARED
    return _seen(target, reference, ranges, seed, number)


@contextmanager
def _runner(target: Fuzzed, reference: Outcome, ranges: Ranges, seed: int, jobs: int) -> Iterator[Runs]:
    """Yields runs in the order of their numbers, until a stop."""
    if jobs <= 1 or "fork" not in multiprocessing.get_all_start_methods():

        def alone(runs: int, over: Callable[[], bool]) -> Iterator[Seen]:
            for number in range(1, runs + 1):
                if over():
                    return
                yield _seen(target, reference, ranges, seed, number)

        yield alone
        return
    global _SHARED
    _SHARED = target, reference, ranges, seed  # inherited by fork, because kernels are functions that cannot be pickled
    pool = ProcessPoolExecutor(min(jobs, os.cpu_count() or 1), multiprocessing.get_context("fork"))

    def together(runs: int, over: Callable[[], bool]) -> Iterator[Seen]:
        waiting: list[Any] = []
        number = 0
        while waiting or number < runs:
            while number < runs and len(waiting) < jobs * AHEAD and not over():
                number += 1
                waiting.append(pool.submit(_in_process, number))
            if not waiting:
                return
            yield waiting.pop(0).result()

    try:
        yield together
    finally:
        pool.shutdown(cancel_futures=True)
        _SHARED = None
