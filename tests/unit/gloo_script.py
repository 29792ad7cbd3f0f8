"""A script of torch.distributed as users write them; the test of it changes its two import lines and nothing else."""

import sys

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def collectives(rank, size, got):
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3) + rank
    dist.all_reduce(x)
    got["all_reduce"] = x
    for name in ("MAX", "MIN", "PRODUCT"):
        y = torch.tensor([rank + 1, 5 - rank, 2], dtype=torch.int32)
        dist.all_reduce(y, op=getattr(dist.ReduceOp, name))
        got[f"all_reduce_{name}"] = y
    b = torch.full((5,), rank, dtype=torch.int64)
    dist.broadcast(b, src=2)
    got["broadcast"] = b
    r = torch.full((3,), rank + 1, dtype=torch.int64)
    dist.reduce(r, dst=1, op=dist.ReduceOp.SUM)
    if rank == 1:
        got["reduce"] = r
    parts = [torch.zeros(2, 2) for _ in range(size)]
    dist.all_gather(parts, torch.full((2, 2), float(rank)))
    got["all_gather"] = torch.stack(parts)
    whole = torch.zeros(size * 2, dtype=torch.bfloat16)
    dist.all_gather_into_tensor(whole, torch.full((2,), rank + 0.5, dtype=torch.bfloat16))
    got["all_gather_into_tensor"] = whole.float()
    gathered = [torch.zeros(3) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.full((3,), float(rank)), gathered, dst=0)
    if rank == 0:
        got["gather"] = torch.stack(gathered)
    mine = torch.zeros(2)
    dist.scatter(mine, [torch.full((2,), 10.0 + k) for k in range(size)] if rank == 3 else None, src=3)
    got["scatter"] = mine
    out = torch.zeros(size, dtype=torch.int32)
    dist.all_to_all_single(out, torch.arange(size, dtype=torch.int32) + 10 * rank)
    got["all_to_all_single"] = out
    sizes = [1 + (rank + k) % 2 for k in range(size)]
    split = torch.zeros(sum(sizes), dtype=torch.int32)
    dist.all_to_all_single(split, torch.arange(sum(sizes), dtype=torch.int32) + 100 * rank, sizes, sizes)
    got["all_to_all_split"] = split
    dist.barrier()


def pairs_and_groups(rank, size, got):
    right, left = (rank + 1) % size, (rank - 1) % size
    x, y = torch.full((4,), float(rank)), torch.zeros(4)
    if rank % 2:
        dist.recv(y, src=left)
        dist.send(x, dst=right)
    else:
        dist.send(x, dst=right)
        dist.recv(y, src=left)
    got["send_recv"] = y
    z = torch.zeros(4)
    for work in (dist.isend(x, right, tag=3), dist.irecv(z, left, tag=3)):
        work.wait()
    got["isend_irecv"] = z
    u = torch.zeros(4)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, left), dist.P2POp(dist.irecv, u, right)]):
        work.wait()
    got["batch"] = u
    groups = [dist.new_group(ranks) for ranks in ([0, 2], [1, 3])]
    mine = groups[rank % 2]
    v = torch.full((3,), rank + 1)
    dist.all_reduce(v, group=mine)
    got["group"] = v
    got["ranks"] = torch.tensor([dist.get_rank(mine), dist.get_world_size(mine), *dist.get_process_group_ranks(mine)])
    work = dist.all_reduce(w := torch.full((1000,), float(rank)), async_op=True)
    work.wait()
    got["async"] = w


def training(rank, size, got):
    torch.manual_seed(rank)
    model = torch.nn.Linear(3, 2)
    for one in model.parameters():
        dist.broadcast(one.data, 0)
    x = torch.randint(-2, 3, (4, 3)).float()
    model(x).sum().backward()
    futures = [dist.all_reduce(one.grad, async_op=True).get_future() for one in model.parameters()]
    grads = [future.then(lambda done: done.value()[0] / size).wait() for future in futures]
    with torch.no_grad():
        for one, grad in zip(model.parameters(), grads, strict=True):
            one -= 0.125 * grad
        dist.broadcast(model.bias, 1)
    got["weights"], got["drawn"] = model.weight.detach(), torch.rand(2)
    ones = [torch.full((k + 1,), float(rank)) for k in range(2)]
    with dist._coalescing_manager(async_ops=True) as works:
        for one in ones:
            dist.all_reduce(one)
    works.wait()
    got["coalesced"] = torch.cat(ones)


def special_tensors(rank, size, got):
    empty = torch.empty(0, 2)
    dist.all_reduce(empty)
    dist.all_to_all_single(torch.empty(0, 2), empty, [0] * size, [0] * size)
    number, flags = torch.tensor(float(rank)), torch.tensor([rank == 1, True, False])
    dist.all_reduce(number)
    dist.all_reduce(flags, op=dist.ReduceOp.MAX)
    turned = (torch.arange(6.0).reshape(2, 3) + rank).t()
    dist.all_reduce(turned)
    got |= {"empty": empty, "number": number, "flags": flags, "turned": turned}
    pair, alone = dist.new_group([2, 0]), torch.full((2,), float(rank))
    dist.all_reduce(alone, group=pair)  # without effect on ranks 1 and 3
    member = pair != dist.GroupMember.NON_GROUP_MEMBER
    got["pair"], got["size"] = alone, torch.tensor([dist.get_rank(pair), dist.get_world_size(pair), int(member)])
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    got["mesh"] = torch.tensor([mesh.ndim, mesh.get_rank(), *mesh.shape, *mesh.get_coordinate()])


def worker(rank, size, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    got = {}
    collectives(dist.get_rank(), dist.get_world_size(), got)
    pairs_and_groups(rank, size, got)
    training(rank, size, got)
    special_tensors(rank, size, got)
    np.savez(f"{folder}/{rank}.npz", **{name: value.numpy() for name, value in got.items()})
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(4, sys.argv[1]), nprocs=4, join=True)
