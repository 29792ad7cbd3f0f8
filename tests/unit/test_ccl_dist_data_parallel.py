"""`DistributedDataParallel` of `dist`, against averages of gradients from the definition; and what needs torch's own groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernbench.ccl import dist
from kernbench.ccl.dist import run_script
from kernbench.common.errors import InputError

torch = pytest.importorskip("torch", reason="torch is not installed")
RANKS = 3


def run(worker: Callable[[int], Any], ranks: int = RANKS) -> dict[int, Any]:
    """The results of workers, by rank."""
    found: dict[int, Any] = {}

    def begun(rank: int) -> None:
        dist.init_process_group("gloo")
        found[rank] = worker(rank)

    assert dist.spawn(begun, nprocs=ranks).machine.status == "done"
    return found


def model(seed: int) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 2))


def given(rank: int, step: int) -> Any:
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(10 * step + rank))


def gradients(module: Any, rank: int, step: int = 0) -> list[Any]:
    module.zero_grad()
    module(given(rank, step)).pow(2).sum().backward()
    return [one.grad.clone() for one in module.parameters()]


def averaged(per_rank: list[list[Any]]) -> list[Any]:
    return [sum(some) / len(per_rank) for some in zip(*per_rank, strict=True)]


def test_gradients_are_averages_and_ranks_stay_the_same() -> None:
    expected = averaged([gradients(model(0), rank) for rank in range(RANKS)])

    def worker(rank: int) -> Any:
        wrapped = dist.nn.parallel.DistributedDataParallel(model(rank), bucket_cap_mb=64 / (1 << 20))
        first = gradients(wrapped, rank)
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
        for step in range(1, 4):
            gradients(wrapped, rank, step)
            optimizer.step()
        return first, [one.detach().clone() for one in wrapped.parameters()], list(wrapped.state_dict())

    found = run(worker)
    for one, right in zip(found[1][0], expected, strict=True):
        torch.testing.assert_close(one, right)
    for rank in range(1, RANKS):
        assert all(map(torch.equal, found[rank][1], found[0][1]))
    assert found[0][2][0] == "module.0.weight"


def posted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The collectives of rank 0 from now on, with their elements."""
    found: list[tuple[str, int]] = []
    for name in ("all_reduce", "broadcast"):
        before = getattr(dist.collectives, name)

        def kept(tensor: Any, *args: Any, name: str = name, before: Any = before, **kwargs: Any) -> Any:
            if dist.get_rank() == 0:
                found.append((name, tensor.numel()))
            return before(tensor, *args, **kwargs)

        monkeypatch.setattr(dist.collectives, name, kept)
    return found


def test_messages_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = posted(monkeypatch)

    def worker(rank: int) -> None:
        layers = [torch.nn.Linear(256, 256, bias=False) for _ in range(3)]  # 256 KiB each
        wrapped = dist.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.5)
        for _ in range(2):
            wrapped(torch.ones(1, 256)).sum().backward()

    run(worker, 2)
    one = 256 * 256
    # All parameters, one bucket, the order of the gradients, and then buckets of half a MiB: the last layers come first.
    assert calls == [
        ("broadcast", 3 * one),
        ("all_reduce", 3 * one),
        ("broadcast", 3),
        ("all_reduce", 2 * one),
        ("all_reduce", one),
    ]


def test_no_sync_adds_up_on_each_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = posted(monkeypatch)

    def worker(rank: int) -> Any:
        wrapped = dist.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
        x = torch.full((1, 2), float(rank + 1))
        with wrapped.no_sync():
            wrapped(x).sum().backward()
        before = wrapped.module.weight.grad.tolist()
        wrapped(x).sum().backward()
        return before, wrapped.module.weight.grad.tolist()

    assert run(worker) == {rank: ([[rank + 1.0] * 2], [[4.0] * 2]) for rank in range(RANKS)}
    assert [name for name, _ in calls] == ["broadcast", "all_reduce"]


def test_buffers_are_those_of_the_first_rank() -> None:
    def worker(rank: int) -> Any:
        module = torch.nn.BatchNorm1d(1)
        wrapped = dist.nn.parallel.DistributedDataParallel(module)
        for _ in range(2):
            wrapped(torch.full((4, 1), float(rank + 1)))
        before = module.running_mean.item()
        module.eval()
        with torch.no_grad():
            wrapped(torch.ones(4, 1))
        return round(before, 3), round(module.running_mean.item(), 3)

    # In the second pass each rank starts from rank 0's mean of 0.1. The last pass starts with rank 0's mean again.
    assert run(worker) == {rank: (round(0.09 + 0.1 * (rank + 1), 3), 0.19) for rank in range(RANKS)}


def two_branches(rank: int, **how: Any) -> Any:
    class Two(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other, self.never = (torch.nn.Linear(1, 1, bias=False) for _ in range(3))

        def forward(self, x: Any) -> Any:
            return self.one(x) if rank else self.one(x) + self.other(x)

    wrapped = dist.nn.parallel.DistributedDataParallel(Two(), **how)
    found = []
    for _ in range(2):
        wrapped.zero_grad()
        wrapped(torch.ones(1, 1)).sum().backward()
        found.append([None if one.grad is None else round(one.grad.item(), 4) for one in wrapped.parameters()])
    return found


def test_parameters_may_be_left_out() -> None:
    found = run(lambda rank: two_branches(rank, find_unused_parameters=True))
    assert found == {rank: [[1.0, 0.3333, None]] * 2 for rank in range(RANKS)}


def test_parameters_that_are_left_out_are_named() -> None:
    with pytest.raises(ValueError, match=r"gave no gradients for other\.weight, never\.weight; use .* find_unused_parameters"):
        run(lambda rank: two_branches(1))


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"device_ids": [0]}, "device_ids = .*0.*, but a rank computes on the CPU"),
        ({"mixed_precision": 1}, "mixed_precision"),
    ],
)
def test_arguments_that_are_not_modelled_are_refused(how: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        run(lambda rank: dist.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1), **how))


def test_other_uses_are_refused_by_name() -> None:
    def wrapped() -> Any:
        return dist.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))

    with pytest.raises(InputError, match="none of the parameters"):
        run(lambda rank: dist.nn.parallel.DistributedDataParallel(torch.nn.ReLU()))
    with pytest.raises(InputError, match=r"register_comm_hook: .* no_sync"):
        run(lambda rank: wrapped().register_comm_hook(None, None))
    with pytest.raises(InputError, match=r"join: .* same number of inputs"):
        run(lambda rank: wrapped().join())


def uses_ddp() -> None:
    torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))


def uses_a_sampler() -> None:
    from torch.utils.data import DistributedSampler

    DistributedSampler([1, 2])


def uses_a_collective() -> None:
    torch.distributed.all_reduce(torch.ones(2))


def uses_dtensor() -> None:
    from torch.distributed.tensor import Shard, distribute_tensor

    distribute_tensor(torch.ones(2), dist.init_device_mesh("cpu", (2,)), [Shard(0)])


def uses_fsdp() -> None:
    from torch.distributed.fsdp import fully_shard

    fully_shard(torch.nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (uses_ddp, "DistributedDataParallel: it needs .*import it from kernbench.ccl.dist.nn.parallel"),
        (uses_a_sampler, "DistributedSampler: it needs .*num_replicas=dist.get_world_size"),
        (uses_a_collective, "all_reduce: it needs .*from kernbench.ccl import dist"),
        (uses_dtensor, "distribute_tensor: it needs .*FSDP, DTensor, pipelines and RPC do not run here"),
        (uses_fsdp, "fully_shard: it needs .*FSDP, DTensor, pipelines and RPC do not run here"),
    ],
)
def test_what_needs_torchs_own_groups_says_what_to_use(use: Callable[[], None], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        run(lambda rank: use(), 2)


def test_scripts_with_torchs_import_line_do_not_wait_for_processes(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch.distributed as dist\ndist.init_process_group('gloo')\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"init_process_group: it needs .*from kernbench\.ccl import dist"):
        run_script(script, nproc_per_node=2)
    from torch.distributed import distributed_c10d

    assert distributed_c10d.rendezvous.__module__ == "torch.distributed.rendezvous"


def test_errors_of_programs_stay_as_they_are() -> None:
    def worker(rank: int) -> None:
        raise ValueError("mine")

    with pytest.raises(dist.ProcessRaisedException, match=r"rank 0 raised ValueError: mine$"):
        run(worker)
