"""`kbsim validate`: green as it is, red with an error planted into any engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernbench.validate.run import SUITES
from tests.cli.conftest import Kbsim

#: Suites with exact rows that take no time; each engine has some in one of them.
GOALS = ("chips",)  #: Its limits are goals, so its rows do not fail; tables of chips lie beside a checkout.
GATES = tuple(name for name in SUITES if name not in GOALS)
FAST = ("systolic", "tensor", "vector", "transfers", "dram")


def test_no_row_of_the_subset_fails(kbsim: Kbsim) -> None:
    said = kbsim("validate", *GATES, "--quick", "--report", "page.html")
    assert said.code == 0, said.out + said.err
    assert " 0 fail" in said.out.splitlines()[-1]
    page = Path("page.html").read_text(encoding="utf-8")
    assert all(f'id="{name}"' in page for name in GATES) and page.count("<svg") >= 5


@pytest.mark.parametrize("engine", ["dma", "te", "ve", "noc", "dram"])
def test_a_tenth_more_in_any_engine_is_noticed(kbsim: Kbsim, engine: str) -> None:
    said = kbsim("validate", *FAST, "--plant", f"{engine}=1.1", "--json")
    assert said.code == 1
    told = json.loads(said.out)
    rows = [row for suite in told["suites"] for row in suite["rows"]]
    assert told["failed"] == sum(row["verdict"] == "fail" for row in rows) > 0
    moved = {"transfers"} if engine == "noc" else {"transfers", "dram"}
    noticed = {"te": {"systolic", "tensor"}, "ve": {"vector"}}.get(engine, moved)
    assert {suite["suite"] for suite in told["suites"] if any(row["verdict"] == "fail" for row in suite["rows"])} == noticed


def test_systolic_rows_are_exact(kbsim: Kbsim) -> None:
    told = json.loads(kbsim("validate", "systolic", "--json").out)["suites"][0]
    by_case = {row["case"]: row for row in told["rows"] if row["source"] == "scalesim"}
    assert len(by_case) == 17 and all(row["error"] == 0 and row["allowed"] == 0 for row in by_case.values())
    assert by_case["ws 512x512x512 on 16x16"]["ours"] == 571391


def test_the_table(kbsim: Kbsim) -> None:
    said = kbsim("validate", "tensor")
    lines = said.out.splitlines()
    assert lines[0] == "Tensor engine, MACs at a rate  tensor, in cycles"
    assert lines[1].split() == ["case", "source", "expected", "simulated", "error", "allowed", "verdict"]
    assert lines[-3:] == [
        "allowed 0: work divided by rate, rounded up: must be equal",
        "",
        "18 of 18 rows pass, 0 fail",
    ]
    assert max(map(len, lines)) <= 80 and sum(line.endswith("pass") for line in lines) == 18


def test_the_list(kbsim: Kbsim) -> None:
    assert [line.split()[0] for line in kbsim("validate", "--list").out.splitlines()] == list(SUITES)
    assert [one["suite"] for one in json.loads(kbsim("validate", "--list", "vector", "--json").out)["suites"]] == ["vector"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], 'kbsim validate: there is no suite "nothing"; the suites are systolic, scalesim, '),
        (
            ["--plant", "cpu=1.1"],
            'kbsim validate: --plant = "cpu=1.1", but it must be ENGINE=FACTOR: one of dma, te, ve, noc, dram, '
            "and a number from 1 to 1000",
        ),
        (["--plant", "te=0.5"], 'kbsim validate: --plant = "te=0.5", but it must be ENGINE=FACTOR: one of dma, te, '),
        (["--report", "nowhere/page.html"], "nowhere/page.html: it cannot be written: there is no directory "),
        (["scalesim", "--scalesim", "nowhere"], "nowhere: --scalesim: it cannot be run: No such file or directory"),
    ],
)
def test_a_wrong_suite_or_folder_is_refused(kbsim: Kbsim, arguments: list[str], message: str) -> None:
    said = kbsim("validate", *arguments)
    assert said.code == 2 and said.err.startswith(f"error: {message}"), said.err


def test_checks_can_be_left_out(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernbench.bounds.laws import BrokenLaw

    def broken(*given: object) -> None:
        raise BrokenLaw("the run broke a law")

    monkeypatch.setattr("kernbench.sim_engine.machine.check_laws", broken)
    run = ("run", "tiles.json", "--config", "small.yaml")
    said = kbsim(*run)
    assert (said.code, said.out, said.err) == (5, "", "error: the run broke a law\n")
    assert json.loads(kbsim(*run, "--json").out) == {"status": "failed", "message": "the run broke a law"}
    assert kbsim(*run, "--checks", "off").code == 0


def test_a_folder_without_traces_is_refused(kbsim: Kbsim) -> None:
    said = kbsim("validate", "noc_traces", "--traces", "nowhere")
    assert (said.code, said.out, said.err) == (2, "", "error: nowhere: --traces: it has no .json file\n")
