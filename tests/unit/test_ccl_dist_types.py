"""Element types and lists of `dist` as in torch: float64, complex numbers, bits, and lists of tensors of several sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernbench.ccl import dist
from tests.unit.test_ccl_dist_torch import run

RANKS = 3


@pytest.mark.parametrize("dtype", [np.float64, np.complex64, np.complex128])
def test_wide_and_complex_numbers_are_added_and_moved(dtype: Any, fake_torch: Any) -> None:
    third = np.array([1 / 3, 2], dtype) * (1 if dtype is np.float64 else 1 + 2j)
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        x, y = fake_torch.from_numpy(third * (rank + 1)), fake_torch.from_numpy(third * (rank + 1))
        parts = [fake_torch.from_numpy(np.zeros(2, dtype)) for _ in range(RANKS)]
        dist.all_gather(parts, x)
        dist.all_reduce(x)
        dist.all_reduce(y, op=dist.ReduceOp.AVG)
        got[rank] = x.values, y.values, [one.values for one in parts]

    run(worker, RANKS)
    for x, y, parts in got.values():
        assert x.dtype == dtype and np.allclose(x, third * 6, rtol=1e-15 if dtype is not np.complex64 else 1e-6)
        assert np.allclose(y, third * 2, rtol=1e-15 if dtype is not np.complex64 else 1e-6)
        assert all(np.array_equal(one, third * (k + 1)) for k, one in enumerate(parts))


def test_complex_numbers_have_no_order(fake_torch: Any) -> None:
    with pytest.raises(ValueError, match="elements are complex numbers, which are reduced by SUM, AVG or PREMUL_SUM"):
        run(lambda rank: (dist.all_reduce(fake_torch.from_numpy(np.ones(1, np.complex64)), op=dist.ReduceOp.MAX), None)[1], 2)


@pytest.mark.parametrize(("op", "right"), [("BAND", np.bitwise_and), ("BOR", np.bitwise_or), ("BXOR", np.bitwise_xor)])
def test_bits_are_reduced(op: str, right: Any, fake_torch: Any) -> None:
    given = [np.array([k + 1, 12, 1 << k, 7 - k]) for k in range(RANKS)]
    rows = {dtype: [one.astype(dtype) for one in given] for dtype in (np.int64, np.uint8, bool)}
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        xs = [fake_torch.from_numpy(one[rank]) for one in rows.values()]
        for x in xs:
            dist.all_reduce(x, op=getattr(dist.ReduceOp, op))
        got[rank] = [x.values for x in xs]

    run(worker, RANKS)
    for found in got.values():
        for x, values in zip(found, rows.values(), strict=True):
            assert x.dtype == values[0].dtype and np.array_equal(x, right.reduce(values))


def test_lists_may_have_tensors_of_several_sizes(fake_torch: Any) -> None:
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        parts = [fake_torch.from_numpy(np.zeros(k, np.float32)) for k in range(RANKS)]
        dist.all_gather(parts, fake_torch.from_numpy(np.full(rank, rank, np.float32)))
        mine = fake_torch.from_numpy(np.zeros(rank, np.float32))
        given = [fake_torch.from_numpy(np.full(k, rank + 1, np.float32)) for k in range(RANKS)]
        work: Any = dist.reduce_scatter(mine, given, async_op=True)
        work.wait()
        got[rank] = [one.values.tolist() for one in parts], mine.values.tolist(), [one.values.tolist() for one in given]

    run(worker, RANKS)
    for rank in range(RANKS):
        assert got[rank] == ([[k] * k for k in range(RANKS)], [6.0] * rank, [[rank + 1.0] * k for k in range(RANKS)])


def test_a_coalesced_all_gather_has_a_list_of_results_for_each_rank(fake_torch: Any) -> None:
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        outs = [[fake_torch.from_numpy(np.zeros(k + 1, np.int32)) for k in range(2)] for _ in range(RANKS)]
        dist.all_gather_coalesced(outs, [fake_torch.from_numpy(np.full(k + 1, 10 * rank + k, np.int32)) for k in range(2)])
        got[rank] = [[one.values.tolist() for one in row] for row in outs]

    run(worker, RANKS)
    assert got == {rank: [[[10 * k], [10 * k + 1] * 2] for k in range(RANKS)] for rank in range(RANKS)}


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: dist.gather(x, [x, x], dst=1), ValueError, "gather_list = .2 tensors., but only rank 1"),
        (lambda x: dist.all_gather([x], x), ValueError, "it takes 2 tensors of 1 f32, one for each rank, and gets 1 f32"),
        (lambda x: dist.all_reduce([1]), TypeError, "it takes tensors of torch or of dist.from_numpy, and rank 0 gives a list"),
        (lambda x: dist.get_global_rank(dist.new_group(), 2), ValueError, "group_rank = 2, but it must be a rank from 0 to 1"),
        (lambda x: (dist.destroy_process_group(), dist.get_rank()), ValueError, "rank 0 has not joined"),
        (lambda x: dist.init_process_group(), ValueError, "rank 0 has already joined"),
    ],
)
def test_programs_can_catch_errors_as_those_of_torch(call: Any, error: type[Exception], said: str, fake_torch: Any) -> None:
    with pytest.raises(error, match=said):
        run(lambda rank: (call(fake_torch.from_numpy(np.ones(1, np.float32))) if rank == 0 else None, None)[1], 2)
