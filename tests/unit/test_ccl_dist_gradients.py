"""Collectives of `dist.nn.functional`: gradients that travel through them, against gradients from the definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kernbench import GraphEngine
from kernbench.ccl import dist
from kernbench.runtime_api import bench

torch = pytest.importorskip("torch", reason="torch is not installed")
RANKS = 3
F = dist.nn.functional


def gradients(call: Callable[[int, list[Any]], Any], shapes: Callable[[int], list[tuple[int, ...]]]) -> list[list[list[float]]]:
    """The gradients of the inputs of each rank. The loss of rank r weights element i of result k by (r + 1) (k + 1)."""
    found: dict[int, list[list[float]]] = {}

    def worker(rank: int) -> None:
        dist.init_process_group("gloo")
        inputs = [torch.ones(shape, requires_grad=True) for shape in shapes(rank)]
        made = call(rank, inputs)
        results = made if isinstance(made, tuple) else (made,)
        sum((rank + 1) * (k + 1) * one.sum() for k, one in enumerate(results)).backward()
        found[rank] = [one.grad.flatten().tolist() for one in inputs]

    @bench(name="gradients", description="a test", machine="single_cube")
    def run(ctx: Any) -> None:
        dist.spawn(ctx, worker, ranks=RANKS)

    assert GraphEngine("single_cube").run(run).status == "done"
    return [found[rank] for rank in range(RANKS)]


def test_reductions() -> None:
    one = lambda rank: [(2,)]  # noqa: E731
    assert gradients(lambda rank, x: F.all_reduce(x[0]), one) == [[[6.0, 6.0]]] * 3
    assert gradients(lambda rank, x: F.reduce(x[0], 1), one) == [[[2.0, 2.0]]] * 3
    parts = gradients(lambda rank, x: F.reduce_scatter(torch.empty(2), x), lambda rank: [(2,)] * 3)
    assert parts == [[[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]] * 3


def test_copies() -> None:
    one = lambda rank: [(2,)]  # noqa: E731
    none = [[0.0, 0.0]]
    assert gradients(lambda rank, x: F.broadcast(x[0], 1), one) == [none, [[6.0, 6.0]], none]
    assert gradients(lambda rank, x: F.all_gather(x[0]), one) == [[[6.0, 6.0]], [[12.0, 12.0]], [[18.0, 18.0]]]
    assert gradients(lambda rank, x: F.gather(x[0], 1), one) == [[[2.0, 2.0]], [[4.0, 4.0]], [[6.0, 6.0]]]
    parts = gradients(lambda rank, x: F.scatter(x, 2), lambda rank: [(2,)] * 3)
    assert parts == [none * 3, none * 3, [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]]


def test_exchanges() -> None:
    parts = gradients(lambda rank, x: F.all_to_all([torch.empty(1) for _ in x], x), lambda rank: [(1,)] * 3)
    assert parts == [[[(k + 1.0) * (rank + 1)] for k in range(3)] for rank in range(3)]
    rows = [[1, 2, 0], [0, 1, 3], [2, 1, 1]]

    def uneven(rank: int, x: list[Any]) -> Any:
        got = [rows[k][rank] for k in range(3)]
        return F.all_to_all_single(torch.empty(sum(got), 2), x[0], got, rows[rank])

    found = gradients(uneven, lambda rank: [(sum(rows[rank]), 2)])
    assert found == [[[k + 1.0 for k in range(3) for _ in range(2 * rows[rank][k])]] for rank in range(3)]


def test_a_group_has_its_own_gradients() -> None:
    def call(rank: int, x: list[Any]) -> Any:
        half = dist.split_group(split_ranks=[[2, 0], [1]])
        return F.all_reduce(x[0], group=half)

    assert gradients(call, lambda rank: [(1,)]) == [[[4.0]], [[2.0]], [[4.0]]]
