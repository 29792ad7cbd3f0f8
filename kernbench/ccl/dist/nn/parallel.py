"""`DistributedDataParallel`, as in `torch.nn.parallel`: a module whose gradients are averaged over the ranks of a group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch  # type: ignore[import-not-found,unused-ignore]

from kernbench.ccl.dist import collectives
from kernbench.ccl.dist.errors import ArgumentError
from kernbench.ccl.dist.process_groups import group_of
from kernbench.ccl.dist.work import Work
from kernbench.ccl.process_groups import ProcessGroup
from kernbench.common.errors import Problem

MIB = 1 << 20
#: The bytes with which a bucket of gradients is full: the first one, and the others, unless `bucket_cap_mb` is given. And most
#: bytes of a broadcast of several parameters. All are torch's.
FIRST_BYTES, BUCKET_BYTES, STATE_BYTES = MIB, 25 * MIB, 250 * MIB
WHERE = "dist.nn.parallel.DistributedDataParallel"
Tensor = Any  #: a tensor of torch


class DistributedDataParallel(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """A module of which each rank has a copy. The backward pass averages the gradients of all ranks.

    The host computes the module in no simulated time. The collectives take simulated time, and they are torch's: rank 0
    broadcasts parameters and buffers when the module is wrapped, and buffers again before each forward pass. Each backward
    pass has an all-reduce for each bucket of gradients, as soon as all gradients of the bucket are known. The first pass has
    one bucket for each type. Then rank 0 broadcasts the order in which it got the gradients, and the buckets follow this order.

    Parameters
    ----------
    module
        The module, whose parameters and buffers are on the CPU.
    device_ids, output_device
        None: each rank has one device.
    broadcast_buffers
        Whether rank 0 broadcasts buffers before forward passes.
    init_sync
        Whether rank 0 broadcasts parameters and buffers now.
    process_group
        The ranks; None means all workers.
    bucket_cap_mb
        The size with which a bucket is full [MiB]; None means 25, and 1 for the first bucket.
    find_unused_parameters, static_graph
        Whether a backward pass may leave out parameters.
    gradient_as_bucket_view
        Accepted. It saves memory of torch's process, and has no effect here.
    refused
        Other arguments of torch, which are refused unless they have torch's default.

    Raises
    ------
    InputError
        If no parameter has a gradient, for parameters that are not on the CPU, and for the arguments that are refused. The
        forward pass raises it if the backward pass before left out a parameter.

    Example
    -------
    >>> model = dist.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    >>> model(torch.ones(3, 4)).sum().backward()
    """

    def __init__(
        self,
        module: Any,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        **refused: Any,
    ) -> None:
        super().__init__()
        self.process_group = group_of(WHERE, process_group)
        self.module, self.broadcast_buffers = module, broadcast_buffers
        self.require_backward_grad_sync = self._sends_buffers = True
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [(name, one) for name, one in module.named_parameters() if name not in ignored]
        self._buffers_sent = [one for name, one in module.named_buffers() if name not in ignored]
        self._named = [(name, one) for name, one in named if one.requires_grad]
        self._check(device_ids, dim, [one for _, one in named], refused)
        limits = (FIRST_BYTES, BUCKET_BYTES) if bucket_cap_mb is None else (int(bucket_cap_mb * MIB),) * 2
        self._reducer = _Reducer(self._named, self.process_group, limits, find_unused_parameters or static_graph)
        if init_sync:
            _broadcast([one.detach() for _, one in named] + self._buffers_sent, self.process_group)

    def _check(self, device_ids: Any, dim: int, parameters: Sequence[Tensor], refused: dict[str, Any]) -> None:
        """Raise InputError for what does not run here."""
        if not self._named:
            rule = "none of the parameters of the module has a gradient (requires_grad)"
            raise ArgumentError(Problem(WHERE, rule, remedy="take the module as it is"))
        if device_ids or dim != 0 or any(one.device.type != "cpu" for one in (*parameters, *self._buffers_sent)):
            rule = "a rank computes on the CPU of the host"
            raise ArgumentError(Problem(WHERE, rule, "device_ids", str(device_ids), "leave out device_ids and .cuda()"))
        for name, value in refused.items():
            if value:
                rule = "it is not modelled: gradients are averaged by an all-reduce in their own type"
                raise ArgumentError(Problem(WHERE, rule, name, str(value), "leave it out"))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Compute the module."""
        synchronises = torch.is_grad_enabled() and self.require_backward_grad_sync
        if synchronises:
            self._reducer.prepare()
        if self._sends_buffers and self.broadcast_buffers:
            _broadcast(self._buffers_sent, self.process_group)
        found = self.module(*inputs, **kwargs)
        self._sends_buffers = synchronises
        return found

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Leave out the all-reduces of passes whose forward pass is in the `with` block. Gradients add up on each rank."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Refused: gradients are averaged by an all-reduce in their own type."""
        rule = "hooks that replace the all-reduce of gradients are not modelled"
        remedy = "wrap the backward pass in no_sync(), and call the collectives of dist on the gradients afterwards"
        raise ArgumentError(Problem(f"{WHERE}.register_comm_hook", rule, remedy=remedy))

    def join(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: all ranks must have the same number of passes."""
        rule = "ranks with different numbers of inputs are not modelled"
        raise ArgumentError(Problem(f"{WHERE}.join", rule, remedy="give each rank the same number of inputs"))


class _Reducer:
    """The buckets of gradients, and the all-reduces of the current backward pass."""

    def __init__(
        self, named: Sequence[tuple[str, Tensor]], group: ProcessGroup, limits: tuple[int, int], may_miss: bool
    ) -> None:
        self.names, self.parameters = [name for name, _ in named], [one for _, one in named]
        self.group, self.limits, self.may_miss = group, limits, may_miss
        limits = self.limits if may_miss else (sum(map(_bytes, self.parameters)) + 1,) * 2
        self.buckets = sorted(self.cut(range(len(self.parameters)), limits), key=min, reverse=True)
        self.ordered = may_miss  #: whether the buckets are final
        self.expects = False  #: whether hooks belong to a pass whose gradients are averaged
        self.arrived: dict[int, None] = {}  #: the parameters whose gradients are known, in order
        self.works: list[tuple[Sequence[int], Tensor, Work | None]] = []
        for number, one in enumerate(self.parameters):
            one.register_post_accumulate_grad_hook(lambda _, number=number: self.got(number))

    def cut(self, order: Sequence[int], limits: tuple[int, int]) -> list[list[int]]:
        """Return buckets of parameters of one type, each full as soon as it has the bytes of its limit."""
        found: list[list[int]] = []
        open_ones: dict[Any, list[int]] = {}
        limit: dict[Any, int] = {}
        for number in order:
            kind = self.parameters[number].dtype
            bucket = open_ones.setdefault(kind, [])
            bucket.append(number)
            if sum(_bytes(self.parameters[one]) for one in bucket) >= limit.get(kind, limits[0]):
                found.append(open_ones.pop(kind))
                limit[kind] = limits[1]
        return [*found, *open_ones.values()]

    def prepare(self) -> None:
        """Begin a forward pass. Raises InputError if the backward pass before did not give all gradients."""
        missing = [name for number, name in enumerate(self.names) if number not in self.arrived]
        if self.expects and self.arrived and missing:
            rule = f"the backward pass before gave no gradients for {', '.join(missing[:4])}{', ...' if missing[4:] else ''}"
            remedy = "use all parameters in the loss, or set find_unused_parameters=True"
            raise ArgumentError(Problem(WHERE, rule, remedy=remedy))
        if not self.ordered and len(self.arrived) == len(self.parameters):
            self._order()
        self.expects, self.arrived, self.works = True, {}, []

    def _order(self) -> None:
        """Make the buckets again, in the order in which rank 0 got its gradients."""
        order = torch.tensor(list(self.arrived), dtype=torch.int32)
        collectives.broadcast(order, group=self.group, group_src=0)
        self.buckets, self.ordered = self.cut(order.tolist(), self.limits), True

    def got(self, number: int) -> None:
        """Note a gradient, and start the all-reduces of buckets whose gradients are all known."""
        if not self.expects:
            return
        if not self.arrived:
            torch.autograd.Variable._execution_engine.queue_callback(self.end)
        self.arrived[number] = None
        self._start(self.arrived)

    def _start(self, known: Any) -> None:
        """Start the next all-reduces in order. All ranks have the same order."""
        while len(self.works) < len(self.buckets) and all(one in known for one in self.buckets[len(self.works)]):
            bucket = self.buckets[len(self.works)]
            parts = [self.parameters[one] for one in bucket]
            flat = torch.cat([(torch.zeros_like(one) if one.grad is None else one.grad).detach().flatten() for one in parts])
            flat /= self.group.size()
            self.works.append((bucket, flat, collectives.all_reduce(flat, group=self.group, async_op=True)))

    def end(self) -> None:
        """Wait for all all-reduces at the end of a backward pass, and write the gradients."""
        used = torch.ones(len(self.parameters), dtype=torch.int32)
        if self.may_miss:
            used = torch.tensor([int(one in self.arrived) for one in range(len(self.parameters))], dtype=torch.int32)
            self._start(range(len(self.parameters)))
            collectives.all_reduce(used, group=self.group)
        if len(self.works) < len(self.buckets):
            return  # the next forward pass tells which gradients are missing
        self.expects = False
        for bucket, flat, work in self.works:
            assert work is not None
            work.wait()
            for number, part in zip(bucket, flat.split([self.parameters[one].numel() for one in bucket]), strict=True):
                one = self.parameters[number]
                if used[number]:
                    one.grad = part.view(one.shape).clone() if one.grad is None else one.grad.copy_(part.view(one.shape))


def _bytes(tensor: Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def _broadcast(tensors: Sequence[Tensor], group: ProcessGroup) -> None:
    """Copy the tensors of the group's first rank to all ranks, many in one message."""
    by_type: dict[Any, list[list[Tensor]]] = {}
    for one in tensors:
        some = by_type.setdefault(one.dtype, [[]])
        if some[-1] and sum(map(_bytes, some[-1])) + _bytes(one) > STATE_BYTES:
            some.append([])
        some[-1].append(one)
    for message in (some for row in by_type.values() for some in row):
        flat = torch.cat([one.flatten() for one in message])
        collectives.broadcast(flat, group=group, group_src=0)
        for one, part in zip(message, flat.split([one.numel() for one in message]), strict=True):
            one.copy_(part.view(one.shape))
