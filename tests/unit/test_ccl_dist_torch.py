"""`kernbench.ccl.dist` as `torch.distributed`: groups, meshes, reductions, asynchronous calls, lists and tensors of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench import GraphEngine
from kernbench.ccl import dist
from kernbench.common.errors import InputError
from kernbench.runtime_api import bench


def run(worker: Callable[..., None], ranks: int, machine: str = "single_cube", **how: Any) -> Any:
    """The results that workers put into a dictionary by rank; and the engine."""

    @bench(name="workers", description="a test", machine=machine)
    def workers(ctx: Any) -> None:
        dist.spawn(ctx, joined(worker), ranks=ranks, **how)

    engine = GraphEngine(machine)
    assert engine.run(workers).status == "done"
    return engine


def joined(worker: Callable[..., None]) -> Callable[..., None]:
    def begun(rank: int, *args: Any) -> None:
        dist.init_process_group("kernbench")
        worker(rank, *args)

    return begun


def f32(*values: float) -> Any:
    return dist.from_numpy(np.array(values, np.float32))


def i32(*values: int) -> Any:
    return dist.from_numpy(np.array(values, np.int32))


def test_one_rank_may_read_and_make_tensors_alone() -> None:
    said = []

    def worker(rank: int) -> None:
        x = i32(*range(rank + 1)) if rank else i32(5)
        if rank == 0:
            y = i32(7, 8)
            said.append(dist.to_numpy(y).tolist())
        z = i32(rank)
        dist.all_reduce(z)
        if rank == 2:
            said.append((dist.to_numpy(z).tolist(), dist.to_numpy(x).tolist()))

    run(worker, 3)
    assert said == [[7, 8], ([3], [0, 1, 2])]


@pytest.mark.parametrize(
    ("op", "right"),
    [
        (dist.ReduceOp.SUM, [6.0, 12.0]),
        (dist.ReduceOp.AVG, [2.0, 4.0]),
        (dist.ReduceOp.MAX, [3.0, 6.0]),
        (dist.ReduceOp.MIN, [1.0, 2.0]),
        (dist.ReduceOp.PRODUCT, [6.0, 48.0]),
        (dist.ReduceOp.PREMUL_SUM(0.5), [3.0, 6.0]),
    ],
)
def test_reductions(op: Any, right: list[float]) -> None:
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        mine = np.array([rank + 1, 2 * rank + 2], np.float32)
        x, y, z = dist.from_numpy(mine), dist.from_numpy(mine), dist.from_numpy(np.tile(mine, 3))
        out = dist.from_numpy(np.zeros(2, np.float32))
        dist.all_reduce(x, op=op)
        dist.reduce(y, dst=2, op=op)
        dist.reduce_scatter_tensor(out, z, op=op)
        got[rank] = [dist.to_numpy(one).tolist() for one in (x, y, out, z)]

    run(worker, 3)
    for rank in range(3):
        mine = [rank + 1.0, 2 * rank + 2.0]
        assert got[rank] == [right, right if rank == 2 else mine, right, mine * 3]


def test_groups_and_meshes() -> None:
    """Rows and columns of a mesh call collectives at the same time, and a group of its own has its own order of calls."""
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        mesh = dist.init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "tp"))
        assert mesh.get_coordinate() == (rank // 4, rank % 4) and mesh.get_local_rank("tp") == rank % 4 and mesh.size() == 8
        rows, columns = i32(rank), i32(rank)
        dist.all_reduce(rows, group=mesh.get_group("tp"))
        dist.all_reduce(columns, group=mesh["dp"].get_group())
        odd = dist.new_group([1, 3, 5, 7])
        x = i32(rank)
        if rank % 2:
            assert (dist.get_rank(odd), dist.get_world_size(odd)) == (rank // 2, 4)
            dist.broadcast(x, src=5, group=odd)
        mine, every = dist.new_subgroups(2)
        assert mine == every[rank // 2] and dist.get_process_group_ranks(mine) == [rank - rank % 2, rank - rank % 2 + 1]
        both = i32(0, 0)
        dist.all_gather_into_tensor(both, i32(rank), group=mine)
        got[rank] = [dist.to_numpy(one).tolist() for one in (rows, columns, x, both)]

    run(worker, 8)
    for rank in range(8):
        row = [6] if rank < 4 else [22]
        assert got[rank] == [row, [2 * (rank % 4) + 4], [5 if rank % 2 else rank], [rank // 2 * 2, rank // 2 * 2 + 1]]


def test_a_group_is_split_by_its_own_ranks() -> None:
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        last = dist.new_group([2, 3, 4, 5])
        if rank >= 2:
            part = dist.split_group(last, [[3, 0], [2]])
            assert (part is None) == (rank == 3)
            x = i32(rank)
            if part is not None:
                dist.all_reduce(x, group=part)
            got[rank] = dist.to_numpy(x).tolist()
            for wrong in (None, [], [[]], [[0, 1], [1]], [[4]], [["a"]]):
                with pytest.raises(ValueError, match="it must be lists of ranks from 0 to 3"):
                    dist.split_group(last, wrong)

    run(worker, 6)
    assert got == {2: [7], 3: [3], 4: [4], 5: [7]}


def test_lists_and_roots() -> None:
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        parts = [i32(0, 0) for _ in range(4)]
        dist.all_gather(parts, i32(rank, -rank))
        block = i32(0)
        dist.reduce_scatter(block, [i32(10 * k + rank) for k in range(4)])
        gathered = [i32(0) for _ in range(4)] if rank == 2 else None
        dist.gather(i32(rank * rank), gathered, dst=2)
        piece = i32(0)
        dist.scatter(piece, [i32(100 + k) for k in range(4)] if rank == 3 else None, src=3)
        outs = [i32(0) for _ in range(4)]
        dist.all_to_all(outs, [i32(10 * rank + k) for k in range(4)])
        uneven = dist.from_numpy(np.zeros(sum(range(4)) if rank == 0 else 2 * rank, np.int32))
        sizes = list(range(4)) if rank == 0 else [rank, 0, 0, rank]
        dist.all_to_all_single(*uneven_args(rank, uneven, sizes))
        all_gathered = [dist.to_numpy(one).tolist() for one in parts]
        rooted = [] if gathered is None else [dist.to_numpy(one).tolist() for one in gathered]
        got[rank] = [all_gathered, dist.to_numpy(block).tolist(), rooted, dist.to_numpy(piece).tolist(),
                     [dist.to_numpy(one).tolist() for one in outs]]  # fmt: skip

    def uneven_args(rank: int, out: Any, sizes: list[int]) -> Any:
        """Rank 0 sends 0, 1, 2, 3 elements, the others as many as their rank to ranks 0 and 3, so that all add up."""
        given = [[0, 1, 2, 3], [1, 0, 0, 1], [2, 0, 0, 2], [3, 0, 0, 3]]
        takes = [given[peer][rank] for peer in range(4)]
        out = dist.from_numpy(np.zeros(sum(takes), np.int32))
        return out, dist.from_numpy(np.full(sum(given[rank]), rank, np.int32)), takes, given[rank]

    run(worker, 4)
    for rank in range(4):
        assert got[rank] == [
            [[k, -k] for k in range(4)],
            [40 * rank + 6],
            [[k * k] for k in range(4)] if rank == 2 else [],
            [100 + rank],
            [[10 * k + rank] for k in range(4)],
        ]


def test_sends_that_are_not_waited_for() -> None:
    """A shift round a ring, which sends and receives without `isend` could not do."""
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        x, y, z = i32(rank), i32(0), i32(0)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, (rank + 1) % 4), dist.P2POp(dist.irecv, y, (rank - 1) % 4)])
        for one in works:
            one.wait()
        sent = dist.isend(x, (rank + 2) % 4, tag=7)
        assert dist.irecv(z, (rank + 2) % 4, tag=7).wait() and sent.wait() and sent.is_completed()
        got[rank] = dist.to_numpy(y).tolist() + dist.to_numpy(z).tolist()

    run(worker, 4)
    assert got == {rank: [(rank - 1) % 4, (rank + 2) % 4] for rank in range(4)}


def cycles_of(asynchronous: bool, kernels: bool = True, reduces: bool = True) -> int:
    def compute(x: Any, tl: Any) -> None:
        tile = tl.load(x, (1 << 14,), "f32")
        for _ in range(8):
            tl.wait(tl.exp(tile, out=tile))
        tl.store(x, tile)

    def worker(rank: int) -> None:
        x, y = (dist.from_numpy(np.full(1 << 14, 0.1, np.float32)) for _ in range(2))
        if asynchronous:
            work = dist.all_reduce(y, async_op=True)
            dist.launch(compute, x)
            assert work is not None and work.wait()
        else:
            if reduces:
                dist.all_reduce(y)
            if kernels:
                dist.launch(compute, x)
        assert np.allclose(dist.to_numpy(y), 0.4 if reduces else 0.1)

    return int(run(worker, 4).machine.cycle)


def test_what_is_asynchronous_runs_beside_kernels() -> None:
    """In less time than one after the other, and in no less than the longer one takes."""
    beside, after = cycles_of(True), cycles_of(False)
    alone = max(cycles_of(False, kernels=False), cycles_of(False, reduces=False))
    assert alone <= beside < 0.9 * after


@pytest.mark.parametrize("name", ["all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"])
def test_objects_are_refused_by_name(name: str) -> None:
    with pytest.raises(InputError, match=rf"dist.{name}: it sends Python objects"):
        getattr(dist, name)([None], 1)


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        (lambda rank: dist.all_reduce(i32(1), op="sum"), "the reductions are SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR"),
        (lambda rank: dist.all_reduce(i32(1), op=dist.ReduceOp.AVG), "avg multiplies or divides"),
        (lambda rank: dist.all_reduce(i32(*range(rank + 1))), r"rank 0 passes 1 elements of i32, sum, and rank 1 passes 2 ele"),
        (lambda rank: dist.broadcast(i32(1), src=rank), "rank 0 passes 1 elements of i32, sum, root 0, and rank 1 passes"),
        (lambda rank: dist.all_reduce(f32(1), op=dist.ReduceOp.BAND), "band combines bits, so it takes integer elements"),
        (lambda rank: dist.init_process_group("gloo"), "rank 0 has already joined the group"),
        (lambda rank: dist.new_group([0, 0]), "it must be different ranks from 0 to 1"),
        (lambda rank: dist.all_gather([i32(0)], i32(1)), "it takes 2 tensors of 1 i32, one for each rank, and gets 1 i32"),
        (lambda rank: dist.recv(i32(1), src=1 - rank), "rank 0 recv, rank 1 recv"),
        (lambda rank: dist.irecv(i32(1), src=1 - rank).wait(), "rank 0 waits for its recv, rank 1 waits for its recv"),
        (lambda rank: None if rank else dist.barrier(), "rank 0 barrier, rank 1 has ended"),
        (lambda rank: dist.init_device_mesh("cpu", (3,)), "it must have at most 2 ranks"),
        (lambda rank: dist.init_process_group("gloo", rank=5), "it is 0: dist.spawn numbers the workers"),
    ],
)
def test_mistakes_are_told_and_nothing_hangs(calls: Callable[[int], Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        run(lambda rank: (calls(rank), None)[1], 2)


def test_ranks_are_named_in_the_group_or_in_the_world() -> None:
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        mine, groups = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])
        assert mine is groups[rank % 2] and dist.group.WORLD is not None
        x = i32(rank)
        dist.broadcast(x, group=mine, group_src=1)
        y, both = i32(0), i32(0, 0)
        if rank < 2:
            dist.send(x, group=mine, group_dst=1)
        else:
            assert dist.recv(y, group=mine, group_src=0) == rank - 2
        dist.all_gather_single(output_tensor=both, input_tensor=x, group=mine)
        dist.reduce_scatter_single(output=y, input=both, group=mine)
        got[rank] = dist.to_numpy(x).tolist(), dist.to_numpy(both).tolist(), dist.to_numpy(y).tolist()

    run(worker, 4)
    assert got == {rank: ([2 + rank % 2], [2 + rank % 2] * 2, [4 + 2 * (rank % 2)]) for rank in range(4)}


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        (lambda rank: dist.recv(i32(0), src=1, group_src=1), "it takes either src or group_src"),
        (lambda rank: dist.send(i32(0), dst=1, group_dst=1), "it takes either dst or group_dst"),
        (lambda rank: dist.broadcast(i32(0), group_src=2), 'group_src = 2, but it must be a rank from 0 to 1'),
        (lambda rank: dist.new_subgroups_by_enumeration([[0], [0, 1]]), "no rank may be in two groups"),
    ],
)
def test_ranks_that_are_named_twice_or_not_at_all_are_refused(calls: Callable[[int], Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        run(lambda rank: (calls(rank), None)[1], 2)


def gloo_worker(rank: int, size: int, torch: Any, got: dict[int, Any]) -> None:
    """A worker of torch.distributed with gloo, but for its import line."""
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29500", rank=rank, world_size=size)
    x = torch.from_numpy(np.full(5, rank + 1, np.float32))
    dist.all_reduce(x, op=dist.ReduceOp.SUM)
    parts = [torch.from_numpy(np.zeros(5, np.float32)) for _ in range(size)]
    work = dist.all_gather(parts, x, async_op=True)
    assert work is not None
    work.wait()
    if rank == 0:
        dist.send(x, dst=1)
    elif rank == 1:
        dist.recv(x, src=0)
    dist.barrier()
    got[rank] = [x.numpy().tolist(), [one.numpy().tolist() for one in parts]]
    dist.destroy_process_group()


def test_tensors_of_torch_by_a_stand_in(fake_torch: Any) -> None:
    """Without torch: its tensors are on the host, and have results as soon as a call returns."""
    got: dict[int, Any] = {}
    dist.spawn(gloo_worker, args=(3, fake_torch, got), nprocs=3, join=True)
    assert got == {rank: [[6.0] * 5, [[6.0] * 5] * 3] for rank in range(3)}


def test_a_worker_of_torch_runs_as_it_is() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    got: dict[int, Any] = {}
    dist.spawn(gloo_worker, args=(3, torch, got), nprocs=3, join=True)
    assert got == {rank: [[6.0] * 5, [[6.0] * 5] * 3] for rank in range(3)}


NAMES = st.sampled_from(["all_reduce", "broadcast", "all_gather", "kernel", "pair"])
CALLS = st.tuples(NAMES, st.integers(0, 2), st.booleans(), st.integers(1, 300))


def drawn(rows: int, columns: int, calls: list[tuple[str, int, bool, int]], machine: str) -> None:
    """Calls on a mesh in a drawn order, waited for or not until the end, against numpy."""
    ranks, got = rows * columns, {}

    def touch(x: Any, tl: Any) -> None:
        tl.store(x, tl.add(tl.load(x, (1,), "i32"), 1))

    def worker(rank: int) -> None:
        mesh = dist.init_device_mesh("cpu", (rows, columns), mesh_dim_names=("r", "c"))
        works, out = [], []
        for number, (name, axis, waits, count) in enumerate(calls):
            group = (mesh.get_group("r"), mesh.get_group("c"), None)[axis]
            x = dist.from_numpy(np.arange(count, dtype=np.int32) + rank + number)
            if name == "all_reduce":
                works.append(dist.all_reduce(x, group=group, async_op=not waits))
            elif name == "broadcast":
                works.append(dist.broadcast(x, src=dist.get_process_group_ranks(group)[-1], group=group, async_op=not waits))
            elif name == "all_gather":
                y = dist.from_numpy(np.zeros(count * dist.get_world_size(group), np.int32))
                works.append(dist.all_gather(y, x, group=group, async_op=not waits))
                x = y
            elif name == "kernel":
                dist.launch(touch, x)
            elif ranks > 1:
                y = dist.from_numpy(np.zeros(count, np.int32))
                works += [dist.isend(x, (rank + 1) % ranks), dist.irecv(y, (rank - 1) % ranks)]
                x = y
            out.append(x)
        for one in works:
            if one is not None:
                one.wait()
        got[rank] = [dist.to_numpy(one) for one in out]

    run(worker, ranks, machine)
    for rank in range(ranks):
        row, column = divmod(rank, columns)
        lines = ([k * columns + column for k in range(rows)], [row * columns + k for k in range(columns)], list(range(ranks)))
        for number, (name, axis, _, count) in enumerate(calls):
            values = {one: np.arange(count, dtype=np.int32) + one + number for one in range(ranks)}
            members = [values[one] for one in lines[axis]]
            right: Any = {
                "all_reduce": lambda m=members: sum(m),
                "broadcast": lambda m=members: m[-1],
                "all_gather": lambda m=members: np.concatenate(m),
                "kernel": lambda v=values[rank]: v + (np.arange(v.size) == 0),
                "pair": lambda v=values[(rank - 1) % ranks]: v,
            }[name]()
            assert np.array_equal(got[rank][number], right), (rank, number, name)


@settings(max_examples=4, deadline=None)
@given(st.integers(1, 2), st.integers(1, 3), st.lists(CALLS, min_size=1, max_size=4))
def test_any_mesh_and_order_of_calls(rows: int, columns: int, calls: list[tuple[str, int, bool, int]]) -> None:
    drawn(rows, columns, calls, "single_cube")


@pytest.mark.nightly
@settings(max_examples=200, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.lists(CALLS, min_size=1, max_size=12))
def test_any_mesh_and_order_of_calls_at_length(rows: int, columns: int, calls: list[tuple[str, int, bool, int]]) -> None:
    drawn(rows, columns, calls, "two_sips")
