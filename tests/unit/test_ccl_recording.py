"""Runs of collectives out as Chakra execution traces, and in again: the times are those of the runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernbench.ccl import recording
from kernbench.ccl.imports.chakra import COLLECTIVE_NAMES, Node, read_chakra, write_chakra
from kernbench.ccl.json_schema import replay_json_schema
from kernbench.cli.main import exit_code
from tests.schemas import validator_of

#: Options of the run, and those that say the machine and the ranks on it, which the replay gets too.
RUNS = {
    "sizes": ("all_reduce -a ring,tree -g 4 -b 1K -e 4K -f 4", ""),
    "auto": ("all_reduce -a auto -g 4 -b 64 -e 8K -f 128", ""),
    "operations and types": ("all_reduce -g 3 -o max,avg -d f32,f16 -b 1K", ""),
    "queues": ("all_reduce -a ring -g 4 -b 16K --slots 2 --slot-bytes 1K --tier sram", ""),
    "blocks that do not divide": ("reduce_scatter -g 6 -b 1000 -e 3000 -i 2000", ""),
    "all_gather": ("all_gather -a all -g 3 -b 2K", ""),
    "all_to_all": ("all_to_all -a all -g 3 -b 2K", ""),
    "roots": ("broadcast -r 0,3 -g 4 -b 4K", ""),
    "reduce": ("reduce -a all -r 1 -g 4 -b 4K", ""),
    "gather": ("gather -a all -g 4 -b 4K", ""),
    "scatter": ("scatter -a all -g 4 -b 4K", ""),
    "barrier": ("barrier -a all -g 4", ""),
    "one rank": ("all_reduce -g 1 -b 1K", ""),
    "several SIPs": ("all_reduce -a hierarchical -b 1K", "-c two_sips --shape 2x1x2"),
    "a torus": ("all_reduce -a torus -b 4K", "-c single_cube --shape 1x1x4 --topo torus"),
    "another machine": ("all_reduce -b 4K -g 4", "-c single_cube --set pe.link.bytes_per_cycle=32"),
}
WIDE = {
    f"{name} on {machine}": (f"{name} -a all -b 2K -e 32K -f 16", machine)
    for name in dict.fromkeys(COLLECTIVE_NAMES)
    for machine in ("-c single_cube --shape 1x1x8", "-c two_sips --shape 2x2x2")
} | {"a torus of SIPs": ("all_reduce -a torus,ring -b 4K", "-c pod_8sip --shape 8x1x1 --topo torus")}


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert exit_code(["ccl", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", [*RUNS, *(pytest.param(name, marks=pytest.mark.nightly) for name in WIDE)])
def test_out_and_in_again_takes_as_long(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    options, machine = (text.split() for text in (RUNS | WIDE)[name])
    out = answer(capsys, "run", *options, *machine, "--no-check", "--chakra", str(tmp_path))
    runs = out.get("runs", [out])
    ran = [
        (algorithm, row["cycles"])
        for run in runs
        for row, algorithm in zip(run["rows"], run.get("algorithms", [run["algorithm"]] * len(run["rows"])), strict=True)
    ]
    back = answer(capsys, "replay", str(tmp_path), *machine)
    assert [(one["algorithm"], one["cycles"]) for one in back["communication"]] == ran
    assert back["cycles"] == sum(cycles for _, cycles in ran) > 0
    assert back["ranks"] == len(list(tmp_path.iterdir())) == runs[0]["ranks"]
    validator_of(replay_json_schema).validate(back)
    (nodes, *others) = [trace.nodes for trace in read_chakra(tmp_path)]
    assert [node.attributes["kernbench_cycles"] for node in nodes] == [cycles for _, cycles in ran]
    assert all(nodes == other for other in others)


def test_the_machine_of_the_replay_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A trace has no times that a replay would repeat: on slower links it takes what the run takes there."""
    run = ("run", "all_reduce", "-a", "ring", "-g", "4", "-b", "16K", "--no-check")
    slow = ("-c", "single_cube", "--set", "cube.mesh.link.bytes_per_cycle=32")
    there = answer(capsys, *run, "--chakra", str(tmp_path))["rows"][0]["cycles"]
    slower = answer(capsys, *run, *slow)["rows"][0]["cycles"]
    assert answer(capsys, "replay", str(tmp_path), *slow)["cycles"] == slower > there
    assert answer(capsys, "replay", str(tmp_path), "--estimate")["communication"][0]["algorithm"] == "ring"


def test_the_same_run_gives_the_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in "ab":
        assert exit_code(["ccl", "run", "all_gather", "-b", "1K", "-e", "2K", "--chakra", str(tmp_path / folder / "new")]) == 0
    names = [f"all_gather.{rank}.et" for rank in range(8)]
    for folder in "ab":
        assert sorted(path.name for path in (tmp_path / folder / "new").iterdir()) == names
    assert all((tmp_path / "a/new" / name).read_bytes() == (tmp_path / "b/new" / name).read_bytes() for name in names)


def test_a_run_that_ends_early_leaves_its_finished_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limit = ("--set", "max_cycles=1500")
    arguments = ["ccl", "run", "all_reduce", "-a", "ring", "-b", "1K", "-e", "64K", "-f", "64", "-c", "single_cube", *limit]
    assert exit_code([*arguments, "--no-check", "--json", "--chakra", str(tmp_path)]) == 3
    rows = json.loads(capsys.readouterr().out)["rows"]
    back = answer(capsys, "replay", str(tmp_path), "-c", "single_cube")
    assert [one["cycles"] for one in back["communication"]] == [row["cycles"] for row in rows] and len(rows) == 1


REFUSED = {
    "send_recv": "the format has no send_recv; it has all_reduce, reduce, ",
    "all_reduce --in-place": "the trace format has no field for results in place; leave out --in-place",
    "all_reduce -g 4 --iters 2": "the time of several launches is a mean, and a replay runs each collective once",
    "all_reduce -w 1": "the time of several launches is a mean",
    "all_reduce --ccl own.yaml -a mine": "all_reduce_mine is an algorithm from a file",
    "all_reduce --ccl own.yaml -a auto": "all_reduce_auto is an algorithm from a file",
}


@pytest.mark.parametrize("options", REFUSED)
def test_runs_that_a_trace_cannot_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    """Refused before anything runs or is made."""
    monkeypatch.chdir(tmp_path)
    module = "kernbench.ccl.algorithms.all_reduce_ring"
    listed = f"{{all_reduce: {{mine: {{module: {module}, topologies: [ring]}}}}}}"
    Path("own.yaml").write_text(f"schema: kernbench/ccl/1\nalgorithms: {listed}\n")
    assert exit_code(["ccl", "run", *options.split(), "-b", "1K", "--chakra", "new"]) == 2
    assert REFUSED[options] in " ".join(capsys.readouterr().err.split())
    assert not Path("new").exists()


def test_places_and_sizes_that_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(place: Path) -> str:
        assert exit_code(["ccl", "run", "all_reduce", "-b", "1K", "-e", "8K", "--chakra", str(place)]) == 2
        return " ".join(capsys.readouterr().err.split())

    (tmp_path / "old.0.et").write_bytes(b"")
    assert "but the directory is not empty; name a new directory" in refused(tmp_path)
    assert "but it must be a directory, and not a file" in refused(tmp_path / "old.0.et")
    monkeypatch.setattr(recording, "MAX_NODES", 31)
    assert "the trace would have 32 nodes, and at most 31 are allowed; take fewer sizes or ranks" in refused(tmp_path / "a")
    monkeypatch.setattr(recording, "MAX_RANKS", 7)
    assert "the trace would have 8 ranks, and at most 7 are allowed" in refused(tmp_path / "a")


OURS = {"algorithm": "ring", "dtype": "f16", "redop": "sum", "slots": 4, "slot_bytes": 4096, "tier": "tcm"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"algorithm": "rings"}, 'node 1: kernbench_algorithm = "rings", but it must be one of ring, '),
        ({"dtype": "f17"}, 'node 1: kernbench_dtype = "f17", but it must be one of '),
        ({"tier": 3}, "node 1: kernbench_tier = 3, but it must be one of tcm, sram, hbm"),
        ({"slots": -1}, "node 1: kernbench_slots = -1, but it must be a whole number from 0"),
        ({"slot_bytes": 1}, "node 1: comm_size = 1,024, but it has no time: "),
        ({"redop": "avg", "dtype": "i32"}, "avg"),
    ],
)
def test_attributes_that_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, Any], said: str
) -> None:
    attributes = {"comm_type": COLLECTIVE_NAMES.index("all_reduce"), "comm_size": 1024}
    ours = {f"kernbench_{name}": value for name, value in (OURS | changed).items()}
    for rank in range(2):
        node = Node(1, "COMM_COLL_NODE", attributes=attributes | ours)
        (tmp_path / f"t.{rank}.et").write_bytes(write_chakra([node]))
    assert exit_code(["ccl", "replay", str(tmp_path)]) == 2
    assert said.replace(",", "") in " ".join(capsys.readouterr().err.split()).replace(",", "")


def test_ranks_that_disagree_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attributes = {"comm_type": 0, "comm_size": 1024}
    for rank, algorithm in enumerate(("ring", "tree")):
        ours = {f"kernbench_{name}": value for name, value in (OURS | {"algorithm": algorithm}).items()}
        (tmp_path / f"t.{rank}.et").write_bytes(write_chakra([Node(1, "COMM_COLL_NODE", attributes=attributes | ours)]))
    assert exit_code(["ccl", "replay", str(tmp_path)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "t.1.et: node 1: kernbench_algorithm" in said and "node 1 of rank 0, to which it belongs, has ring of f16" in said
