"""`kbsim sweep`: its commands, what they say, and their exit codes."""

from __future__ import annotations

import csv
import json
import os
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernbench.sweep import runner
from kernbench.sweep.points import Point
from kernbench.sweep.store import Store
from tests.cli.conftest import Kbsim
from tests.sweep_samples import SPEC

HASH = 64


@pytest.fixture(autouse=True)
def _spec() -> None:
    Path("s.yaml").write_text(SPEC, encoding="utf-8")


def run(kbsim: Kbsim, *more: str) -> None:
    assert kbsim("sweep", "run", "s.yaml", "--threads", "2", "--quiet", *more)[::2] == (0, "")


def rows(file: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(file).read_text(encoding="utf-8").splitlines()))


def test_run_says_what_it_came_to(kbsim: Kbsim) -> None:
    said = kbsim("sweep", "run", "s.yaml", "--threads", "1")
    assert said == (
        0,
        "s  6 points: 6 run\n"
        "Best\n"
        "goal              point\n"
        "min ns  1.316 us  dram.t_setup_cycles=10, te.macs_per_cycle=1024\n"
        "s.sqlite: kbsim sweep report s.sqlite\n",
        "",
    )
    again = kbsim("sweep", "run", "s.yaml", "--json")
    told = {"sweep": "s", "store": "s.sqlite", "points": 6, "known": 6, "ran": 0, "failed": 0, "statuses": {}, "stopped": None}
    assert (again.code, json.loads(again.out), again.err) == (0, told, "")


def test_each_target_has_its_best(kbsim: Kbsim) -> None:
    """The time of one program is not better than that of another."""
    spec = Path("s.yaml").read_text()
    Path("two.yaml").write_text(spec.replace("[tiles.json]", "[tiles.json, clash.json]"))
    said = kbsim("sweep", "run", "two.yaml")
    best = [line.split() for line in said.out.splitlines() if line.startswith("min ns")]
    assert [words[4] for words in best] == ["tiles,", "clash,"], said.out


def test_lines_are_of_what_is_stored(kbsim: Kbsim) -> None:
    said = kbsim("sweep", "run", "s.yaml", "--threads", "1", "--lines")
    told = [json.loads(line) for line in said.out.splitlines()]
    assert [set(one) for one in told] == [{"key", "status", "cycles", "error"}] * 6
    kbsim("sweep", "report", "s.sqlite", "--csv", "t.csv")
    assert sorted(one["cycles"] for one in told) == sorted(int(row["cycles"]) for row in rows("t.csv"))


def test_an_interrupted_run_says_what_is_stored(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = runner.run_missing
    stored = iter((1, 4, 4))

    def interrupted(points: list[Point], *rest: Any, **more: Any) -> None:
        whole(points[: next(stored)], *rest, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_missing", interrupted)
    text = "# interrupted: 1 of 6 points has a result in s.sqlite; the same command runs the rest\n"
    assert kbsim("sweep", "run", "s.yaml", "--threads", "1") == (130, text, "interrupted\n")
    again = kbsim("sweep", "run", "s.yaml", "--threads", "1", "--json")
    assert (again.code, json.loads(again.out), again.err) == (
        130,
        {"status": "interrupted", "points": 6, "stored": 4},
        "interrupted\n",
    )
    assert kbsim("sweep", "run", "s.yaml", "--threads", "1", "--quiet") == (130, "", "interrupted\n")


def test_dry_run_writes_nothing(kbsim: Kbsim) -> None:
    said = json.loads(kbsim("sweep", "run", "s.yaml", "--dry-run", "--json").out)
    assert {name: said[name] for name in ("points", "known", "to_run", "excluded", "tried")} == {
        "points": 6, "known": 0, "to_run": 6, "excluded": 0, "tried": 5,
    }  # fmt: skip
    assert said["seconds"] > 0 and not Path("s.sqlite").exists()
    run(kbsim, "--shard", "1/3")
    said = json.loads(kbsim("sweep", "run", "s.yaml", "--dry-run", "--json").out)
    assert (said["known"], said["to_run"]) == (2, 4)
    text = kbsim("sweep", "run", "s.yaml", "--dry-run", "--shard", "2/3").out.splitlines()
    assert text[0].startswith("s  2 points: 0 known, 2 to run, about ")
    assert text[1:] == [
        "Axes",
        "axis                 values",
        "target                    1  tiles",
        "machine                   1  small.yaml",
        "dram.t_setup_cycles       2  10, 50",
        "te.macs_per_cycle         3  64, 256, 1024",
        "the time is estimated from 2 runs; nothing was written",
    ]


def test_shards_merged_are_the_whole(kbsim: Kbsim) -> None:
    run(kbsim)
    for i in range(1, 5):
        run(kbsim, "--shard", f"{i}/4", "--store", f"{i}.sqlite")
    said = kbsim("sweep", "merge", "all.sqlite", *(f"{i}.sqlite" for i in range(1, 5)))
    assert said == (0, "all.sqlite: 6 results, from 4 stores, 6 new results; sweeps: s\n", "")
    for name in ("s", "all"):
        assert kbsim("sweep", "report", f"{name}.sqlite", "--csv", f"{name}.csv").code == 0
    assert Path("s.csv").read_bytes() == Path("all.csv").read_bytes()
    again = json.loads(kbsim("sweep", "merge", "all.sqlite", "1.sqlite", "--json").out)
    assert again == {"store": "all.sqlite", "stores": 1, "results": 6, "new": 0, "sweeps": ["s"]}


def test_the_table_is_what_runs_say(kbsim: Kbsim) -> None:
    run(kbsim)
    kbsim("sweep", "report", "s.sqlite", "--csv", "t.csv")
    for row in rows("t.csv"):
        settings = [text for name in ("dram.t_setup_cycles", "te.macs_per_cycle") for text in ("--set", f"{name}={row[name]}")]
        ran = json.loads(kbsim("run", "tiles.json", "-c", "small.yaml", *settings, "--json").out)
        assert (int(row["cycles"]), row["status"]) == (ran["cycles"], "done")
        assert int(row["bound"]) == ran["metrics"]["bounds"]["cycles"] and row["bound_by"] == ran["metrics"]["bounds"]["limit"]
        assert float(row["energy_pj"]) == ran["metrics"]["energy_pj"]["total"]
        assert int(row["dram_bytes"]) == sum(ran["counters"][f"dram.ch{i}"]["bytes"] for i in range(2))
        assert int(row["jobs"]) == len(ran["entries"]) == 22 and len(row["jobs_hash"]) == HASH


def test_a_report_ranks_points_and_says_why(kbsim: Kbsim) -> None:
    run(kbsim)
    said = kbsim("sweep", "report", "s.sqlite", "--top", "2", "--why", "1", "--goal", "energy_pj")
    assert (said.code, said.err) == (0, "")
    pinned = Path(__file__).parents[1] / "golden" / "sweep_report.txt"
    if os.environ.get("KB_REGOLD") == "1":
        pinned.write_text(said.out, encoding="utf-8")
    assert said.out == pinned.read_text(encoding="utf-8")
    told = json.loads(kbsim("sweep", "report", "s.sqlite", "--json", "--why", "1").out)
    assert [point["number"] for point in told["points"]] == list(range(6)) and told["goals"] == [{"goal": "ns", "way": "min"}]
    assert next(iter(told["why"].values())).startswith("85% of the run is TE work")


def test_report_as_parquet(kbsim: Kbsim) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    run(kbsim)
    assert kbsim("sweep", "report", "s.sqlite", "--parquet", "t.parquet", "--csv", "t.csv").code == 0
    table = pq.read_table("t.parquet").to_pylist()
    assert [str(row["cycles"]) for row in table] == [row["cycles"] for row in rows("t.csv")]
    assert isinstance(table[0]["te_busy"], float) and isinstance(table[0]["dram.t_setup_cycles"], int)


def test_sweeps_are_compared_point_by_point(kbsim: Kbsim) -> None:
    run(kbsim)
    Path("s.yaml").write_text(SPEC + "set: {ve.lanes: 16}\n", encoding="utf-8")
    run(kbsim, "--store", "new.sqlite")
    same = kbsim("sweep", "compare", "s.sqlite", "s.sqlite", "--fail-above", "0%")
    assert same == (0, "6 points compared: 0 slower, 0 faster, 0 changed, mean 0%; none above the limit\nof 0%\n", "")
    said = kbsim("sweep", "compare", "s.sqlite", "new.sqlite", "--fail-above", "1%", "--markdown", "c.md", "--junit", "c.xml")
    assert (said.code, said.err) == (1, "")
    told = json.loads(kbsim("sweep", "compare", "s.sqlite", "new.sqlite", "--json").out)
    failing = sum(pair["growth"] > 0.01 for pair in told["changed"])
    assert said.out.startswith("6 points compared: ") and f"; {failing} above the limit of 1%" in " ".join(said.out.split())
    suite = ET.fromstring(Path("c.xml").read_text(encoding="utf-8"))
    assert (suite.get("tests"), suite.get("failures")) == ("6", str(failing)) and failing > 0
    assert len(suite.findall(".//testcase")) == 6 and len(suite.findall(".//failure")) == failing
    markdown = Path("c.md").read_text(encoding="utf-8").splitlines()
    assert markdown[0].startswith("### Sweep s: 6 points compared") and "| point | cycles A | cycles B | time |" in markdown


def test_compare_counts_what_broke(kbsim: Kbsim) -> None:
    run(kbsim)
    Path("s.yaml").write_text(SPEC + "set: {max_cycles: 3000}\n", encoding="utf-8")
    run(kbsim, "--store", "new.sqlite")
    told = kbsim("sweep", "compare", "s.sqlite", "new.sqlite", "--fail-above", "50%")
    assert told.code == 1 and "4 broke; 4 above the" in told.out.replace("\n", " ")
    assert kbsim("sweep", "compare", "new.sqlite", "s.sqlite", "--fail-above", "50%").code == 0


def test_failed_points_end_with_1(kbsim: Kbsim) -> None:
    """Two tensor engines are asked for, and one of the machines has one: its points are refused, the others are done."""
    text = SPEC.replace("te.macs_per_cycle: {from: 64, to: 1024, count: 3, scale: log}", "te.engines: [1, 2]")
    Path("s.yaml").write_text(text, encoding="utf-8")
    said = kbsim("sweep", "run", "s.yaml", "--threads", "1")
    assert said.code == 1
    lines = said.out.splitlines()
    assert lines[0] == "s  4 points: 4 run, 2 failed"
    assert lines[lines.index("Failures") + 1].startswith("dram.t_setup_cycles=10, te.engines=1: refused:")
    assert kbsim("sweep", "run", "s.yaml", "--threads", "1").code == 0  # nothing was run
    assert kbsim("sweep", "run", "s.yaml", "--threads", "1", "--retry", "failed").code == 1
    assert "Failures" in kbsim("sweep", "report", "s.sqlite").out


def test_a_store_has_one_driver(kbsim: Kbsim) -> None:
    with Store.write("s.sqlite"):
        said = kbsim("sweep", "run", "s.yaml", "--threads", "1")
    assert said == (2, "", "error: s.sqlite: another run is writing to this store; wait for it, or take --store\n")
    run(kbsim)


BAD = [
    (("run", "s.yaml", "--shard", "5/4"), 'kbsim sweep run: --shard = "5/4", but it must be I/N, with I from 1 to N'),
    (("run", "s.yaml", "--shard", "x"), 'kbsim sweep run: --shard = "x", but it must be I/N, with I from 1 to N'),
    (("report", "none.sqlite"), "none.sqlite: there is no such store; to make a store, use kbsim sweep run"),
    (("run", "none.yaml"), "none.yaml: the file does not exist"),
    (("merge", "a.sqlite", "none.sqlite"), "none.sqlite: there is no such store; to make a store, use kbsim sweep run"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD)
def test_a_wrong_option_of_a_sweep_is_refused(kbsim: Kbsim, arguments: tuple[str, ...], said: str) -> None:
    assert kbsim("sweep", *arguments) == (2, "", f"error: {said}\n")


def test_refusals_of_stores_with_other_sweeps(kbsim: Kbsim) -> None:
    run(kbsim)
    Path("o.yaml").write_text(SPEC + "name: other\n", encoding="utf-8")
    assert kbsim("sweep", "run", "o.yaml", "--store", "s.sqlite", "--threads", "1").code == 0
    assert kbsim("sweep", "report", "s.sqlite").err == "error: s.sqlite: it holds the sweeps other, s; name one with --sweep\n"
    assert kbsim("sweep", "report", "s.sqlite", "--sweep", "x").err == (
        'error: s.sqlite: sweep = "x", but there is no such sweep; there are other, s\n'
    )
    assert kbsim("sweep", "report", "s.sqlite", "--sweep", "other").code == 0
    assert kbsim("sweep", "report", "s.sqlite", "--sweep", "s", "--goal", "speed").err.startswith(
        'error: kbsim sweep report: --goal = "speed", but it must be one of ns, cycles, bound'
    )


def test_shares_of_axes_and_of_their_interactions_add_up_or_it_is_said_that_they_need_not(kbsim: Kbsim) -> None:
    from kernbench.sweep.report.analysis import Influence, interactions

    def axis(share: float, *counts: int) -> Influence:
        return Influence("a", share, 0, 1.0, tuple((value, count, 0.0) for value, count in enumerate(counts)))

    assert interactions([axis(0.5, 3, 3), axis(0.25, 2, 2, 2)], 6) == pytest.approx(0.25)
    assert interactions([axis(0.5, 3, 2), axis(0.7, 2, 2, 1)], 5) is None  # a point is missing: shares overlap
    eighths = replace(axis(0.5, 4, 4), counts=(2, 2, 2, 2))  # four values in two groups: 8 points are a full grid, 4 are not
    assert interactions([eighths, axis(0.25, 4, 4)], 8) == pytest.approx(0.25)
    assert interactions([eighths, axis(0.25, 2, 2)], 4) is None
    run(kbsim)
    said = kbsim("sweep", "report", "s.sqlite", "--goal", "energy_pj").out
    assert "interactions of axes" in said and "no full grid" not in said


def test_a_search_says_what_it_found(kbsim: Kbsim) -> None:
    pytest.importorskip("optuna", reason="the extra `search` is not installed")
    Path("f.yaml").write_text(SPEC + "search: {trials: 6, batch: 3}\n", encoding="utf-8")
    code, out, err = kbsim("sweep", "run", "f.yaml", "--threads", "2", "--json")
    told = json.loads(out)
    assert (code, err) == (0, "")
    assert told["proposed"] >= 6 and told["ran"] == told["points"] and told["pruned"] >= 0
    _, text, _ = kbsim("sweep", "run", "f.yaml", "--threads", "2")
    assert text.startswith(f"searched {told['proposed']} proposals") and "known before" in text
    for option in (["--shard", "1/2"], ["--dry-run"], ["--executor", "dask"]):
        code, _, err = kbsim("sweep", "run", "f.yaml", *option)
        assert code == 2 and "remove search from f" in err


def test_a_search_of_the_largest_value_has_a_table(kbsim: Kbsim) -> None:
    more = "search: {largest: dram.t_setup_cycles, meets: cycles < 600}\n"
    Path("f.yaml").write_text(SPEC + more, encoding="utf-8")
    code, out, _ = kbsim("sweep", "run", "f.yaml", "--threads", "1", "--json")
    largest = json.loads(out)["largest"]
    assert code == 0 and [one["te.macs_per_cycle"] for one in largest] == [64, 256, 1024]
    _, text, _ = kbsim("sweep", "run", "f.yaml", "--threads", "1")
    assert "largest dram.t_setup_cycles with cycles < 600\nLargest\n" in text


def test_a_sweep_compares_chips(kbsim: Kbsim) -> None:
    spec = {
        "schema": "kernbench/sweep/1", "machine": ["a100", "h100"], "axes": {"param.m": [16, 4096]},
        "targets": [{"op": "matmul", "params": {"runtime": "none"}}], "goals": {"tflop_per_s": "max"},
    }  # fmt: skip
    Path("chips.json").write_text(json.dumps(spec))
    said = kbsim("sweep", "run", "chips.json")
    assert said.code == 0, said.err
    assert "note: NVIDIA H100" in said.err and "A100" not in said.err
    best = next(line for line in said.out.splitlines() if "max tflop_per_s" in line)
    assert "h100, param.m=4096" in best


CONSTRAINED = """\
schema: kernbench/sweep/1
targets: [tiles.json]
machine: small.yaml
axes: {te.macs_per_cycle: [64, 128, 256]}
goals: {ns: min}
"""


def test_points_that_break_a_constraint_are_counted(kbsim: Kbsim) -> None:
    Path("c.yaml").write_text(f"{CONSTRAINED}constraints: [te.macs_per_cycle <= 128]\n", encoding="utf-8")
    line = "1 of 3 points breaks a constraint: te.macs_per_cycle <= 128"
    assert line in kbsim("sweep", "run", "c.yaml", "--threads", "1").out
    assert line in kbsim("sweep", "report", "c.sqlite").out


def test_a_search_that_is_refused_at_its_first_point_leaves_no_store(kbsim: Kbsim) -> None:
    spec = CONSTRAINED.replace("small.yaml", "npu_server").replace("tiles.json", "llama2-7b-decode")
    spec = spec.replace("te.macs_per_cycle: [64, 128, 256]", "dram.channels: [4]")
    Path("c.yaml").write_text(f"{spec}search: {{trials: 2}}\n", encoding="utf-8")
    said = kbsim("sweep", "run", "c.yaml", "--threads", "1")
    assert said.code == 2 and "dram.channels = 4, but" in said.err and not Path("c.sqlite").exists()
