"""`kbsim serve why`: what bound latencies, period by period."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernbench.config import load_config
from kernbench.serving import Arrivals, Deployment, Group, Request, Scenario, Workload, simulate
from kernbench.workloads.blocks.batch import Sequences
from kernbench.workloads.models.files import load_model
from kernbench.workloads.serving.continuous import ContinuousBatching
from kernbench.workloads.serving.machine_step import machine_step
from kernbench.workloads.serving.options import EngineOptions
from kernbench.workloads.serving.periods import EngineGroup, periods_of, typical_step
from kernbench.workloads.serving.step_time import FormulaTimer
from kernbench.workloads.serving.timeline import Interval
from tests.cli.conftest import Kbsim
from tests.unit.test_serving_deployment import Steps

TINY = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2,
        "vocab_size": 64, "head_dim": 32}  # fmt: skip
WHY = (
    "serve", "why", "--num-gpu-blocks-override", "200", "--max-model-len", "512", "--num-prompts", "40", "--request-rate",
    "400", "--random-input-len", "32", "--random-output-len", "6",
)  # fmt: skip


class Slow(Steps):
    """A step of 1 ms, and 0.1 ms for each token."""

    def device_ns(self, sequences: Sequence[Sequences]) -> float:
        return 1e6 + 1e5 * sum(one.tokens * one.count for one in sequences)


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scenario, "step", lambda self: Slow())


def why(kbsim: Kbsim, *more: str) -> dict[str, Any]:
    said = kbsim(*WHY, *more, "--json")
    assert said.code == 0, said.err
    found: dict[str, Any] = json.loads(said.out)
    return found


def test_a_place_that_is_missing_is_named_with_the_option_that_gives_it(kbsim: Kbsim) -> None:
    few, many = (why(kbsim, "--max-num-seqs", places) for places in ("1", "64"))
    assert few["periods"][0]["ttft"]["bound"] == "sequence_slots" and "--max-num-seqs" in few["advice"]["ttft"]
    assert many["periods"][0]["ttft"]["bound"] != "sequence_slots"


def test_parts_add_up_to_the_means_of_the_run(kbsim: Kbsim) -> None:
    found = why(kbsim)
    whole = json.loads(kbsim("serve", "run", *WHY[2:], "--json", "--check-steps", "0").out)["whole"]
    periods = [one for one in found["periods"] if one["ttft_ms"] is not None]
    mean = sum(one["arrived"] * one["ttft_ms"] for one in periods) / sum(one["arrived"] for one in periods)
    assert mean == pytest.approx(whole["ttft_ms"]["mean"])
    assert sum(one["arrived"] for one in periods) == sum(one["ended"] for one in found["periods"]) == 40


@pytest.mark.parametrize(
    ("changes", "resource"),
    [({"dram.peak_bw_bytes_per_cycle": "1"}, "DRAM bandwidth"), ({"te.macs_per_cycle": "1"}, "tensor engines")],
)
def test_the_limit_of_a_step_follows_the_machine(changes: dict[str, str], resource: str, tmp_path: Path) -> None:
    (tmp_path / "tiny.json").write_text(json.dumps(TINY), encoding="utf-8")
    step = machine_step(load_model(str(tmp_path / "tiny.json")), load_config("npu_server", changes))
    shares = step.limits([Sequences(16, 0)])
    assert next(iter(shares)) == resource and 0.4 < shares[resource] <= 1
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_the_limits_of_a_step_on_a_chip_are_those_of_its_kernels() -> None:
    step = machine_step(load_model("llama3-8b"), load_config("rtx4090"))
    one, many = step.limits([Sequences(1, 512, 4)]), step.limits([Sequences(2048, 0)])
    assert next(iter(one)) == "DRAM bandwidth" and next(iter(many)) == "tensor engines"


class Named(Slow):
    """A step that one resource limits."""

    def __init__(self, resource: str) -> None:
        self.resource = resource

    def limits(self, sequences: Sequence[Sequences]) -> dict[str, float]:
        return {self.resource: 0.75}


def test_each_group_of_a_fleet_has_its_own_limit(
    kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Scenario, "step", lambda self: Named(Path(self.machine.source).stem))
    groups = [{"config": "npu_server", "role": "prefill"}, {"config": "npu_mobile", "role": "decode", "count": 2}]
    (tmp_path / "fleet.json").write_text(json.dumps({"groups": groups}), encoding="utf-8")
    options = ("--fleet", str(tmp_path / "fleet.json"), "--kv-link-gb-s", "10")
    found = why(kbsim, *options)
    assert found["engines"] == 3 and found["machine"] == "npu_server.yaml, npu_mobile.yaml"
    served = [one for one in found["periods"] if one["ttft_limit"] is not None and one["tpot_limit"] is not None]
    assert served
    for period in served:
        first, second = period["groups"]
        assert (first["role"], first["engines"], second["role"], second["engines"]) == ("prefill", 1, "decode", 2)
        assert first["ttft_limit"]["resource"] == period["ttft_limit"]["resource"] == "npu_server"
        assert second["tpot_limit"]["resource"] == period["tpot_limit"]["resource"] == "npu_mobile"
        assert first["tpot_limit"] is None and second["ttft_limit"] is None
        assert 0 < first["busy"] <= 1 and 0 < second["kv_share"] <= 1
    told = kbsim(*WHY, *options).out
    assert "groups of engines" in told and "TPOT npu_mobile, 75%" in " ".join(told.split())
    assert "…" not in told and all(len(line) <= 80 for line in told.splitlines())


def test_groups_add_up_to_the_fleet() -> None:
    """Steps of each group are its own: their times and tokens add up to those of the run."""
    load = Workload(num_prompts=60, random_input_len=20, random_output_len=5, arrivals=Arrivals(request_rate=900))
    base = Scenario(model=load_model("llama3-8b"), machine=load_config("npu_server"), workload=load, num_gpu_blocks=100,
                    max_model_len=128, sample=0)  # fmt: skip
    done = Deployment(scenario=base, groups=(Group(base, 2), Group(replace(base, tp=2), 1))).run()
    whole, *groups = (one.intervals for one in (done.result.record.timeline, *(one.timeline for one in done.engine_groups)))
    assert len(groups) == 2 and all(sum(one.steps for one in group) for group in groups)
    for name in ("steps", "busy_ns", "prefill_tokens", "decodes", "kv_ns", "tokens"):
        assert sum(getattr(one, name) for group in groups for one in group) == sum(getattr(one, name) for one in whole)


def test_a_typical_step_has_the_means_of_the_steps_with_and_without_prefill() -> None:
    whole = Interval(
        steps=10, prefill_steps=2, prefill_tokens=64, chunks=4, chunk_context=32, decodes=44, decode_context=4400,
        prefill_decodes=4, prefill_decode_context=400,
    )  # fmt: skip
    chunks, beside = typical_step(whole, "prefill")
    assert (chunks.tokens, chunks.context, chunks.count, beside.context, beside.count) == (16, 8, 2, 96, 2)
    (alone,) = typical_step(whole, "decode")
    assert (alone.tokens, alone.context, alone.count) == (1, 96, 5)
    assert typical_step(Interval(), "prefill") == typical_step(Interval(), "decode") == ()


def test_periods_have_each_arrival_once() -> None:
    engine = ContinuousBatching(EngineOptions(num_gpu_blocks=64, max_model_len=256))
    requests = [Request(number, arrival_ns=number * 20_000_000, prompt=8, output=3) for number in range(10)]
    result = simulate(requests, engine, FormulaTimer(lambda batch: 1_000_000))
    periods = periods_of(result, [EngineGroup(Steps(), result.record.timeline)], 0.02)
    assert [one.arrived for one in periods] == [1] * 10
    assert [one.window.start_ns for one in periods] == [number * 20_000_000 for number in range(10)]
    assert all(sum(one.parts["ttft"].values()) == pytest.approx(1) for one in periods)


@pytest.mark.parametrize("text", ["0", "-1s", "1d", "x", "1e9h"])
def test_a_length_that_is_no_time_is_refused(text: str, kbsim: Kbsim) -> None:
    said = kbsim(*WHY, "--every", text)
    assert said.code == 2 and "such as 500ms, 10s, 5m or 1h" in " ".join(said.err.split())


def test_too_many_periods_are_refused(kbsim: Kbsim) -> None:
    said = kbsim(*WHY, "--every", "0.000001ms")
    assert said.code == 2 and "more than 1024 periods" in " ".join(said.err.split())


def test_it_reads_at_both_widths(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        said = kbsim(*WHY, "--every", "50ms")
        assert said.code == 0 and "…" not in said.out and all(len(line) <= width for line in said.out.splitlines())
        assert "TTFT: change first" in said.out and "the device's limit" in said.out
