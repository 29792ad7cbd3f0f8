"""The oracle of `tests/oracles` against the published cases of another implementation of the model.

The oracle is what random programs are compared with, so it has to agree with these first: status, cycles,
issue, start and end of every entry, and every counter.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.oracles.reference import simulate

CASES_FILE = Path(__file__).resolve().parents[3] / "shared" / "data" / "model_cases.jsonl"


def _runnable_cases() -> list[Any]:
    if not CASES_FILE.exists():
        reason = f"{CASES_FILE.name} is not beside the repository"
        return [pytest.param(None, id="missing", marks=pytest.mark.skip(reason=reason))]
    with CASES_FILE.open(encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    return [pytest.param(case, id=case["name"]) for case in cases if case["expected"]["status"] != "refused"]


@pytest.mark.parametrize("case", _runnable_cases())
def test_oracle_gives_the_published_result(case: dict[str, Any]) -> None:
    result = simulate(case["machine"], case["program"])
    entries = [[entry["id"], entry["issue"], entry["start"], entry["end"]] for entry in result["entries"]]
    expected = case["expected"]
    assert (result["status"], result["cycles"]) == (expected["status"], expected["cycles"])
    assert entries == expected["entries"]
    assert result["counters"] == expected["counters"]
