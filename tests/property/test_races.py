"""`kbsim fuzz` finds planted races and lost waits, each with at most three delays, and nothing in correct programs.

`python -m tests.property.test_races` runs all 20 races and 50 correct programs and prints a line each; so do the nightly tests.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernbench.api.fuzz import FuzzResult, fuzz, replay
from tests.property.races.kernels import COLLECTIVES, KERNELS
from tests.property.races.programs import PROGRAMS

RACES: dict[str, Callable[[bool], Any]] = {**KERNELS, **COLLECTIVES, **PROGRAMS}
MINUTE, WHOLE = 60.0, 600.0  # [s] for a race; for all correct programs
FEW = 3  # delays of a shrunk finding
ALGORITHMS = (
    "all_reduce ring", "all_reduce halving_doubling", "all_reduce tree", "all_reduce recursive_doubling",
    "all_reduce bidirectional", "all_reduce direct", "all_gather ring", "all_gather direct", "all_gather bruck",
    "reduce_scatter ring", "reduce_scatter direct", "reduce_scatter halving", "broadcast ring", "broadcast binomial",
    "reduce ring", "reduce binomial", "all_to_all ring", "all_to_all direct", "gather direct", "scatter direct",
)  # fmt: skip
BENCHES: dict[str, dict[str, Any]] = {"vector_add": {"n": 8192}, "softmax": {}, "layernorm": {}, "reduce": {}, "tp_mlp": {},
                                      "moe_dispatch": {}}  # fmt: skip
WORKLOADS = ("llama2-7b-decode", "llama2-7b-prefill")
ALL_REDUCE_SIZES = ("1KiB", "64KiB")


def machine_of(name: str) -> str | None:
    return "npu_mobile" if name in PROGRAMS else None


def correct() -> Iterator[tuple[str, Callable[..., FuzzResult]]]:
    """The names of 50 correct programs, and how each is fuzzed."""
    for name, make in RACES.items():
        yield f"{name}, mended", lambda name=name, make=make, **how: fuzz(make(True), machine_of(name), **how)
    for one in ALGORITHMS:
        collective, algo = one.split()
        yield one, lambda collective=collective, algo=algo, **how: fuzz(
            collective, algo=algo, ranks=4, size="4KiB", **how
        )
    for size in ALL_REDUCE_SIZES:
        yield f"all_reduce of {size}", lambda size=size, **how: fuzz("all_reduce", ranks=8, size=size, **how)
    for name, params in BENCHES.items():
        yield name, lambda name=name, params=params, **how: fuzz(name, **params, **how)
    for name in WORKLOADS:
        yield name, lambda name=name, **how: fuzz(name, **how)


CORRECT = dict(correct())


def test_there_are_20_races_and_50_correct_programs() -> None:
    assert len(RACES) == 20 and len(CORRECT) == 50


@pytest.mark.parametrize("name", ["message_before_store_ends", "sends_need_two_slots", "two_stores"])
def test_race_is_found_shrunk_and_replayed(name: str, tmp_path: Path) -> None:
    """One of kernels, one of collectives, one of programs."""
    target = RACES[name](False)
    found = fuzz(target, machine_of(name), runs=40, most_findings=1)
    assert len(found.findings) == 1 and not found
    finding = found.findings[0]
    assert 1 <= len(finding.draws) <= FEW
    finding.save(tmp_path / "finding.json")
    again = replay(tmp_path / "finding.json", target)
    assert again.same and again.again.wrong.what == finding.wrong.what
    assert fuzz(RACES[name](True), machine_of(name), runs=12), "the mended one is right"


def test_message_says_ops_bytes_and_missing_wait() -> None:
    finding = fuzz(RACES["message_before_store_ends"](False), runs=10, most_findings=1).findings[0]
    race = finding.wrong.race
    assert race is not None and race.high - race.low == 1024
    assert (race.first.what, race.second.what) == ("store", "load")
    assert "kernels.py:" in race.first.line and "kernels.py:" in race.second.line
    text = "\n".join(finding.sentences)
    assert "1,024 bytes" in text and "call tl.wait on the store" in text


def test_findings_do_not_depend_on_the_number_of_processes() -> None:
    one, two = (fuzz(RACES["two_stores"](False), "npu_mobile", runs=12, jobs=jobs) for jobs in (1, 2))
    assert one.to_dict() == two.to_dict() and one.findings


@pytest.mark.nightly
@pytest.mark.parametrize("name", RACES)
def test_every_race_is_found_in_a_minute(name: str) -> None:
    found, seconds = find(name)
    assert len(found.findings) == 1 and seconds < MINUTE
    assert len(found.findings[0].draws) <= FEW


@pytest.mark.nightly
@pytest.mark.parametrize("name", CORRECT)
def test_nothing_is_found_in_a_correct_program(name: str) -> None:
    found = CORRECT[name](runs=10**6, time_budget=WHOLE / len(CORRECT))
    assert found.runs and not found.findings


def find(name: str) -> tuple[FuzzResult, float]:
    """Look for one race, and the seconds that it took."""
    begin = time.monotonic()
    found = fuzz(RACES[name](False), machine_of(name), runs=10**6, time_budget=MINUTE, most_findings=1)
    return found, time.monotonic() - begin


def main(seconds: float) -> int:
    """All of it, with so many seconds for all correct programs."""
    wrong = 0
    for name in RACES:
        found, took = find(name)
        delays = [len(one.draws) for one in found.findings]
        right = len(delays) == 1 and delays[0] <= FEW and took < MINUTE
        wrong += not right
        print(f"{'ok' if right else 'NOT FOUND'}  {name}: {found.search.progress}, delays {delays}, {took:.1f} s", flush=True)
    for name, run in CORRECT.items():
        result = run(runs=10**6, time_budget=seconds / len(CORRECT))
        wrong += not result
        print(f"{'ok' if result else 'FOUND'}  {name}: {result.search.progress}", flush=True)
        for one in result.findings:
            print("   ", "\n    ".join(one.sentences), flush=True)
    print(f"{wrong} of {len(RACES) + len(CORRECT)} are wrong")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else WHOLE))
