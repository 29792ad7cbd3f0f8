"""`ReduceOp` as programs of torch use it, and arguments that these programs pass by position."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta
from typing import Any

import pytest

from kernbench.ccl import dist
from kernbench.common.errors import InputError
from tests.unit.test_ccl_dist_torch import i32, run

NAMES = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")


@pytest.mark.parametrize(("number", "name"), list(enumerate(NAMES)))
def test_reductions_have_the_names_and_numbers_of_torch(number: int, name: str) -> None:
    op = getattr(dist.ReduceOp, name)
    assert (str(op), repr(op), f"{op}") == (f"RedOpType.{name}", f"<RedOpType.{name}: {number}>", f"RedOpType.{name}")
    assert (op.name, op.value, int(op)) == (name, number, number) and op == number
    assert op is dist.ReduceOp.RedOpType(number) is copy.deepcopy(op) is pickle.loads(pickle.dumps(op))
    assert {op: 1}[getattr(dist.ReduceOp, name)] == 1


def test_a_reduction_with_a_factor() -> None:
    op = dist.ReduceOp.PREMUL_SUM(0.5)
    assert op == dist._make_nccl_premul_sum(0.5) == dist.ReduceOp.PREMUL_SUM(2.0)  # torch compares no factors either
    assert repr(op) == "ReduceOp(RedOpType.PREMUL_SUM, 0.5)"
    assert dist.ReduceOp(dist.ReduceOp.MAX) == dist.ReduceOp.MAX != dist.ReduceOp(dist.ReduceOp.MIN)
    for wrong in (lambda: dist.ReduceOp.SUM(0.5), lambda: dist.ReduceOp(dist.ReduceOp.PREMUL_SUM)):
        with pytest.raises(TypeError, match="PREMUL_SUM has a factor, and no other reduction has one"):
            wrong()


def test_reductions_are_compared_as_in_torch() -> None:
    plain, wrapped = dist.ReduceOp.MAX, dist.ReduceOp(dist.ReduceOp.MAX)
    assert isinstance(plain, dist.ReduceOp) and isinstance(wrapped, dist.ReduceOp)
    assert isinstance(plain, dist.RedOpType) and not isinstance(wrapped, dist.RedOpType)
    assert not isinstance("sum", dist.ReduceOp) and not isinstance(0, dist.ReduceOp)
    assert wrapped == plain and not plain == wrapped and plain != wrapped  # noqa: SIM201
    assert dist.ReduceOp.SUM and dist.ReduceOp.PREMUL_SUM(0.5) == dist.ReduceOp.PREMUL_SUM
    for wrong in (lambda: dist.ReduceOp(0), lambda: dist.ReduceOp(wrapped), lambda: plain < plain, lambda: plain + 1):
        with pytest.raises(TypeError):
            wrong()


def test_a_reduction_of_another_kind_is_a_type_error_and_another_type_of_elements_a_runtime_error() -> None:
    found: dict[int, list[str]] = {}

    def worker(rank: int) -> None:
        for op, kinds in (("sum", TypeError), (dist.ReduceOp.PREMUL_SUM, TypeError), (dist.ReduceOp.AVG, RuntimeError)):
            with pytest.raises(kinds) as caught:
                dist.all_reduce(i32(rank, 2), op=op)
            assert isinstance(caught.value, InputError)
            found.setdefault(rank, []).append(str(caught.value).partition(": ")[2])

    run(worker, 2)
    assert found[0] == found[1]
    assert found[0][1] == 'op = "RedOpType.PREMUL_SUM", but it takes a factor; write ReduceOp.PREMUL_SUM(0.5)'


def test_a_wrapped_reduction_reduces() -> None:
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        x = i32(rank, 2 - rank)
        dist.all_reduce(x, dist.ReduceOp(dist.ReduceOp.MAX))
        got[rank] = dist.to_numpy(x).tolist()

    run(worker, 3)
    assert set(map(tuple, got.values())) == {(2, 2)}


def test_arguments_by_position_as_in_torch() -> None:
    """Limits of time, backends and devices have no effect, but programs pass them."""
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        dist.destroy_process_group()
        dist.init_process_group("gloo", "env://", timedelta(seconds=60), 4, rank)
        group = dist.new_group([3, 1, 0], timedelta(seconds=60), "gloo")
        turned = dist.new_group([3, 1, 0], sort_ranks=False)
        assert dist.monitored_barrier(None, timedelta(seconds=60), True) is None
        assert dist.barrier(None, False, [0]) is None
        pair, every = dist.new_subgroups(2, None, timedelta(seconds=60))
        x = i32(rank)
        dist.all_reduce(x, dist.ReduceOp.SUM, pair, False)
        y = i32(rank)
        work = dist.broadcast(y, 1, None, True)
        work.synchronize()
        got[rank] = (
            dist.get_process_group_ranks(group), dist.get_process_group_ranks(turned), len(every), int(dist.to_numpy(x)[0]),
            int(dist.to_numpy(y)[0]), dist.get_pg_count(), dist.get_node_local_rank(7), group.name(),
        )  # fmt: skip

    run(worker, 4)
    assert got == {rank: ([0, 1, 3], [3, 1, 0], 2, 5 if rank > 1 else 1, 1, 5, 7, "gloo") for rank in range(4)}


def test_an_operation_that_is_no_send_or_receive() -> None:
    def worker(rank: int) -> None:
        with pytest.raises(ValueError, match=r"it must be dist\.isend or dist\.irecv"):
            dist.P2POp(dist.all_reduce, i32(rank), 0)

    run(worker, 2)


def test_the_old_name_of_reductions_warns() -> None:
    with pytest.warns(FutureWarning, match=r"dist.reduce_op is deprecated; write dist.ReduceOp.SUM"):
        assert dist.reduce_op.SUM is dist.ReduceOp.SUM
    with pytest.warns(FutureWarning, match="deprecated"):
        assert dist.reduce_op.__members__ == dist.ReduceOp.RedOpType.__members__
    with pytest.raises(AttributeError, match=r"dist\.reduce_op has no MEAN; the reductions are SUM, AVG"):
        dist.reduce_op.MEAN  # noqa: B018
