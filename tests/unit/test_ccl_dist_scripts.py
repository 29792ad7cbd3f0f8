"""What scripts of torch.distributed use beside collectives: stores, meshes from arrays, and backward passes with hooks."""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from kernbench.ccl import dist
from kernbench.common.errors import InputError
from tests.unit.test_ccl_dist_torch import i32, run


def test_functions_outside_of_workers_say_how_to_start_one() -> None:
    with pytest.raises(ValueError, match="kbsim ccl torchrun --nproc-per-node 8 SCRIPT runs a script"):
        dist.init_process_group("gloo")
    assert dist.spawn(lambda rank: None, nprocs=2).machine.status == "done"  # a function without a name


def test_workers_share_stores() -> None:
    got: dict[int, Any] = {}
    deleted: list[bool] = []

    def worker(rank: int) -> None:
        store, file = dist.TCPStore("localhost", 29501, 3, rank == 0), dist.FileStore("/nowhere/file", 3)
        inner = dist.PrefixStore("inner", store)
        if rank == 2:
            store.set("first", "a")
        inner.set(str(rank), bytes([rank]))
        store.add("sum", rank)
        file.append("all", str(rank))
        shared = dist._get_default_store().compare_set("k", "", str(rank))
        values = [store.get("first"), *inner.multi_get(["0", "1", "2"]), shared]
        dist.barrier()
        alone = dist.HashStore()
        alone.set("mine", "b")
        got[rank] = values, store.add("sum", 0), store.num_keys(), len(file.get("all")), alone.num_keys(), inner.check(["3"])
        dist.barrier()
        deleted.append(store.delete_key("first"))

    run(worker, 3)
    assert deleted == [True, False, False]
    for rank in range(3):
        assert got[rank] == ([b"a", b"\0", b"\1", b"\2", b"0"], 3, 5, 3, 1, False)


def test_a_key_that_nobody_sets_is_told() -> None:
    with pytest.raises(RuntimeError, match="rank 0 waits for the key gone of a store, rank 1 has ended"):
        run(lambda rank: None if rank else (dist.TCPStore("h", 1).get("gone"), None)[1], 2)


def test_meshes_are_made_of_arrays_and_flattened() -> None:
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        mesh = dist.DeviceMesh("cpu", [[0, 2], [1, 3]], mesh_dim_names=("dp", "tp"))
        x, y = i32(rank), i32(rank)
        dist.all_reduce(x, group=mesh["tp"].get_group())
        flat = mesh["dp", "tp"]._flatten("both")
        dist.all_reduce(y, group=mesh["both"].get_group())
        small = dist.init_device_mesh("cpu", (2,))
        assert mesh == dist.DeviceMesh("cpu", [[0, 2], [1, 3]], mesh_dim_names=("dp", "tp")) and flat.size() == 4
        with pytest.raises(ValueError, match=r"mesh = .\[5\]., but it must be the ranks of the group, "):
            dist.DeviceMesh.from_group(mesh.get_group("dp"), "cpu", [5])
        assert dist.DeviceMesh.from_group(mesh.get_group("dp"), "cpu").get_group() is mesh.get_group("dp")
        got[rank] = dist.to_numpy(x).tolist(), dist.to_numpy(y).tolist(), mesh.get_coordinate(), small.get_coordinate()
        with pytest.raises(KeyError, match=r"^device mesh: dim = .pp., but it must be one of the axes of the mesh, dp, tp$"):
            mesh["pp"]
        if rank > 1:
            with pytest.raises(ValueError, match="is not in the mesh, and has no groups"):
                small.get_group()

    run(worker, 4)
    sums = {0: [2], 2: [2], 1: [4], 3: [4]}
    places = {0: (0, 0), 2: (0, 1), 1: (1, 0), 3: (1, 1)}
    assert got == {rank: (sums[rank], [6], places[rank], (rank,) if rank < 2 else None) for rank in range(4)}


def test_meshes_that_do_not_fit_are_refused() -> None:
    def worker(rank: int) -> None:
        with pytest.raises(InputError, match=r"mesh_shape = .*but it must have at most 2 ranks"):
            dist.init_device_mesh("cpu", (3,))
        with pytest.raises(InputError, match="it must have different ranks from 0 to 1"):
            dist.DeviceMesh("cpu", [0, 0])
        with pytest.raises(InputError, match="it must have a different name for each of the 2 axes"):
            dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("a",))

    run(worker, 2)


def test_backward_passes_of_workers_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the engine of torch, which keeps in its thread whether a pass is running."""
    torch: Any = ModuleType("torch.autograd")
    state = threading.local()

    def engine(hook: Any) -> Any:
        assert not getattr(state, "runs", False), "a pass inside another pass"
        state.runs = True
        try:
            return hook()
        finally:
            state.runs = False

    torch._engine_run_backward = engine
    monkeypatch.setitem(sys.modules, "torch.autograd", torch)
    got: dict[int, Any] = {}

    def worker(rank: int) -> None:
        x = i32(rank)

        def hook() -> int:
            assert dist.is_initialized() and dist.get_rank() == rank
            dist.all_reduce(x)
            return rank

        def fails() -> None:
            dist.barrier()
            raise ArithmeticError("bad gradient")

        got[rank] = torch._engine_run_backward(hook), dist.to_numpy(x).tolist()
        with pytest.raises(ArithmeticError, match="bad gradient"):
            torch._engine_run_backward(fails)

    run(worker, 3)
    assert got == {rank: (rank, [3]) for rank in range(3)}
    assert torch._engine_run_backward is engine  # afterwards, torch is as before


def test_a_hook_that_waits_forever_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = ModuleType("torch.autograd")
    torch._engine_run_backward = lambda hook: hook()
    monkeypatch.setitem(sys.modules, "torch.autograd", torch)
    threads = threading.active_count()

    def worker(rank: int) -> None:
        if rank == 0:
            torch._engine_run_backward(lambda: dist.barrier())

    with pytest.raises(InputError, match="rank 0 barrier, rank 1 has ended"):
        run(worker, 2)
    assert threading.active_count() == threads


def test_a_mesh_of_torch_has_a_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = ModuleType("torch")
    torch.Tensor, torch.from_numpy = object, lambda values: ("a tensor", values.dtype, values.tolist())
    monkeypatch.setitem(sys.modules, "torch", torch)
    got = []
    run(lambda rank: got.append(dist.init_device_mesh("cpu", (2,)).mesh), 2)
    assert got == [("a tensor", np.int32, [0, 1])] * 2
