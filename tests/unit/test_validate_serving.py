"""`kbsim validate serving`: what is compared, and that a wrong time, throughput or order is seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kernbench.serving import MachineStep
from kernbench.validate.chips import FOLDER
from kernbench.validate.run import Options, Runner
from kernbench.validate.suite import Row, Skipped, read_suite_data
from kernbench.validate.suites import serving
from kernbench.workloads.blocks.batch import Sequences

HEAD = "id,input_tokens,output_tokens,arrival_s,queued_s,scheduled_s,first_token_s,last_token_s\n"
#: Two requests, steps of 0.1 s: with asynchronous scheduling the second joins the step after the next one.
ROWS = [(0, 64, 11, 0.0, 0.0, 0.0, 0.1, 1.1), (1, 64, 6, 0.05, 0.1, 0.2, 0.3, 0.8)]
SERIES = "t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct\n1.0,128.0,11.0,2,0,0.4\n2.0,0.0,5.0,0,0,0.0\n"


class Steps(MachineStep):
    """Every step takes so long."""

    edges = ([1, 4096], [1, 512], [0, 8192])

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def device_ns(self, sequences: Sequence[Sequences]) -> float:
        return self.seconds * 1e9

    def host_ns(self, sequences: int, *, prompt: bool) -> int:
        return 0

    def weight_bytes(self) -> int:
        return 0

    def token_bytes(self) -> int:
        return 1

    def memory_bytes(self) -> int:
        return 1 << 40

    def content(self) -> Any:
        return "steps"


def compared(folder: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, *, quick: bool = True) -> dict[str, Row]:
    monkeypatch.setattr(serving, "_step", lambda data: Steps(seconds))
    options = Options(chip_tables=folder, quick=quick)
    return {row.case.split(": ", 1)[1] if quick else row.case: row
            for row in serving.rows(read_suite_data("serving"), Runner(options))}  # fmt: skip


def tables(folder: Path, rows: Sequence[Sequence[float]] = ROWS) -> Path:
    (folder / "rtx4090").mkdir(exist_ok=True)
    text = HEAD + "".join(",".join(map(str, row)) + "\n" for row in rows)
    (folder / "rtx4090" / "served_llama31_8b_requests.csv").write_text(text)
    (folder / "rtx4090" / "served_llama31_8b_timeseries.csv").write_text(SERIES)
    return folder


def test_the_same_times_have_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = compared(tables(tmp_path), monkeypatch, 0.1)
    assert {row.verdict for row in found.values()} == {"pass"}
    assert all(abs(row.error) < 1e-6 for row in found.values())
    assert (found["mean ttft"].ours, found["output throughput"].unit) == (pytest.approx(175), "token/s")


def test_slower_steps_are_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = compared(tables(tmp_path), monkeypatch, 0.12)
    assert found["mean tpot"].verdict == found["request throughput"].verdict == "fail"
    assert float(found["mean tpot"].error) == pytest.approx(0.2)
    assert compared(tmp_path, monkeypatch, 20.0)["first token, median error"].verdict == "fail"


def test_another_order_is_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = [(0, 64, 11, 0.0, 0.0, 0.2, 0.3, 1.1), (1, 64, 6, 0.05, 0.1, 0.1, 0.1, 0.8)]
    row = compared(tables(tmp_path, swapped), monkeypatch, 0.1)["requests first scheduled out of order"]
    assert (row.ours, row.verdict) == (1, "fail")


def test_lower_rates_are_predicted_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = read_suite_data("serving")
    found = compared(tables(tmp_path), monkeypatch, 0.1, quick=False)
    assert found["1/s, predicted: request throughput"].verdict == "info"
    drawn = {figure.title: figure for figure in serving.figures(data, list(found.values()))}
    assert [series.name for series in drawn["10 requests/s: KV blocks in use [%]"].series] == ["measured", "simulated"]
    assert [series.name for series in drawn["predicted: running requests"].series] == ["1 requests/s", "3 requests/s"]
    points = drawn["10 requests/s: running requests"].series[1].points
    assert max(value for _, value in points) == 2


def test_without_tables_it_is_skipped(tmp_path: Path) -> None:
    with pytest.raises(Skipped, match="folder of chip tables"):
        list(serving.rows(read_suite_data("serving"), Runner(Options(chip_tables=tmp_path))))


@pytest.mark.nightly
@pytest.mark.skipif(not (FOLDER / "rtx4090").is_dir(), reason="the tables of chips are not beside this checkout")
def test_the_measured_run_is_inside_its_tolerances() -> None:
    found = list(serving.rows(read_suite_data("serving"), Runner()))
    assert {row.verdict for row in found if "predicted" not in row.case} == {"pass"}
    lower, higher = (next(row for row in found if row.case.startswith(f"{rate}/s")) for rate in (1, 3))
    assert lower.ours > 0.9  # it serves what arrives
    assert higher.ours < 2  # it is saturated, as at 10 a second
