"""Collectives through which torch computes gradients, with the functions of `torch.distributed.nn.functional`.

They take tensors of torch and return new tensors. The backward pass of a collective is another collective, so all ranks of the
group must run it: each rank must use the result in its loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from kernbench.ccl.dist import collectives
from kernbench.ccl.dist.process_groups import get_rank, get_world_size, group_of
from kernbench.ccl.dist.reductions import RedOpType
from kernbench.ccl.process_groups import ProcessGroup

Tensor = Any  #: a tensor of torch
Group = ProcessGroup | None


@cache
def _function() -> Any:
    import torch

    class Collective(torch.autograd.Function):  # type: ignore[misc,unused-ignore]
        """A collective, and the collective that computes its gradients."""

        @staticmethod
        def forward(ctx: Any, run: Callable[..., Any], back: Callable[..., Sequence[Tensor]], *tensors: Tensor) -> Any:
            ctx.back = back
            return run(*tensors)

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Any:
            return (None, None, *ctx.back(*(one.contiguous() for one in gradients)))

    return Collective


def _apply(run: Callable[..., Any], back: Callable[..., Sequence[Tensor]], *tensors: Tensor) -> Any:
    return _function().apply(run, back, *tensors)


def all_reduce(tensor: Tensor, op: Any = RedOpType.SUM, group: Group = None) -> Tensor:
    """Return the reduced tensors of all ranks. The gradient is reduced in the same way."""

    def run(x: Tensor) -> Tensor:
        out = x.clone()
        collectives.all_reduce(out, op, group)
        return out

    return _apply(run, lambda gradient: (all_reduce(gradient, op, group),), tensor)


def broadcast(tensor: Tensor, src: int, group: Group = None) -> Tensor:
    """Return the tensor of rank `src`. Its gradient is the sum of the gradients of all ranks; other ranks get zeros."""

    def run(x: Tensor) -> Tensor:
        out = x.clone()
        collectives.broadcast(out, src, group)
        return out

    def back(gradient: Tensor) -> Sequence[Tensor]:
        found = reduce(gradient, src, RedOpType.SUM, group)
        return (found if get_rank() == src else found.new_zeros(found.shape),)

    return _apply(run, back, tensor)


def reduce(tensor: Tensor, dst: int, op: Any = RedOpType.SUM, group: Group = None) -> Tensor:
    """Return the reduced tensors of all ranks on rank `dst`. Each rank gets the gradient of rank `dst`."""

    def run(x: Tensor) -> Tensor:
        out = x.clone()
        collectives.reduce(out, dst, op, group)
        return out

    return _apply(run, lambda gradient: (broadcast(gradient, dst, group),), tensor)


def all_gather(tensor: Tensor, group: Group = None) -> tuple[Tensor, ...]:
    """Return the tensors of all ranks. The gradient of a tensor is the sum of its gradients on all ranks."""

    def run(x: Tensor) -> tuple[Tensor, ...]:
        outs = tuple(x.new_empty(x.shape) for _ in range(get_world_size(group)))
        collectives.all_gather(outs, x.contiguous(), group)
        return outs

    def back(*gradients: Tensor) -> Sequence[Tensor]:
        return (reduce_scatter(tensor.new_empty(tensor.shape), gradients, RedOpType.SUM, group),)

    found: tuple[Tensor, ...] = _apply(run, back, tensor)
    return found


def reduce_scatter(output: Tensor, input_list: Sequence[Tensor], op: Any = RedOpType.SUM, group: Group = None) -> Tensor:
    """Return the block of this rank of the reduced inputs, in `output`. The gradients are those of all ranks."""

    def run(*inputs: Tensor) -> Tensor:
        collectives.reduce_scatter(output, [one.contiguous() for one in inputs], op, group)
        return output

    return _apply(run, lambda gradient: all_gather(gradient, group), *input_list)


def gather(tensor: Tensor, dst: int = 0, group: Group = None) -> tuple[Tensor, ...]:
    """Return the tensors of all ranks on rank `dst`, and zeros on the other ranks."""

    def run(x: Tensor) -> tuple[Tensor, ...]:
        outs = tuple(x.new_zeros(x.shape) for _ in range(get_world_size(group)))
        collectives.gather(x.contiguous(), outs if get_rank() == dst else None, dst, group)
        return outs

    found: tuple[Tensor, ...] = _apply(run, lambda *gradients: (scatter(gradients, dst, group),), tensor)
    return found


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Group = None) -> Tensor:
    """Return the tensor of this rank from the list of rank `src`. The lists of other ranks must have the same shapes."""

    def run(*given: Tensor) -> Tensor:
        members = group_of("scatter", group)
        out = given[members.rank_of(get_rank())].clone()
        collectives.scatter(out, [one.contiguous() for one in given] if get_rank() == src else None, src, group)
        return out

    def back(gradient: Tensor) -> Sequence[Tensor]:
        found = gather(gradient, src, group)
        return found if get_rank() == src else tuple(one.new_zeros(one.shape) for one in tensors)

    return _apply(run, back, *tensors)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Group = None
) -> tuple[Tensor, ...]:
    """Send one tensor to each rank, and return the tensors that this rank receives. Gradients travel back to the senders."""
    shapes = [one.shape for one in input_tensor_list]

    def run(*inputs: Tensor) -> tuple[Tensor, ...]:
        collectives.all_to_all(output_tensor_list, [one.contiguous() for one in inputs], group)
        return tuple(output_tensor_list)

    def back(*gradients: Tensor) -> Sequence[Tensor]:
        return all_to_all([gradients[0].new_empty(shape) for shape in shapes], gradients, group)

    found: tuple[Tensor, ...] = _apply(run, back, *input_tensor_list)
    return found


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
) -> Tensor:
    """Send rows of `input` to each rank, and return the received rows in `output`. Gradients travel back to the senders."""

    def run(x: Tensor) -> Tensor:
        collectives.all_to_all_single(output, x.contiguous(), output_split_sizes, input_split_sizes, group)
        return output

    def back(gradient: Tensor) -> Sequence[Tensor]:
        room = gradient.new_empty(input.shape)
        return (all_to_all_single(room, gradient, input_split_sizes, output_split_sizes, group),)

    return _apply(run, back, input)
