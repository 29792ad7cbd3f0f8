"""`kbsim serve capacity`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernbench.cli.main import main
from kernbench.serving import Scenario
from tests.unit.test_serving_deployment import Steps

SMALL = (
    "serve", "capacity", "-c", "rtx4090", "--num-prompts", "40", "--random-input-len", "64", "--random-output-len", "4",
    "--max-num-seqs", "2", "--duration", "1", "--num-gpu-blocks-override", "200", "--max-model-len", "1024",
)  # fmt: skip


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Scenario, "step", lambda self: Steps())
    monkeypatch.setenv("KERNBENCH_CACHE", str(tmp_path))


def kbsim(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([*SMALL, *args])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), " ".join(out.split()), " ".join(err.split())


def test_it_prints_the_rate_its_interval_and_what_was_missed(capsys: pytest.CaptureFixture[str]) -> None:
    cost = ("--set", "cost.watts=450", "--set", "cost.usd_per_hour=0.5")
    code, out, _ = kbsim(capsys, "--slo", "p95 ttft<100ms", "--seeds", "2", *cost)
    assert code == 0
    rate = float(out.split()[0])
    per_watt = float(out.split(" requests/s per W")[0].split()[-1])
    assert "95 % interval" in out and per_watt == pytest.approx(rate / 450, rel=0.01)
    assert float(out.split(" requests/s per $/hour")[0].split()[-1]) == pytest.approx(rate / 0.5, rel=0.01)
    assert "1 engine, p95 ttft < 100 ms" in out


def test_json_says_the_same_of_a_fleet(capsys: pytest.CaptureFixture[str]) -> None:
    fleet = ("--replicas", "2", "--prefill-replicas", "1", "--router", "least_outstanding")
    code, out, _ = kbsim(capsys, "--slo", "p95 ttft<100ms, mean e2el<1s", "--seeds", "1", *fleet, "--json")
    said = json.loads(out)
    assert code == 0
    assert (said["replicas"], said["prefill_replicas"], said["machines"]) == (2, 1, 3)
    assert (said["slo"], said["interval"][1]) == (["p95 ttft < 100 ms", "mean e2el < 1000 ms"], None)
    assert said["seeds"][0]["met"] < said["rate"] < said["seeds"][0]["missed"]
    assert said["requests_per_s_per_watt"] is None


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "--slo"),
        (("--slo", "ttft<200ms"), "p99 ttft<200ms"),
        (("--slo", "p99 tft<200ms"), "did you mean ttft"),
        (("--slo", "p99 ttft<200ms", "--replicas", "0"), "at least 1"),
        (("--slo", "p99 ttft<200ms", "--tolerance", "2"), "between 0 and 1"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], args: tuple[str, ...], words: str) -> None:
    code, _, err = kbsim(capsys, *args)
    assert code == 2 and words in err
