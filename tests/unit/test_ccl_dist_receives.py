"""Receives from any rank, and handles that are polled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernbench.ccl import dist
from kernbench.common.errors import InputError
from tests.unit.test_ccl_dist_torch import i32, run


def test_a_receive_without_a_source_takes_the_oldest_send() -> None:
    got: dict[Any, Any] = {}

    def worker(rank: int) -> None:
        group = dist.new_group([1, 2, 3])
        if rank == 0:
            for k in range(3):
                x = i32(0)
                got["any", k] = dist.recv(x), dist.to_numpy(x).tolist()
        else:
            dist.send(i32(10 * rank), 0)
        x = i32(0)
        if rank == 3:
            work = dist.irecv(x, group=group, tag=7)
            assert work.wait() and work._source_rank() == 1  # in the group
            got["group"] = dist.to_numpy(x).tolist()
        elif rank == 2:
            dist.send(i32(5), 3, group=group, tag=7)

    run(worker, 4)
    assert got == {("any", 0): (1, [10]), ("any", 1): (2, [20]), ("any", 2): (3, [30]), "group": [5]}


def test_tags_and_named_sources_are_kept_apart_from_any() -> None:
    got: list[Any] = []

    def worker(rank: int) -> None:
        if rank == 0:
            x, y, z = i32(0), i32(0), i32(0)
            first = dist.irecv(x, src=2)
            got.append((dist.recv(y, tag=1), dist.recv(z)))
            first.wait()
            got.append([dist.to_numpy(one).tolist() for one in (x, y, z)])
        else:
            works = [dist.isend(i32(10 * rank + tag), 0, tag=tag) for tag in ((0, 1) if rank == 1 else (0,))]
            for one in works:
                one.wait()

    run(worker, 3)
    assert got == [(1, 1), [[20], [11], [10]]]


def test_a_receive_from_any_rank_that_nobody_serves_is_told() -> None:
    with pytest.raises(InputError, match="rank 0 recv, rank 1 has ended"):
        run(lambda rank: None if rank else (dist.recv(i32(0)), None)[1], 2)


def test_a_program_may_poll_a_handle() -> None:
    """The other ranks continue while one polls."""
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        x = i32(rank)
        work: Any = dist.all_reduce(x, async_op=True)
        polls = 0
        while not work.is_completed():
            polls += 1
        got[rank] = dist.to_numpy(x).tolist(), polls < 3

    run(worker, 3)
    assert got == {rank: ([3], True) for rank in range(3)}


def test_polls_without_an_end_are_told() -> None:
    def worker(rank: int) -> None:
        work = dist.irecv(i32(0), src=1 - rank)
        while not work.is_completed():
            pass

    with pytest.raises(RuntimeError, match="rank 0 polls its recv, rank 1 polls its recv"):
        run(worker, 2)


def test_many_roots_at_a_time_share_the_scratchpad() -> None:
    """Each root has its own queues, and the queues of six roots do not fit together."""
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        parts = [dist.from_numpy(np.full(3, 10 * rank + k, np.float32)) for k in range(6)]
        works: list[Any] = [dist.broadcast(one, src=k % 4, async_op=True) for k, one in enumerate(parts)]
        for one in works:
            one.wait()
        got[rank] = [dist.to_numpy(one).tolist() for one in parts]

    run(worker, 4)
    assert got == {rank: [[10.0 * (k % 4) + k] * 3 for k in range(6)] for rank in range(4)}
