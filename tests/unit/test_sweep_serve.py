"""Serve targets of sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.serving import Scenario
from kernbench.sweep.targets.serve import ServeTarget
from kernbench.sweep.targets.target import target_of
from tests.unit.test_serving_deployment import Steps

PARAMS = {"slo": "p95 ttft<100ms", "requests": 30, "input": 64, "output": 4, "seeds": 1, "max_num_seqs": 2, "duration": 1}


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Scenario, "step", lambda self: Steps())
    monkeypatch.setenv("KERNBENCH_CACHE", str(tmp_path))


def simulated(**params: Any) -> dict[str, Any]:
    machine = load_config("rtx4090", {"cost.watts": "450"})
    return ServeTarget("chat", "llama3-8b", PARAMS).simulate(machine, params)


def test_a_row_has_the_rate_and_what_it_is_worth() -> None:
    one, two = simulated(), simulated(replicas=2)
    assert two["metrics"]["requests_per_s"] > 1.3 * one["metrics"]["requests_per_s"]
    assert one["metrics"]["requests_per_s_per_watt"] == pytest.approx(one["metrics"]["requests_per_s"] / 450)
    assert "requests_per_s_per_usd_per_hour" not in one["metrics"]
    assert float(one["ns"]) == pytest.approx(1e9 / one["metrics"]["requests_per_s"])
    assert (one["status"], one["metrics"]["bound_by"]) == ("done", "p95 ttft < 100 ms")


def test_it_travels_as_plain_data() -> None:
    plain = ServeTarget("chat", "llama3-8b", PARAMS).plain()
    again = target_of(plain)
    assert isinstance(again, ServeTarget) and again.plain() == plain
    assert again.checked({"tp": 2})["tp"] == 2


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"slo": "ttft<1s"}, "p99 ttft<1s"),
        ({"router": "robin"}, "least_outstanding"),
        ({"replica": 2}, "did you mean replicas"),
        ({"tp": 0}, "at least 1"),
        ({"seeds": 1.5}, "integer"),
    ],
)
def test_mistakes(params: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ServeTarget("chat", "llama3-8b", {}).checked(params)


def test_no_single_program_stands_for_it() -> None:
    with pytest.raises(InputError, match="llm target"):
        ServeTarget("chat", "llama3-8b", {}).longest(load_config("rtx4090"), {})
