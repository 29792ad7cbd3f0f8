"""Chakra execution traces on our machine: times against sums by hand and an oracle, and files that are refused."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.ccl.imports.chakra import COLLECTIVE_NAMES, Node, read_chakra, write_chakra
from kernbench.ccl.replay import Job, critical_path, run_jobs
from kernbench.cli.main import exit_code
from kernbench.common.errors import InputError

US = 1000  # cycles of a microsecond of the presets


def write(place: Path, ranks: Sequence[Sequence[Node]]) -> Path:
    """The files of a trace; returns their prefix."""
    for rank, nodes in enumerate(ranks):
        (place / f"t.{rank}.et").write_bytes(write_chakra(nodes))
    return place / "t"


def collective(number: int, name: str, size: int, *after: int, **more: int | str) -> Node:
    attributes = {"comm_type": COLLECTIVE_NAMES.index(name), "comm_size": size, **more}
    return Node(number, "COMM_COLL_NODE", data=after, attributes=attributes)


def work(number: int, micros: int, *after: int) -> Node:
    return Node(number, "COMP_NODE", data=after, micros=micros)


def message(number: int, kind: str, peer: int, size: int, *after: int) -> Node:
    name = "comm_dst" if kind == "SEND" else "comm_src"
    return Node(number, f"COMM_{kind}_NODE", data=after, attributes={name: peer, "comm_size": size, "comm_tag": 7})


def replayed(capsys: pytest.CaptureFixture[str], place: Path, *arguments: str) -> dict[str, object]:
    assert exit_code(["ccl", "replay", str(place), "-c", "single_cube", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


def measured(capsys: pytest.CaptureFixture[str], name: str, ranks: int, size: str) -> int:
    arguments = [
        "ccl",
        "run",
        name,
        "-c",
        "single_cube",
        "--algo",
        "auto",
        "-g",
        str(ranks),
        "-b",
        size,
        "--no-check",
        "--json",
    ]
    assert exit_code(arguments) == 0
    return json.loads(capsys.readouterr().out)["rows"][0]["cycles"]  # type: ignore[no-any-return]


def test_a_collective_takes_what_ccl_run_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rank 3 is late, so all begin then; work without a dependency on it runs beside it."""
    ranks = [[work(1, 5), collective(2, "all_reduce", 4096, 1), work(3, 1, 1)] for _ in range(3)]
    ranks.append([work(1, 7), collective(2, "all_reduce", 4096, 1)])
    said = replayed(capsys, write(tmp_path, ranks))
    took = measured(capsys, "all_reduce", 4, "4K")
    assert said["cycles"] == 7 * US + took
    assert said["critical_path"] == {"compute": 7 * US, "communication": took, "cpu": 0}
    assert [row["compute"] for row in said["per_rank"]] == [6 * US] * 3 + [7 * US]  # type: ignore[attr-defined]


def test_blocks_and_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`comm_size` is what a rank has; the ranks that name a group are its members, and two groups run at a time."""
    ranks = [[collective(1, "all_gather", 512, pg_name=f"half {rank // 2}")] for rank in range(4)]
    said = replayed(capsys, write(tmp_path, ranks))
    took = measured(capsys, "all_gather", 2, "1K")
    (low, high) = said["communication"]  # type: ignore[misc]
    assert low["ranks"] == [0, 1] and high["ranks"] == [2, 3] and low["cycles"] == took  # type: ignore[has-type]
    assert said["cycles"] == max(low["cycles"], high["cycles"])  # type: ignore[has-type]


def test_messages_in_order_and_work_by_operations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A receive ends with its message, or when it is ready. Operations run at the rate of the machine."""
    ops = Node(2, "COMP_NODE", data=(1,), attributes={"num_ops": 2 * 4096 * 1000, "is_cpu_op": False})
    ranks = [[message(1, "SEND", 1, 2048)], [message(1, "RECV", 0, 2048), ops]]
    said = replayed(capsys, write(tmp_path, ranks))
    took = measured(capsys, "broadcast", 2, "2K")
    assert said["cycles"] == took + 1000  # an engine of 8192 MAC a cycle at 8 bits, half of it at 16
    assert said["communication"][0]["collective"] == "send"  # type: ignore[index]
    assert exit_code(["ccl", "replay", str(tmp_path), "-c", "single_cube", "--estimate"]) == 0
    assert "critical path: " in capsys.readouterr().out


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_jobs_hold_their_order(data: st.DataObject) -> None:
    """Nothing begins before what it waits for has ended, an engine has one job at a time and is never idle while a job waits
    for it alone, and the critical path adds up to the end.
    """
    jobs = []
    for one in range(data.draw(st.integers(1, 14))):
        engines = [(rank, "compute") for rank in sorted(data.draw(st.sets(st.integers(0, 2), min_size=1)))]
        after = sorted(data.draw(st.sets(st.integers(0, one - 1)))) if one else []
        jobs.append(Job([], "compute", engines, after, data.draw(st.integers(0, 5))))
    last = run_jobs(jobs)
    for one, job in enumerate(jobs):
        ready = max((jobs[before].end for before in job.after), default=0)
        assert job.begin >= ready and job.end == job.begin + job.cycles
        shared = [other for other in jobs[:one] if {*other.engines} & {*job.engines} and other.cycles and job.cycles]
        assert all(other.end <= job.begin or job.end <= other.begin for other in shared)
        assert job.begin == ready or any(other.end == job.begin and {*other.engines} & {*job.engines} for other in jobs)
    assert last == max(job.end for job in jobs) == sum(critical_path(jobs).values())


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_file_comes_back_and_a_broken_one_is_refused(data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, (1 << 64) - 1), unique=True, min_size=1, max_size=5))
    value = st.integers(-(1 << 63), (1 << 63) - 1) | st.booleans() | st.text(max_size=9) | st.lists(st.booleans()).map(tuple)
    nodes = []
    for at, number in enumerate(numbers):
        after = tuple(data.draw(st.lists(st.sampled_from(numbers[:at])))) if at else ()
        attributes = data.draw(st.dictionaries(st.text(max_size=5), value, max_size=3))
        nodes.append(Node(number, "COMP_NODE", data.draw(st.text(max_size=9)), after, after, 1 << 40, attributes))
    written = write_chakra(nodes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.0.et"
        path.write_bytes(written)
        (read,) = read_chakra(folder)
        assert list(read.nodes) == nodes
        cut = data.draw(st.integers(1, len(written) - 1))
        path.write_bytes(data.draw(st.sampled_from([written[:cut], written[:cut] + b"\xff" * 12, written[:cut] + written])))
        try:
            read_chakra(folder)
        except InputError as error:
            assert str(error).startswith(str(path))


BAD = [
    ([[work(1, 1), work(1, 1)]], "node 1: id = 1, but another node has it"),
    ([[work(1, 1, 9)]], "node 1: data_deps = 9, but the file has no node of this id"),
    ([[work(1, 1, 2), work(2, 1, 1)]], "node 1: data_deps: nodes wait for each other"),
    ([[Node(1, "INVALID_NODE")]], "node 1: type = 0, but it must be one of 1 to 7"),
    ([[message(1, "SEND", 1, 8)], []], "node 1: comm_dst: messages with tag 7 do not match"),
    ([[message(1, "SEND", 1, 8)], [message(4, "RECV", 0, 9)]], "node 4: comm_size = 9, but node 1 of rank 0 sends 8 bytes"),
    ([[message(1, "SEND", 5, 8)]], "node 1: comm_dst = 5, but it must be another rank"),
    ([[collective(1, "all_reduce", 8)], []], "node 1: comm_type: it is collective 1 of all ranks, and rank 1 has 0"),
    ([[collective(1, "reduce", 8)], [collective(2, "gather", 8)]], "but node 1 of rank 0, to which it belongs, has reduce"),
    ([[collective(1, "reduce", 1 << 50)]], "node 1: comm_size = 1125899906842624, but it must be a whole number from 0"),
    ([[collective(1, "reduce", 1 << 38)]] * 2, "t.0.et: node 1: comm_size = 274877906944, but it has no time: "),
    ([[Node(1, "COMM_COLL_NODE")]], "node 1: comm_type: a COMM_COLL_NODE must have it"),
    (
        [[message(1, "RECV", 1, 8), message(2, "SEND", 1, 8, 1)], [message(1, "RECV", 0, 8), message(2, "SEND", 0, 8, 1)]],
        "which is a deadlock: node 1 of rank 0 waits for node 2 of rank 1 waits for node 1 of rank 1",
    ),
]


@pytest.mark.parametrize(("ranks", "said"), BAD)
def test_what_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ranks: Sequence[Sequence[Node]], said: str
) -> None:
    assert exit_code(["ccl", "replay", str(write(tmp_path, ranks)), "-c", "single_cube"]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xff\xff\xff\x7f", "has a length of 34,359,738,367 bytes, and 0 are left"),
        (b"\x00\x02\x0b\x00", "has the wire type 3"),
        (b"\xff" * 11, "a number has more than 64 bits"),
        (b"\x00\x03\x08\x80", "are left"),
    ],
)
def test_bytes_that_are_no_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, said: str) -> None:
    (tmp_path / "t.0.et").write_bytes(data)
    assert exit_code(["ccl", "replay", str(tmp_path)]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_files_that_are_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["ccl", "replay", str(tmp_path)]) == 2
    assert "there are no files PREFIX.RANK.et" in " ".join(capsys.readouterr().err.split())
    (tmp_path / "trace.json").write_text("{}")
    with pytest.raises(InputError, match="traces in JSON are not read: convert them with chakra_converter"):
        read_chakra(tmp_path)
    (tmp_path / "t.1.et").write_bytes(write_chakra([work(1, 1)]))
    assert exit_code(["ccl", "replay", str(tmp_path / "t")]) == 2
    assert "rank 0 has no file" in " ".join(capsys.readouterr().err.split())


def test_callers_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """PyTorch's converter writes the caller of a node as a control dependency, and the caller waits for the node."""
    ranks = [[Node(1, "COMP_NODE", micros=2, data=(2,)), Node(2, "COMP_NODE", micros=3, control=(1,))]]
    assert exit_code(["ccl", "replay", str(write(tmp_path, ranks)), "-c", "single_cube"]) == 2
    assert "--no-control" in capsys.readouterr().err
    assert replayed(capsys, tmp_path, "--no-control")["cycles"] == 5 * US


def test_a_root_on_several_cubes(capsys: pytest.CaptureFixture[str]) -> None:
    """The tensors of ranks that are counted from the root lie where those of all ranks do."""
    for root in ("0", "9"):
        assert exit_code(["ccl", "run", "broadcast", "-c", "two_sips", "-g", "16", "--root", root, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["rows"][0]["wrong"] == 0
