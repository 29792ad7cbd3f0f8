"""Scripts that start each rank by themselves, as PyTorch's tutorial on distributed applications does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernbench.ccl import dist
from kernbench.common.errors import InputError
from tests.unit.test_ccl_dist_torch import i32


def started(count: int, worker: Any) -> list[dist.Process]:
    made = [dist.Process(target=worker, args=(rank, count)) for rank in range(count)]
    for one in made:
        one.start()
    return made


def test_processes_are_the_ranks_of_one_machine() -> None:
    got: dict[int, Any] = {}

    def worker(rank: int, size: int, fn: Any = None) -> None:
        dist.init_process_group("gloo", rank=rank, world_size=size)
        x = i32(rank + 1)
        dist.all_reduce(x)
        got[rank] = dist.to_numpy(x).tolist()

    dist.set_start_method("spawn")
    for _ in range(2):  # a second set of processes has a machine of its own
        some = started(3, worker)
        assert [one.is_alive() for one in some] == [True] * 3 and got == {}
        for one in some:
            one.join()
        assert got == {rank: [6] for rank in range(3)}
        assert [one.exitcode for one in some] == [0] * 3 and not some[0].is_alive()
        got.clear()


def test_an_error_of_a_process_is_raised_by_join() -> None:
    def worker(rank: int, size: int) -> None:
        if rank:
            raise ValueError("broken")

    some = started(2, worker)
    with pytest.raises(dist.ProcessRaisedException, match="rank 1 raised ValueError: broken"):
        some[0].join()
    assert [one.exitcode for one in some] == [0, 1]
    some[1].join()  # it is over


def test_derived_processes_and_contexts() -> None:
    got: list[int] = []

    class Own(dist.get_context("spawn").Process):  # type: ignore[misc]
        def run(self) -> None:
            dist.init_process_group()
            got.append(dist.get_world_size())

    some = [Own(name="own", daemon=True), Own()]
    for one in some:
        one.start()
    some[1].join()
    assert got == [2, 2] and some[0].name == "own" and some[0].exitcode == 0


def test_wrong_uses_are_refused() -> None:
    one = dist.Process(target=lambda: None)
    with pytest.raises(InputError, match=r"the process Process-.* has not been started"):
        one.join()
    one.start()
    with pytest.raises(InputError, match="has been started before"):
        one.start()
    one.join()
    with pytest.raises(InputError, match="it must be one of spawn, fork, forkserver"):
        dist.set_start_method("thread")


def test_processes_that_nobody_joins_run_at_the_end(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from kernbench.ccl import dist as mp\n"
        "def worker(rank):\n"
        "    mp.init_process_group('gloo')\n"
        "    print('rank', mp.get_rank(), 'of', mp.get_world_size())\n"
        "for rank in range(2):\n"
        "    mp.Process(target=worker, args=(rank,)).start()\n"
        "print('started')\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["started", "rank 0 of 2", "rank 1 of 2"]
