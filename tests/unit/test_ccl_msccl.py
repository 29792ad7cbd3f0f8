"""MSCCL XML: algorithms of other people run on our ranks; files that are wrong are refused with line and rule."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.ccl.imports.msccl import read_msccl
from kernbench.cli.main import exit_code
from kernbench.common.dtypes import dtype_of
from kernbench.common.errors import InputError

STEP = (
    '<step s="{s}" type="{type}" srcbuf="{src}" srcoff="{so}" dstbuf="{dst}" dstoff="{do}" cnt="{cnt}" '
    'depid="{depid}" deps="{deps}" hasdep="0"/>'
)


def step(s: int, kind: str, src: tuple[str, int], dst: tuple[str, int], cnt: int = 1, dep: tuple[int, int] = (-1, -1)) -> str:
    values = {"src": src[0], "so": src[1], "dst": dst[0], "do": dst[1], "cnt": cnt, "depid": dep[0], "deps": dep[1]}
    return STEP.format(s=s, type=kind, **values)


def ring(ranks: int) -> str:
    """An all-reduce in place round a ring, a chunk a rank: sums, then copies; one thread block a rank."""
    gpus = []
    for rank in range(ranks):
        steps = []
        for number in range(2 * (ranks - 1)):
            sent = (rank - number) % ranks
            got = (rank - number - 1) % ranks
            steps.append(step(2 * number, "s", ("i", sent), ("i", sent)))
            steps.append(step(2 * number + 1, "rrc" if number < ranks - 1 else "r", ("i", got), ("i", got)))
        block = f'<tb id="0" send="{(rank + 1) % ranks}" recv="{(rank - 1) % ranks}" chan="0">{"".join(steps)}</tb>'
        gpus.append(f'<gpu id="{rank}" i_chunks="{ranks}" o_chunks="0" s_chunks="0">{block}</gpu>')
    head = f'<algo name="ring" nchunksperloop="{ranks}" ngpus="{ranks}" coll="allreduce" inplace="1" outofplace="0">'
    return head + "\n".join(gpus) + "</algo>"


def direct(ranks: int) -> str:
    """An all-to-all: a thread block for each peer, and one that copies the rank's own chunk."""
    gpus = []
    for rank in range(ranks):
        blocks = [f'<tb id="0" send="-1" recv="-1" chan="0">{step(0, "cpy", ("i", rank), ("o", rank))}</tb>']
        for peer in (one for one in range(ranks) if one != rank):
            steps = step(0, "s", ("i", peer), ("i", peer)) + step(1, "r", ("o", peer), ("o", peer), dep=(0, 0))
            blocks.append(f'<tb id="{len(blocks)}" send="{peer}" recv="{peer}" chan="0">{steps}</tb>')
        gpus.append(f'<gpu id="{rank}" i_chunks="{ranks}" o_chunks="{ranks}" s_chunks="0">{"".join(blocks)}</gpu>')
    head = f'<algo name="direct" proto="LL" nchunksperloop="{ranks}" ngpus="{ranks}" coll="alltoall" inplace="0">'
    return head + "\n".join(gpus) + "</algo>"


def gather(ranks: int) -> str:
    """An all-gather in place round a ring: each rank has one chunk of its results before it."""
    gpus = []
    for rank in range(ranks):
        steps = [step(0, "s", ("o", rank), ("o", rank))]
        for number in range(1, ranks):
            got = (rank - number) % ranks
            steps.append(step(number, "rcs" if number < ranks - 1 else "r", ("o", got), ("o", got)))
        block = f'<tb id="0" send="{(rank + 1) % ranks}" recv="{(rank - 1) % ranks}" chan="0">{"".join(steps)}</tb>'
        gpus.append(f'<gpu id="{rank}" i_chunks="0" o_chunks="{ranks}" s_chunks="0">{block}</gpu>')
    head = f'<algo name="gather" nchunksperloop="{ranks}" ngpus="{ranks}" coll="allgather" inplace="1">'
    return head + "\n".join(gpus) + "</algo>"


def two(body_0: str, body_1: str, **changes: str) -> str:
    """An all-reduce of two ranks out of place with a scratch of one chunk, from what stands in its thread blocks."""
    values = {"coll": "allreduce", "ngpus": "2", "nchunksperloop": "1", "inplace": "0", "name": "two", **changes}
    head = " ".join(f'{key}="{value}"' for key, value in values.items())
    bodies = enumerate((body_0, body_1))
    gpus = "\n".join(f'<gpu id="{rank}" i_chunks="1" o_chunks="1" s_chunks="1">\n{body}\n</gpu>' for rank, body in bodies)
    return f"<algo {head}>\n{gpus}\n</algo>"


def block(peer: int, *steps: str, number: int = 0) -> str:
    return f'<tb id="{number}" send="{peer}" recv="{peer}" chan="0">\n' + "\n".join(steps) + "\n</tb>"


SEND, ADD = step(0, "s", ("i", 0), ("i", 0)), step(1, "rrc", ("i", 0), ("o", 0))
SCRATCH = [  # what arrives goes to scratch in one thread block and is added in another one
    block(peer, SEND, step(1, "r", ("s", 0), ("s", 0)))
    + f'<tb id="1" send="-1" recv="-1" chan="1">{step(0, "cpy", ("i", 0), ("o", 0))}'
    + step(1, "nop", ("i", 0), ("o", 0), dep=(0, 0))
    + step(2, "re", ("s", 0), ("o", 0), dep=(0, 1))
    + "</tb>"
    for peer in (1, 0)
]
GOOD = two(block(1, SEND, ADD), block(0, SEND, ADD))


def written(folder: Path, text: str) -> Path:
    path = folder / "algo.xml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [ring(4), ring(5), direct(4), gather(3), GOOD, two(*SCRATCH)],
    ids=["ring4", "ring5", "direct4", "gather3", "two", "re"],
)
def test_an_algorithm_runs_and_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    path = written(tmp_path, text)
    ran = ["ccl", "run", "--msccl", str(path), "-b", "1000", "-e", "100000", "-f", "100", "-d", "f16,i32"]
    assert exit_code(ran) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    assert len(rows) == 4 and all(row[-1] == "0" and float(row[5]) > 0.2 for row in rows)


def test_messages_longer_than_a_slot_and_several_chunks_in_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, ring(4))
    for size, slot in (("64K", "256"), ("64", "32K")):
        assert exit_code(["ccl", "run", "--msccl", str(path), "-b", size, "--slot-bytes", slot, "-n", "4"]) == 0
    capsys.readouterr()


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 6), st.integers(1, 5), st.sampled_from(["f16", "i32"]))
def test_the_reference_is_the_sum_in_the_order_of_the_steps(ranks: int, each: int, dtype: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        algorithm = read_msccl(written(Path(folder), ring(ranks))).load()
    random = np.random.default_rng(ranks * 10 + each)
    inputs = [random.integers(-50, 50, ranks * each).astype(dtype_of(dtype).numpy) for _ in range(ranks)]
    found = algorithm.reference(inputs, 0, None, 1024)
    assert all(np.array_equal(one, np.sum(inputs, axis=0, dtype=inputs[0].dtype)) for one in found)


def ran_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert exit_code(["ccl", "run", *arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return [row for run in found.get("runs", [found]) for row in run["rows"]]


@pytest.mark.parametrize(("redop", "op"), [("max", "max"), ("prod", "prod"), ("nop", "sum")])
def test_the_reduction_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], redop: str, op: str) -> None:
    path = written(tmp_path, two(block(1, SEND, ADD), block(0, SEND, ADD), redop=redop))
    rows = ran_json(capsys, "--msccl", str(path), "-a", "ring", "-d", "f32")
    assert [(row["redop"], row["wrong"]) for row in rows] == [(op, 0), (op, 0)]


def test_another_reduction_than_that_of_the_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(written(tmp_path, two(block(1, SEND, ADD), block(0, SEND, ADD), redop="max")))
    assert exit_code(["ccl", "run", "--msccl", path, "-o", "min"]) == 2
    assert f'{path}: --op = "min", but it is an algorithm for the reduction max; use -o max' in capsys.readouterr().err
    assert [row["redop"] for row in ran_json(capsys, "--msccl", path, "-o", "all")] == ["max"]


def test_sizes_are_rounded_up_to_whole_chunks(tmp_path: Path) -> None:
    assert read_msccl(written(tmp_path, ring(5))).multiple() == 5
    assert read_msccl(written(tmp_path, direct(4))).multiple() == 1


WRONG = {
    "sums of one rank": (two(block(1, SEND, step(1, "r", ("o", 0), ("o", 0))), block(0, SEND, ADD)),
                         "it is no all_reduce: chunk 0 of rank 0 ends as chunk 0 of rank 1, and it must be "),
    "read before written": (two(block(1, step(0, "s", ("s", 0), ("i", 0)), ADD), block(0, SEND, ADD)),
                            ":4: rank 0 reads chunk 0 of s, to which no step before has written"),
    "a circle": (two(block(1, step(0, "rrc", ("i", 0), ("o", 0)), step(1, "s", ("i", 0), ("i", 0))),
                     block(0, step(0, "rrc", ("i", 0), ("o", 0)), step(1, "s", ("i", 0), ("i", 0)))),
                 ":4: steps wait for each other: rank 0, thread block 0 waits for a message of rank 1, which never comes"),
    "steps that wait for themselves": (
        two(block(1, step(0, "s", ("i", 0), ("i", 0), dep=(0, 1)), ADD), block(0, SEND, ADD)),
        ":4: steps wait for each other: rank 0, thread block 0 waits for step 1 of thread block 0"),
    "chunk": (two(block(1, step(0, "s", ("i", 1), ("i", 0)), ADD), block(0, SEND, ADD)),
               ':4: step.srcoff = "1", but chunks 1 to 1 of i are used, and gpu 0 has 1 of them'),
    "peer": (two(block(2, SEND, ADD), block(0, SEND, ADD)), ':3: tb.send = "2", but it must be an integer from -1 to 1'),
    "itself": (two(block(0, SEND, ADD), block(0, SEND, ADD)), "gpu 0 cannot be its own peer"),
    "no peer": (two(block(-1, SEND, ADD), block(0, SEND, ADD)), 'step.type = "s", but its thread block has no send'),
    "dependency": (two(block(1, step(0, "s", ("i", 0), ("i", 0), dep=(3, 0)), ADD), block(0, SEND, ADD)),
                   'step.depid = "3", but gpu 0 has 1 thread blocks'),
    "step of a dependency": (two(block(1, step(0, "s", ("i", 0), ("i", 0), dep=(0, 9)), ADD), block(0, SEND, ADD)),
                             'step.deps = "9", but thread block 0 has 2 steps'),
    "unequal numbers": (two(block(1, SEND, ADD), block(0, SEND)), "gpu 0 sends 1 chunks to gpu 1 on channel 0"),
    "order": (two(block(1, ADD, SEND), block(0, SEND, ADD)), "steps are numbered in their order, and this is number 0"),
    "type": (GOOD.replace('type="rrc"', 'type="rcc"', 1), "it must be one of s, r, cpy, re"),
    "collective": (GOOD.replace("allreduce", "allredux"), 'algo.coll = "allredux", but it must be one of allreduce'),
    "number of gpus": (GOOD.replace('ngpus="2"', 'ngpus="3"'), "there is no gpu 2, and ngpus is 3"),
    "huge count": (GOOD.replace('cnt="1"', 'cnt="99999999999999999999"', 1), "it must be an integer from 1 to 65536"),
    "huge gpus": (GOOD.replace('ngpus="2"', 'ngpus="1000000000"'), "it must be an integer from 2 to 4096"),
    "two of a number": (GOOD.replace('gpu id="1"', 'gpu id="0"'), ":8: gpu.id = \"0\", but gpu 0 is there already, in line 2"),
    "no xml": (GOOD[:-3], "it is not XML: unclosed token"),
    "another root": ("<system/>", "the first element of an MSCCL algorithm is <algo>"),
    "another element": (GOOD.replace("<tb ", "<td ", 1).replace("</tb>", "</td>", 1), ":3: td: <gpu> may contain <tb>"),
    "entities": ('<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>\n' + GOOD, ":1: it declares a document type"),
    "deep": ("<a>" * 100 + "</a>" * 100, "elements may be nested at most 64 deep"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_refused_with_line_and_rule(tmp_path: Path, name: str) -> None:
    text, said = WRONG[name]
    with pytest.raises(InputError) as error:
        read_msccl(written(tmp_path, text))
    assert said in str(error.value) and str(error.value).startswith(str(tmp_path / "algo.xml"))


def test_other_ranks_and_other_collectives_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, GOOD)
    assert exit_code(["ccl", "run", "--msccl", str(path), "-g", "4"]) == 2
    assert "it is for 2 ranks, and the group has 4" in capsys.readouterr().err
    assert exit_code(["ccl", "run", "all_gather", "--msccl", str(path)]) == 2
    assert "it is an algorithm of all_reduce, and all_gather is run" in capsys.readouterr().err
    assert exit_code(["ccl", "run"]) == 2
    assert "a collective must be named" in capsys.readouterr().err
