"""How calls of `dist` name a root or a peer, with the errors that torch.distributed raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kernbench.ccl import dist
from tests.unit.test_ccl_dist_torch import i32, run


def on_four(worker: Callable[[int, Any], Any]) -> None:
    """Run the worker on four ranks with a group of ranks 1 and 2."""

    def whole(rank: int) -> None:
        worker(rank, dist.new_group([1, 2]))

    run(whole, 4)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, pair: dist.broadcast(x, 0, group=pair),
        lambda x, pair: dist.reduce(x, 0, group=pair),
        lambda x, pair: dist.scatter(x, None, 0, group=pair),
        lambda x, pair: dist.scatter(x, group=pair),
        lambda x, pair: dist.send(x, 3, group=pair),
        lambda x, pair: dist.isend(x, 3, group=pair),
        lambda x, pair: dist.P2POp(dist.isend, x, 3, group=pair),
    ],
)
def test_a_root_that_is_not_in_the_group_is_an_error_on_all_ranks(call: Callable[[Any, Any], Any]) -> None:
    def worker(rank: int, pair: Any) -> None:
        with pytest.raises(ValueError, match=r"it must be a(nother)? rank from 1, 2"):
            call(i32(rank), pair)

    on_four(worker)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, pair: dist.broadcast(x, 1, group=pair),
        lambda x, pair: dist.broadcast(x, group=pair, group_src=9),
        lambda x, pair: dist.reduce(x, 2, group=pair),
        lambda x, pair: dist.gather(x, None, 0, group=pair),
        lambda x, pair: dist.scatter(x, group=pair, src=1),
        lambda x, pair: dist.isend(x, 1, group=pair),
        lambda x, pair: dist.irecv(x, 0, group=pair),
    ],
)
def test_a_call_of_a_rank_that_is_not_a_member_has_no_effect(call: Callable[[Any, Any], Any]) -> None:
    def worker(rank: int, pair: Any) -> None:
        if rank in (0, 3):
            with pytest.warns(UserWarning, match="is not a member of the group of ranks 1, 2"):
                assert call(i32(rank), pair) is None

    on_four(worker)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: dist.broadcast(x),
        lambda x: dist.reduce(x),
        lambda x: dist.broadcast(x, src=0, group_src=0),
        lambda x: dist.reduce(x, 0, group_dst=0),
        lambda x: dist.gather(x, None, 0, group_dst=0),
        lambda x: dist.scatter(x, None, 0, group_src=0),
        lambda x: dist.P2POp(dist.irecv, x),
        lambda x: dist.P2POp(dist.isend, x, 0, group_peer=0),
    ],
)
def test_a_call_names_a_rank_in_exactly_one_way(call: Callable[[Any], Any]) -> None:
    def worker(rank: int, pair: Any) -> None:
        with pytest.raises(ValueError, match=r"it takes either (src|dst|peer) or group_"):
            call(i32(rank))

    on_four(worker)


def test_roots_of_gather_and_scatter_are_rank_0_if_no_root_is_given() -> None:
    got: dict[int, list[int]] = {}

    def worker(rank: int, pair: Any) -> None:
        parts, x = [i32(0) for _ in range(4)], i32(0)
        dist.gather(i32(rank), parts if rank == 0 else None)
        dist.scatter(x, parts if rank == 0 else None)
        got[rank] = dist.to_numpy(x).tolist()

    on_four(worker)
    assert got == {rank: [rank] for rank in range(4)}


def test_ranks_of_the_group_of_all_workers_are_returned_as_they_are() -> None:
    def worker(rank: int, pair: Any) -> None:
        world, copy = dist.group.WORLD, dist.new_group()
        for given in (0, 3, 99, -1):
            assert dist.get_global_rank(world, given) == given == dist.get_group_rank(world, given)
        assert dist.get_global_rank(copy, 3) == 3 and dist.get_global_rank(pair, 1) == 2 and dist.get_group_rank(pair, 2) == 1
        for function in (dist.get_global_rank, dist.get_group_rank):
            for group in (copy, pair):
                with pytest.raises(ValueError, match="it must be a rank from"):
                    function(group, 99)

    on_four(worker)


def test_batches_are_lists_of_calls_of_one_group() -> None:
    def worker(rank: int, pair: Any) -> None:
        x = i32(rank)
        one, other = dist.P2POp(dist.isend, x, 2), dist.P2POp(dist.isend, x, 2, group=pair)
        with pytest.raises(IndexError, match="the list must have at least one"):
            dist.batch_isend_irecv([])
        for wrong, said in (((one,), "it must be a list of"), ([1], "it must be a list of"), ([one, other], "the same group")):
            with pytest.raises(ValueError, match=said):
                dist.batch_isend_irecv(wrong)
        assert (one.peer, one.group_peer, other.peer, other.group_peer) == (2, 2, 2, 1)
        if rank in (0, 3):
            with pytest.warns(UserWarning, match="is not a member"):
                assert dist.batch_isend_irecv([other]) == []

    on_four(worker)


def test_batches_name_peers_by_their_rank_in_the_group() -> None:
    got: dict[int, list[int]] = {}

    def worker(rank: int, pair: Any) -> None:
        if rank in (1, 2):
            x, y = i32(rank), i32(0)
            other = 1 - dist.get_rank(pair)
            calls = [dist.P2POp(one, z, group=pair, group_peer=other) for one, z in ((dist.isend, x), (dist.irecv, y))]
            for work in dist.batch_isend_irecv(calls):
                work.wait()
            got[rank] = dist.to_numpy(y).tolist()

    on_four(worker)
    assert got == {1: [2], 2: [1]}


def test_a_coalescing_manager_has_a_list_of_works() -> None:
    """`cm.works`, as programs of torch read it. A broadcast may be among the calls: it is not combined."""
    got: dict[int, list[int]] = {}

    def worker(rank: int, pair: Any) -> None:
        x, y = i32(rank, 1), i32(rank)
        if rank in (1, 2):
            with dist._coalescing_manager(pair, async_ops=True) as manager:
                dist.all_reduce(x, group=pair)
                dist.broadcast(y, 2, group=pair)
            for work in manager.works:
                work.wait()
        with dist._coalescing_manager() as empty:
            pass
        assert empty.works == [] and empty.wait()
        got[rank] = [*dist.to_numpy(x).tolist(), *dist.to_numpy(y).tolist()]

    on_four(worker)
    assert got == {0: [0, 1, 0], 1: [3, 2, 2], 2: [3, 2, 2], 3: [3, 1, 3]}


def test_a_coalescing_manager_combines_calls_of_one_kind() -> None:
    """As in torch: not an all-reduce and an all-gather, and not a sum and a maximum."""
    got: dict[int, list[int]] = {}

    def worker(rank: int, pair: Any) -> None:
        x, y, whole = i32(rank), i32(rank), i32(0, 0, 0, 0)
        gather = r"call = .all_gather_into_tensor., but .* it has all_reduce \(sum\)"
        with pytest.raises(ValueError, match=gather), dist._coalescing_manager():
            dist.all_reduce(x)
            dist.all_gather_into_tensor(whole, y)
        with pytest.raises(ValueError, match=r"it has all_reduce \(sum\)"), dist._coalescing_manager():
            dist.all_reduce(x)
            dist.all_reduce(y, dist.ReduceOp.MAX)
        with dist._coalescing_manager():
            dist.all_reduce(y, dist.ReduceOp.MAX)
            dist.all_reduce(whole, dist.ReduceOp.MAX)
        got[rank] = dist.to_numpy(y).tolist()

    on_four(worker)
    assert got == {rank: [3] for rank in range(4)}


def test_a_send_of_a_rank_that_is_not_a_member_is_refused() -> None:
    """As in torch, where `isend` only warns."""

    def worker(rank: int, pair: Any) -> None:
        if rank in (0, 3):
            with pytest.raises(ValueError, match=f"dist.send: rank {rank} is not a member of the group of ranks 1, 2$"):
                dist.send(i32(rank), 1, group=pair)
            with pytest.raises(ValueError, match=f"dist.send: rank {rank} is not a member of the group$"):
                dist.send(i32(rank), group_dst=0, group=dist.GroupMember.NON_GROUP_MEMBER)

    on_four(worker)
