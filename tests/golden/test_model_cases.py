"""All 75 programs of an independent implementation of docs/model: status, cycles, entries, counters; and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernbench import InputError, load_config, load_program, simulate

CASES = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "model_cases.jsonl"


def cases() -> list[Any]:
    if not CASES.exists():
        reason = f"the measured cases are not beside the checkout ({CASES.name} of ../shared/data)"
        return [pytest.param({}, marks=pytest.mark.skip(reason=reason))]
    lines = CASES.read_text().splitlines()
    return [pytest.param(case, id=case["name"]) for case in map(json.loads, lines)]


@pytest.mark.parametrize("skip", [False, True], ids=["step", "skip"])
@pytest.mark.parametrize("case", cases())
def test_a_published_case_takes_its_cycles_or_is_refused(case: dict[str, Any], skip: bool) -> None:
    want = case["expected"]
    if want["status"] == "refused":
        with pytest.raises(InputError):
            simulate(load_program(case["program"]), load_config(case["machine"]), skip=skip)
        return
    got = simulate(load_program(case["program"]), load_config(case["machine"]), skip=skip).to_dict()
    assert (got["status"], got["cycles"]) == (want["status"], want["cycles"])
    assert [[e["id"], e["issue"], e["start"], e["end"]] for e in got["entries"]] == want["entries"]
    assert got["counters"] == want["counters"]


def test_all_cases_are_there() -> None:
    if not CASES.exists():
        pytest.skip("../shared/data/model_cases.jsonl is not beside the checkout")
    assert len(cases()) == 75
