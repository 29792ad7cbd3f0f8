"""Collectives that return new tensors, with the names of `torch.distributed._functional_collectives`.

They take CPU tensors of torch, and torch computes gradients through those that move or add floating-point numbers. `group` is
a process group, a device mesh of one axis, a mesh with the name or number of an axis, or a list of all ranks of a group.
`tag` is a parameter of torch's functions, and has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.ccl.dist.device_mesh import DeviceMesh
from kernbench.ccl.dist.errors import ArgumentError
from kernbench.ccl.dist.nn import functional
from kernbench.ccl.dist.process_groups import get_rank, group_of, new_group
from kernbench.ccl.dist.reductions import RedOpType
from kernbench.ccl.process_groups import ProcessGroup
from kernbench.common.errors import Problem

Tensor = Any  #: a tensor of torch
Where = Any  #: the group of a call, in one of the forms above


def _members(name: str, group: Where) -> ProcessGroup:
    if isinstance(group, DeviceMesh):
        return group.get_group()
    if isinstance(group, tuple | list) and group and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if isinstance(group, tuple | list):
        return new_group([int(one) for one in group])
    return group_of(name, group)


def _reduction(name: str, given: Any) -> Any:
    """Return the reduction for a name such as "sum"."""
    if not isinstance(given, str):
        return given
    if given.upper() not in RedOpType.__members__:
        known = ", ".join(one.lower() for one in RedOpType.__members__)
        raise ArgumentError(Problem(f"dist.{name}", f"it must be one of {known}", "reduceOp", given))
    return RedOpType[given.upper()]


def wait_tensor(tensor: Tensor) -> Tensor:
    """Return the tensor. The functions of this module return only after their results have arrived."""
    return tensor


def all_reduce(self: Tensor, reduceOp: str, group: Where = None, tag: str = "") -> Tensor:
    """Return the reduced tensors of all ranks."""
    return functional.all_reduce(self, _reduction("all_reduce", reduceOp), _members("all_reduce", group))


def broadcast(self: Tensor, src: int, group: Where = None, tag: str = "") -> Tensor:
    """Return the tensor of rank `src`, which is a rank among all workers."""
    return functional.broadcast(self, src, _members("broadcast", group))


def all_gather_tensor(self: Tensor, gather_dim: int, group: Where = None, tag: str = "") -> Tensor:
    """Return the tensors of all ranks, joined along an axis in rank order."""
    import torch

    return torch.cat(functional.all_gather(self.contiguous(), _members("all_gather", group)), gather_dim)


def reduce_scatter_tensor(self: Tensor, reduceOp: str, scatter_dim: int, group: Where = None, tag: str = "") -> Tensor:
    """Return block r along an axis of the reduced tensors on rank r."""
    members = _members("reduce_scatter", group)
    many, length = members.size(), self.shape[scatter_dim]
    if length % many:
        rule = f"axis {scatter_dim} has {length} elements, which {many} ranks do not divide"
        raise ArgumentError(Problem("dist.reduce_scatter", rule))
    blocks = [one.contiguous() for one in self.chunk(many, scatter_dim)]
    room = blocks[0].new_empty(blocks[0].shape)
    return functional.reduce_scatter(room, blocks, _reduction("reduce_scatter", reduceOp), members)


def all_to_all_single(
    self: Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Where = None,
    tag: str = "",
) -> Tensor:
    """Send rows to each rank, and return the rows from all ranks."""
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    room = self.new_empty((rows, *self.shape[1:]))
    return functional.all_to_all_single(
        room, self, output_split_sizes, input_split_sizes, _members("all_to_all", group)
    )


def permute_tensor(self: Tensor, src_dst: Sequence[int], group: Where = None, tag: str = "") -> Tensor:
    """Send the tensor of rank r in the group to rank `src_dst[r]`, and return the received tensor."""
    members = _members("all_to_all", group)
    if sorted(src_dst) != list(range(members.size())):
        rule = f"it must be a permutation of the ranks 0 to {members.size() - 1}"
        raise ArgumentError(Problem("dist.permute_tensor", rule, "src_dst", str(list(src_dst))))
    me, flat = members.rank_of(get_rank()), self.reshape(-1)
    gets, sends = ([0] * members.size() for _ in range(2))
    sends[src_dst[me]] = gets[list(src_dst).index(me)] = flat.numel()
    return all_to_all_single(flat, gets, sends, members).reshape(self.shape)


def all_reduce_coalesced(self: Sequence[Tensor], reduceOp: str, group: Where = None, tag: str = "") -> list[Tensor]:
    """Return the reduced tensors of all ranks for each tensor of a list."""
    return [all_reduce(one, reduceOp, group) for one in self]


def all_gather_into_tensor_coalesced(self: Sequence[Tensor], group: Where = None, tag: str = "") -> list[Tensor]:
    """Return the tensors of all ranks, joined along the first axis, for each tensor of a list."""
    return [all_gather_tensor(one, 0, group) for one in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Tensor], reduceOp: str, scatter_dim: Sequence[int], group: Where = None, tag: str = ""
) -> list[Tensor]:
    """Return the block of this rank of the reduced tensors, for each tensor of a list."""
    return [reduce_scatter_tensor(one, reduceOp, axis, group) for one, axis in zip(inputs, scatter_dim, strict=True)]


all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
