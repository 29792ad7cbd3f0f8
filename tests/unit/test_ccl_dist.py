"""`kernbench.ccl.dist`: workers as in frameworks, and what they are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernbench import GraphEngine
from kernbench.ccl import dist
from kernbench.ccl.registry import read_registry
from kernbench.common.errors import InputError
from kernbench.runtime_api import bench
from kernbench.sim_engine.engine import KernelFailed
from tests import all_reduce_own

REGISTRY = read_registry()


def test_workers_as_in_frameworks() -> None:
    got: dict[int, list[list[float]]] = {}

    def worker(rank: int) -> None:
        dist.init_process_group(backend="kernbench")
        assert (dist.get_rank(), dist.get_world_size()) == (rank, 4)
        x = dist.from_numpy(np.full(6, rank, np.float32))
        dist.all_reduce(x)  # 0 + 1 + 2 + 3
        y = dist.from_numpy(np.asarray([rank, 10 * rank], np.int32))
        every, block = dist.from_numpy(np.zeros(8, np.int32)), dist.from_numpy(np.zeros(2, np.int32))
        dist.all_gather(every, y)
        dist.reduce_scatter(block, every)  # all have the same: 4 times this rank's pair
        dist.broadcast(y, src=2)
        dist.reduce(x, dst=1)  # 4 * 6 there
        dist.barrier()
        if rank == 1:
            dist.send(x, dst=3)
        if rank == 3:
            dist.recv(x, src=1)
        turned = dist.from_numpy(np.zeros(8, np.int32))
        dist.all_to_all(turned, every)
        got[rank] = [dist.to_numpy(one).tolist() for one in (x, every, block, y, turned)]

    @bench(name="workers", description="all calls", machine="single_cube")
    def run(ctx: Any) -> None:
        dist.spawn(ctx, worker, ranks=4)

    GraphEngine("single_cube").run(run)
    pairs = [0, 0, 1, 10, 2, 20, 3, 30]
    for rank in range(4):
        own = pairs[2 * rank : 2 * rank + 2]
        x = [24.0 if rank in (1, 3) else 6.0] * 6
        assert got[rank] == [x, pairs, [4 * one for one in own], [2, 20], own * 4]


ANYWHERE = [one.name for one in REGISTRY.entries if one.collective == "all_reduce" and not one.through_switches]


@pytest.mark.parametrize("name", ANYWHERE)
def test_workers_get_what_each_algorithm_sums(name: str) -> None:
    """Sums that are made in the place of what was loaded are not what was loaded."""
    got: dict[int, list[int]] = {}

    def worker(rank: int) -> None:
        dist.init_process_group()
        x = dist.from_numpy(np.arange(100, dtype=np.int32) + rank)
        dist.all_reduce(x)
        got[rank] = dist.to_numpy(x).tolist()

    @bench(name="workers", description="one algorithm", machine="single_cube")
    def run(ctx: Any) -> None:
        dist.spawn(ctx, worker, ranks=4, algorithms={"all_reduce": name})

    GraphEngine("single_cube").run(run)
    assert got == {rank: [4 * i + 6 for i in range(100)] for rank in range(4)}


def test_workers_that_call_different_things_are_told() -> None:
    def worker(rank: int) -> None:
        dist.init_process_group()
        dist.barrier() if rank else dist.recv(_own(rank), src=1)

    @bench(name="workers", description="a mistake", machine="single_cube")
    def run(ctx: Any) -> None:
        dist.spawn(ctx, worker, ranks=2)

    with pytest.raises(InputError, match=r"dist: the calls of ranks do not match: rank 0 recv, rank 1 barrier"):
        GraphEngine("single_cube").run(run)


def _own(rank: int, count: int = 8, dtype: Any = np.float32) -> Any:
    return dist.from_numpy(np.zeros(count, dtype))


def test_ranks_may_be_integers_of_numpy() -> None:
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        dist.init_process_group()
        x = dist.from_numpy(np.full(3, rank, np.int32))
        dist.broadcast(x, src=np.int64(1))  # type: ignore[arg-type]
        got[rank] = dist.to_numpy(x).tolist()

    @bench(name="workers", description="from rank 1", machine="single_cube")
    def run(ctx: Any) -> None:
        dist.spawn(ctx, worker, ranks=2)

    GraphEngine("single_cube").run(run)
    assert got == {0: [1, 1, 1], 1: [1, 1, 1]}


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ((4,), "dist.all_reduce: rank 0 passes a tensor of rank 3; each rank must pass its own"),
        ((2, 4), "dist.all_reduce: rank 0 passes a tensor of another group, of 2 ranks"),
    ],
)
def test_tensors_are_those_of_the_rank_that_gives_them(ranks: tuple[int, ...], said: str) -> None:
    """In a place that all workers share lies the last one's: sums were those of other PEs' rows, or of none."""
    shared: list[Any] = []

    def make(rank: int) -> None:
        dist.init_process_group()
        shared[:] = [dist.from_numpy(np.full(3, rank, np.int32))]

    def worker(rank: int) -> None:
        dist.init_process_group()
        dist.all_reduce(shared[0])

    @bench(name="workers", description="a mistake", machine="single_cube")
    def run(ctx: Any) -> None:
        dist.spawn(ctx, make, ranks=ranks[0])
        dist.spawn(ctx, worker, ranks=ranks[-1])

    with pytest.raises(InputError) as told:
        GraphEngine("single_cube").run(run)
    assert str(told.value) == said


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        (lambda rank: dist.reduce(_own(rank), dst=4), "dist.reduce of rank 0: dst = 4, but it must be a rank from 0 to 3"),
        (
            lambda rank: dist.broadcast(_own(rank), src=4),
            "dist.broadcast of rank 0: src = 4, but it must be a rank from 0 to 3",
        ),
        (
            lambda rank: dist.broadcast(_own(rank), src=-1),
            "dist.broadcast of rank 0: src = -1, but it must be a rank from 0 to 3",
        ),
        (lambda rank: dist.send(_own(rank), dst=rank), "dist.send of rank 0: dst = 0, but it must be another rank from 0 to 3"),
        (
            lambda rank: dist.send(_own(rank), dst=(rank + 1) % 4),
            "dist: the calls of ranks do not match: rank 0 send, rank 1 send, rank 2 send, rank 3 send; "
            "a send waits for its recv: let one side receive first",
        ),
        (
            lambda rank: dist.broadcast(_own(rank), src=None),
            "dist.broadcast of rank 0: it takes either src or group_src",
        ),
        (lambda rank: dist.from_numpy(np.zeros((2, 0))), "dist.from_numpy: an array of shape (2, 0) has no elements"),
        (
            lambda rank: dist.all_reduce(np.zeros(4)),  # type: ignore[arg-type]
            "dist.all_reduce: it takes tensors of torch or of dist.from_numpy, and rank 0 gives a ndarray",
        ),
        (
            lambda rank: dist.all_gather(_own(rank, 32, np.float16), _own(rank)),
            "dist.all_gather: tensors of f32 and f16 are given, and both must have one type",
        ),
        (
            lambda rank: dist.all_reduce(_own(rank, dtype=np.bool_)),
            "dist.all_reduce: elements of bool cannot be added; "
            "take one of f32, f16, bf16, f8e4m3, f8e5m2, f64, i64, i32, i16, i8, u32, u16, u8",
        ),
        (
            lambda rank: dist.broadcast(_own(rank, dtype=ml_dtypes.int4), 0),
            "dist.broadcast: elements of i4 cannot be moved one by one; "
            "take one of f32, f16, bf16, f8e4m3, f8e5m2, f64, i64, i32, i16, i8, u32, u16, u8",
        ),
    ],
)
def test_workers_are_told_what_is_wrong(calls: Any, said: str) -> None:
    def worker(rank: int) -> None:
        dist.init_process_group()
        calls(rank)

    @bench(name="workers", description="a mistake", machine="single_cube")
    def run(ctx: Any) -> None:
        dist.spawn(ctx, worker, ranks=4)

    with pytest.raises(InputError) as told:
        GraphEngine("single_cube").run(run)
    assert str(told.value) == said


def test_algorithms_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of one's own is imported once, and kept to its topologies."""
    text = Path(str(all_reduce_own.__file__)).read_text(encoding="utf-8").replace("all_reduce_own", "all_reduce_mine")
    (tmp_path / "mine.py").write_text(text + "\nprint('imported')\n", encoding="utf-8")
    entry = "schema: kernbench/ccl/1\nalgorithms: {all_reduce: {mine: {module: mine.py, topologies: [KIND]}}}\n"
    got: dict[int, list[int]] = {}

    def worker(rank: int) -> None:
        dist.init_process_group()
        x = dist.from_numpy(np.full(3, rank, np.int32))
        dist.all_reduce(x)
        dist.all_reduce(x)
        got[rank] = dist.to_numpy(x).tolist()

    @bench(name="workers", description="an algorithm of a file", machine="single_cube")
    def run(ctx: Any) -> None:
        files = [str(tmp_path / "ccl.yaml")]
        dist.spawn(ctx, worker, ranks=3, algorithms={"all_reduce": "mine"}, files=files, allow_code=tmp_path / "mine.py")

    (tmp_path / "ccl.yaml").write_text(entry.replace("KIND", "ring"), encoding="utf-8")
    GraphEngine("single_cube").run(run)
    assert got == {rank: [9] * 3 for rank in range(3)} and capsys.readouterr().out == "imported\n"
    (tmp_path / "ccl.yaml").write_text(entry.replace("KIND", "mesh"), encoding="utf-8")
    with pytest.raises(InputError, match=r"^dist.all_reduce: all_reduce_mine is for mesh, and the group is a ring$"):
        GraphEngine("single_cube").run(run)


def test_a_worker_that_yields_is_told() -> None:
    def worker(rank: int) -> Any:
        yield rank

    @bench(name="workers", description="a mistake", machine="single_cube")
    def run(ctx: Any) -> None:
        dist.spawn(ctx, worker, ranks=2)

    with pytest.raises(KernelFailed, match="the worker worker is a generator, so nothing of it has run"):
        GraphEngine("single_cube").run(run)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"ranks": 0}, "dist.spawn: ranks = 0, but it must be an integer of at least 1"),
        ({"ranks": 2.0}, "dist.spawn: ranks = 2.0, but it must be an integer of at least 1"),
        ({"ranks": 2, "algorithms": {"allreduce": "ring"}}, "allreduce: there is no collective with this name; .*; did you"),
        ({"ranks": 2, "algorithms": {"all_reduce": "oak"}}, "oak: there is no algorithm of all_reduce with this name;"),
    ],
)
def test_groups_of_workers_are_looked_at_first(how: dict[str, Any], said: str) -> None:
    @bench(name="workers", description="a mistake", machine="single_cube")
    def run(ctx: Any) -> None:
        dist.spawn(ctx, lambda rank: pytest.fail("a worker began"), **how)

    with pytest.raises(InputError, match=said):
        GraphEngine("single_cube").run(run)


def test_without_a_name_the_tuner_chooses() -> None:
    """One algorithm for few elements, another one for many."""

    def worker(rank: int) -> None:
        dist.init_process_group()
        for count in (16, 1 << 17):
            dist.all_reduce(dist.from_numpy(np.full(count, rank, np.float16)))

    engine = dist.spawn(worker, nprocs=8)
    ran = {launch.name for launch in engine.get_timing_result().launches if "all_reduce" in launch.name}
    assert len(ran) == 2, ran
