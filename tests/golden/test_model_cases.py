"""All 75 programs of an independent implementation of docs/model: status, cycles, entries, counters; and refusals.

The slow reference of `tests/oracles`, with which random programs are compared, has to agree with these first.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernbench import InputError, load_config, load_program, simulate
from tests.oracles.reference import simulate as reference

CASES = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "model_cases.jsonl"


def cases(*, refused: bool = True) -> list[Any]:
    """One parameter a case; `refused`: also those that cannot run."""
    if not CASES.exists():
        reason = f"the measured cases are not beside the checkout ({CASES.name} of ../shared/data)"
        return [pytest.param({}, marks=pytest.mark.skip(reason=reason))]
    found = map(json.loads, CASES.read_text(encoding="utf-8").splitlines())
    return [pytest.param(case, id=case["name"]) for case in found if refused or case["expected"]["status"] != "refused"]


def check(got: dict[str, Any], want: dict[str, Any]) -> None:
    assert (got["status"], got["cycles"]) == (want["status"], want["cycles"])
    assert [[e["id"], e["issue"], e["start"], e["end"]] for e in got["entries"]] == want["entries"]
    assert got["counters"] == want["counters"]


@pytest.mark.parametrize("skip", [False, True], ids=["step", "skip"])
@pytest.mark.parametrize("case", cases())
def test_a_published_case_takes_its_cycles_or_is_refused(case: dict[str, Any], skip: bool) -> None:
    want = case["expected"]
    if want["status"] == "refused":
        with pytest.raises(InputError):
            simulate(load_program(case["program"]), load_config(case["machine"]), skip=skip)
        return
    check(simulate(load_program(case["program"]), load_config(case["machine"]), skip=skip).to_dict(), want)


@pytest.mark.parametrize("case", cases(refused=False))
def test_the_reference_gives_the_published_result(case: dict[str, Any]) -> None:
    check(reference(case["machine"], case["program"]), case["expected"])


def test_all_cases_are_there() -> None:
    if not CASES.exists():
        pytest.skip("../shared/data/model_cases.jsonl is not beside the checkout")
    assert len(cases()) == 75
