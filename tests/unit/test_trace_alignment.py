"""Commands of two runs are paired: by id where ids agree, else by what kernels did, or by a longest common alignment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench.cli.main import exit_code
from kernbench.trace.compare.diff import compare
from kernbench.trace.compare.matching import Ran, align_commands, align_work, longest_common, read_run
from kernbench.trace.reader import open_trace

TEXTS = st.lists(st.sampled_from("abcd"), max_size=16)


def longest(a: Sequence[str], b: Sequence[str]) -> int:
    """The length of a longest common subsequence, by the textbook's table."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@given(TEXTS, TEXTS)
def test_an_alignment_is_right_and_longest(a: list[str], b: list[str]) -> None:
    pairs = longest_common(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(pairs))
    assert len(pairs) == longest(a, b)


@given(TEXTS, TEXTS)
def test_everything_is_paired_or_left_over_once(a: list[str], b: list[str]) -> None:
    found = align_commands(list(enumerate(a)), list(enumerate(b, 3)))
    assert sorted([*(i for i, _ in found.pairs), *found.only_a]) == list(range(len(a)))
    assert sorted([*(j for _, j in found.pairs), *found.only_b]) == list(range(len(b)))


def test_thousands_are_aligned_in_a_moment() -> None:
    a = [f"k{i * i % 97}" for i in range(6000)]
    b = a[:1000] + ["new"] * 10 + a[1003:4000] + a[4200:]
    pairs = longest_common(a, b)
    assert len(pairs) >= 6000 - 203


@pytest.mark.parametrize(("a", "b", "pairs", "by_id"), [
    ("0x 1y 2x", "0x 1y 2x", [(0, 0), (1, 1), (2, 2)], True),
    ("0x 1y 2x", "2x 0x 1y", [(0, 1), (1, 2), (2, 0)], True),  # in another order
    ("0x 1y", "0x 1y 2z", [(0, 0), (1, 1)], True),
    ("0x 1y 7z", "0x 1y 8z", [(0, 0), (1, 1), (2, 2)], True),  # what has no mate by id may have one by key
    ("0x 1y 2x", "0n 1x 2y 3x", [(0, 1), (1, 2), (2, 3)], False),  # ids mean something else
    ("0x 1y", "5x 6y", [(0, 0), (1, 1)], False),  # no id in common
    ("", "0x", [], False),
])  # fmt: skip
def test_ids_count_where_they_agree(a: str, b: str, pairs: list[tuple[int, int]], by_id: bool) -> None:
    found = align_commands(*([(int(one[0]), one[1]) for one in text.split()] for text in (a, b)))
    assert (found.pairs, found.by) == (pairs, "id" if by_id else "key")


@pytest.mark.parametrize(("a", "b", "pairs"), [
    ("xyz", "zxy", [(0, 1), (1, 2), (2, 0)]),
    ("xyx", "xxy", [(0, 0), (1, 2), (2, 1)]),  # of equal items, the first with the first
    ("xy", "yzx", [(0, 2), (1, 0)]),  # one run did more
    ("xyz", "zx", [(0, 1), (2, 0)]),
    ("xyz", "xyw", None),  # each run did work that the other did not
    ("", "x", None),
])  # fmt: skip
def test_work_in_another_order(a: str, b: str, pairs: list[tuple[int, int]] | None) -> None:
    found = align_work(a, b)
    assert (None if found is None else found.pairs) == pairs


KERNEL = """\
import numpy as np

from kernbench.runtime_api import bench


def kernel(small, large, out, tl):
    {first}
    {second}
    tl.wait(x)
    tl.wait(y)
    total = tl.sum(x) + tl.sum(y)
    tl.wait(total)
    tl.store(out, total)


@bench(name="order", description="two loads", machine="npu_server", params={{}}, reference=lambda inputs, params: {{}})
def run(ctx):
    small = ctx.from_numpy(np.ones((8, 8), np.float32), name="small")
    large = ctx.from_numpy(np.ones((64, 64), np.float32), name="large")
    out = ctx.empty((1,), "f32", name="out")
    ctx.launch("order", kernel, small, large, out)
"""
SMALL, LARGE = (f"{name} = tl.load({tensor}, {tensor}.shape, 'f32')" for name, tensor in (("x", "small"), ("y", "large")))


def traced(folder: Path, name: str, first: str, second: str) -> Ran:
    (folder / f"{name}.py").write_text(KERNEL.format(first=first, second=second), encoding="utf-8")
    trace = folder / f"{name}.jsonl"
    assert exit_code(["run", str(folder / f"{name}.py"), "--trace", str(trace), "--quiet"]) == 0
    return read_run(open_trace(trace))


def test_loads_of_a_kernel_in_another_order(tmp_path: Path) -> None:
    """The ids of the loads change places, but each load is paired with the load of the same tensor."""
    found = compare(traced(tmp_path, "before", SMALL, LARGE), traced(tmp_path, "after", LARGE, SMALL))
    loads = [
        (pair.a.number, pair.b.number, pair.a.work == pair.b.work) for pair in found.pairs if pair.a.opcode.startswith("DMA_L")
    ]
    assert (found.by, loads) == ("work", [(1, 2, True), (2, 1, True)])
    assert not found.only_a and not found.only_b
    assert compare(found.a, found.a).by == "id"
