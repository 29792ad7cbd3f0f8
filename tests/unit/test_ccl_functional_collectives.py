"""Collectives of `dist._functional_collectives`, against their definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kernbench import GraphEngine
from kernbench.ccl import dist
from kernbench.ccl.dist import _functional_collectives as funcol
from kernbench.runtime_api import bench

torch = pytest.importorskip("torch", reason="torch is not installed")
RANKS = 4


def on_ranks(call: Callable[[int], Any]) -> list[Any]:
    found: dict[int, Any] = {}

    def worker(rank: int) -> None:
        dist.init_process_group("gloo")
        found[rank] = call(rank)

    @bench(name="functional", description="a test", machine="single_cube")
    def run(ctx: Any) -> None:
        dist.spawn(ctx, worker, ranks=RANKS)

    assert GraphEngine("single_cube").run(run).status == "done"
    return [found[rank] for rank in range(RANKS)]


def given(rank: int) -> Any:
    return torch.arange(8.0).reshape(4, 2) + rank


EVERY = [given(rank) for rank in range(RANKS)] if hasattr(torch, "arange") else []


def test_new_tensors_and_unchanged_arguments() -> None:
    def call(rank: int) -> Any:
        x, world = given(rank), dist.group.WORLD
        results = [
            funcol.all_reduce(x, "sum", world), funcol.all_gather_tensor(x, 1, world),
            funcol.reduce_scatter_tensor(x, "max", 0, world), funcol.broadcast(x, 2, world),
            funcol.all_to_all_single(x, None, None, world), funcol.permute_tensor(x, [1, 2, 3, 0], world),
            *funcol.all_reduce_coalesced([x, -x], "min", world),
        ]  # fmt: skip
        assert torch.equal(x, given(rank))
        return [funcol.wait_tensor(one) for one in results]

    for rank, found in enumerate(on_ranks(call)):
        expected = [
            sum(EVERY), torch.cat(EVERY, 1), EVERY[3][rank : rank + 1], EVERY[2],
            torch.stack([one[rank] for one in EVERY]), EVERY[rank - 1], EVERY[0], -EVERY[3],
        ]  # fmt: skip
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True)), rank


def test_groups_of_meshes() -> None:
    def call(rank: int) -> Any:
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        return [funcol.all_reduce(given(rank), "sum", one)[0, 0].item() for one in (mesh["tp"], (mesh, "dp"), (mesh, 1))]

    assert on_ranks(call) == [[1.0, 2.0, 1.0], [1.0, 4.0, 1.0], [5.0, 2.0, 5.0], [5.0, 4.0, 5.0]]


def test_gradients() -> None:
    def call(rank: int) -> Any:
        x = given(rank).requires_grad_()
        weights = torch.arange(32.0).reshape(16, 2)
        (funcol.all_gather_tensor_autograd(x, 0, dist.group.WORLD) * weights).sum().backward()
        return x.grad

    for rank, found in enumerate(on_ranks(call)):
        assert torch.equal(found, RANKS * torch.arange(32.0).reshape(16, 2)[4 * rank : 4 * rank + 4])


def test_an_unknown_reduction() -> None:
    def call(rank: int) -> str:
        with pytest.raises(ValueError, match='reduceOp = "mean", but it must be one of sum, avg') as caught:
            funcol.all_reduce(given(rank), "mean", dist.group.WORLD)
        return str(caught.value)

    assert len(set(on_ranks(call))) == 1
