"""What programs of `torch.distributed` use beside collectives: futures, coalescing, non-members, meshes, and tensors without
elements.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest

from kernbench.ccl import dist
from kernbench.common.errors import InputError
from tests.unit.test_ccl_dist_torch import i32, run
from tests.unit.torch_fake import FakeTensor

Values = Any


def test_a_future_has_the_tensors_that_a_call_writes() -> None:
    """As the hooks of gradients use them: `then` divides by the number of ranks."""
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        x, seen = i32(rank, 2), []
        work: Any = dist.all_reduce(x, async_op=True)
        mean = work.get_future().then(lambda future: dist.to_numpy(future.value()[0]) / 4)
        mean.add_done_callback(lambda future: seen.append(future.value().tolist()))
        assert not seen
        found = mean.wait().tolist()
        assert mean.done() and work.is_success() and work.exception() is None and work.result() == [x]
        got[rank] = found, seen

    run(worker, 4)
    assert got == {rank: ([1.5, 2.0], [[1.5, 2.0]]) for rank in range(4)}


@pytest.mark.parametrize("async_ops", [False, True])
def test_coalesced_collectives_start_together(async_ops: bool, fake_torch: Any) -> None:
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        x, y = fake_torch.from_numpy(np.full(3, rank, np.int32)), fake_torch.from_numpy(np.full(2, rank, np.int32))
        with dist._coalescing_manager(async_ops=async_ops) as works:
            dist.all_reduce(x)
            dist.all_reduce(y)
            assert x.values.tolist() == [rank] * 3
        if async_ops:
            works.wait()
        got[rank] = x.values.tolist(), y.values.tolist()

    run(worker, 3)
    assert got == {rank: ([3] * 3, [3] * 2) for rank in range(3)}


def test_calls_of_ranks_that_are_no_members_have_no_effect() -> None:
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        pair, x = dist.new_group([2, 0]), i32(rank)
        assert (pair == dist.GroupMember.NON_GROUP_MEMBER) == (rank == 1)
        if rank == 1:
            with warnings.catch_warnings(record=True) as said:  # the calls return at once, so no other worker runs inside
                warnings.simplefilter("always")
                assert dist.all_reduce(x, group=pair) is None and dist.barrier(group=pair) is None
                assert dist.recv(x, group_src=0, group=dist.GroupMember.NON_GROUP_MEMBER) == -1  # type: ignore[arg-type]
            assert [str(one.message) for one in said][::2] == [
                "dist.all_reduce: rank 1 is not a member of the group of ranks 0, 2, and the call has no effect",
                "dist.recv: rank 1 is not a member of the group, and the call has no effect",
            ]
        else:
            dist.all_reduce(x, group=pair)
        got[rank] = dist.to_numpy(x).tolist(), dist.get_rank(pair), dist.get_world_size(pair)

    run(worker, 3)
    assert got == {0: ([2], 0, 2), 1: ([1], -1, -1), 2: ([2], 1, 2)}


def test_a_mesh_has_parts_with_several_axes() -> None:
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        mesh = dist.init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
        part = mesh["pp", "tp"]
        assert (part.ndim, part.shape, part.device_type, part.get_rank()) == (2, (2, 2), "cpu", rank)
        assert part.get_all_groups() == [mesh.get_group("pp"), mesh.get_group("tp")]
        got[rank] = part.mesh.tolist(), mesh.get_group("dp").rank()
        with pytest.raises(InputError, match="the axes must be in the order of the mesh, pp, dp, tp"):
            mesh["tp", "pp"]

    run(worker, 8)
    assert got[0] == ([[0, 1], [4, 5]], 0)
    assert got[7] == ([[2, 3], [6, 7]], 1)


def test_tensors_without_elements_send_no_messages(fake_torch: Any) -> None:
    """Ranks still wait for each other, and every rank must call."""
    shapes: list[Any] = []

    def worker(rank: int) -> None:
        def none() -> Any:
            return fake_torch.from_numpy(np.zeros((0, 2), np.float32))

        x, parts = none(), [none() for _ in range(3)]
        dist.all_reduce(x)
        dist.all_gather(parts, x)
        dist.all_to_all_single(none(), x, [0] * 3, [0] * 3)
        if rank == 0:
            dist.send(x, 1)
        elif rank == 1:
            dist.recv(x, 0)
        shapes.append(x.values.shape)

    assert run(worker, 3).machine.cycle == run(lambda rank: None, 3).machine.cycle and shapes == [(0, 2)] * 3
    with pytest.raises(InputError, match="rank 0 all_reduce, rank 1 has ended"):
        run(lambda rank: None if rank else dist.all_reduce(fake_torch.from_numpy(np.zeros(0, np.float32))), 2)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(("op", "right"), [("SUM", [1, 1, 0]), ("MAX", [1, 1, 0]), ("MIN", [0, 1, 0]), ("PRODUCT", [0, 1, 0])])
def test_truth_values_are_reduced(op: str, right: list[int], fake_torch: Any) -> None:
    """Their sum says whether one of them is true."""
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        x = fake_torch.from_numpy(np.array([rank == 1, True, False]))
        dist.all_reduce(x, op=getattr(dist.ReduceOp, op))
        got[rank] = x.values.dtype, x.values.tolist()

    run(worker, 3)
    assert got == {rank: (np.bool_, [bool(one) for one in right]) for rank in range(3)}


def test_a_single_number_and_a_parameter_get_results(fake_torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parameter of torch refuses to be written in place, but its elements do not."""

    class Parameter(FakeTensor):
        def detach(self) -> FakeTensor:
            found = FakeTensor(0)
            found.values = self.values
            return found

        def copy_(self, other: FakeTensor) -> None:
            raise RuntimeError("a leaf variable that requires a gradient is written in place")

    monkeypatch.setattr(Parameter, "__module__", "torch")
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        x, y = fake_torch.from_numpy(np.float32(rank)), Parameter(np.full(2, rank, np.float32))
        dist.all_reduce(x)
        dist.all_reduce(y)
        got[rank] = x.values.shape, float(x.values), y.values.tolist()

    run(worker, 3)
    assert got == {rank: ((), 3.0, [3.0, 3.0]) for rank in range(3)}


def test_each_worker_has_its_own_random_generators() -> None:
    got: dict[int, Any] = {}

    def drawn(rank: int, between: Any) -> list[float]:
        random.seed(rank)
        np.random.seed(rank)
        found = [random.random(), np.random.rand()]
        between()
        return [*found, random.random(), np.random.rand()]

    def worker(rank: int) -> None:
        got[rank] = drawn(rank, dist.barrier)

    run(worker, 3)
    assert got == {rank: drawn(rank, lambda: None) for rank in range(3)}


def test_a_worker_knows_its_backend_and_may_join_again() -> None:
    said: list[Any] = []

    def worker(rank: int) -> None:
        before = dist.get_backend()
        dist.destroy_process_group()
        dist.init_process_group("cpu:gloo")
        said.append((before, dist.get_backend()))

    run(worker, 2)
    assert said == [("kernbench", "gloo")] * 2
