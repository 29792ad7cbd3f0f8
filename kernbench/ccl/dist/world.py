"""The state of one `spawn`: the machine, the tensors in the memories of ranks, and the calls that wait for other ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from kernbench.ccl.call import Call, check_channels
from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.communicators import Communicators
from kernbench.ccl.contract import Algorithm, switch_queues
from kernbench.ccl.dist.errors import ArgumentError, DistError
from kernbench.ccl.group import Group, group_of, shape_for
from kernbench.ccl.measure import queues_of
from kernbench.ccl.process_groups import ProcessGroup, on_machine, rooted
from kernbench.ccl.registry import Entry, read_registry
from kernbench.ccl.streams import Operation, Streams, Transfer
from kernbench.ccl.tuner import SIMPLE, tuner_of
from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.errors import Problem
from kernbench.config.allowed_code import AllowCode
from kernbench.runtime_api import Context
from kernbench.runtime_api.tensors import DeviceTensor


@dataclass(frozen=True, eq=False)
class LocalTensor:
    """A tensor in the memory of one rank."""

    whole: DeviceTensor
    world: World
    rank: int
    shape: tuple[int, ...]
    offset: int = 0  #: [element] of a block of the tensor

    @property
    def dtype(self) -> str:
        return self.whole.dtype

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return prod(self.shape)

    def numel(self) -> int:
        """Return the number of elements."""
        return self.size

    @property
    def address(self) -> int:
        """The address of the first element, for kernels."""
        return int(self.whole.virtual) + self.offset * (dtype_of(self.dtype).bits // 8)

    @property
    def pointer(self) -> Any:
        """The pointer that a kernel gets."""
        return self.whole.pointer(0, "")


@dataclass(frozen=True, eq=False)
class Wait:
    """A rank waits for an operation."""

    operation: Operation


@dataclass(frozen=True, eq=False)
class Read:
    """A rank reads a tensor."""

    tensor: LocalTensor


@dataclass(frozen=True, eq=False)
class Do:
    """A rank makes a call that concerns no other rank."""

    act: Callable[[World], Any]


@dataclass(frozen=True, eq=False)
class Poll:
    """A rank asks whether an operation was launched."""

    operation: Operation


@dataclass(frozen=True, eq=False)
class Until:
    """A rank waits until something that other ranks do."""

    met: Callable[[], bool]
    name: str  #: of what it waits for


ANY = -1  #: the peer of a receive from any rank


@dataclass(frozen=True, eq=False)
class Post:
    """A rank makes a call that concerns other ranks."""

    name: str
    group: ProcessGroup
    form: tuple[Any, ...]  #: arguments that must be the same on all ranks: root, reduction, type, sizes
    given: Any
    asynchronous: bool = False
    peer: int | None = None  #: of a send or receive; ANY for a receive from any rank
    tag: int = 0


class World:
    """All ranks of one `spawn`: the machine, and the calls that wait for other ranks."""

    def __init__(
        self,
        ctx: Context,
        ranks: int,
        algorithms: dict[str, str],
        files: Sequence[str | Path] = (),
        allow_code: AllowCode = (),
        channels: int = 0,
    ) -> None:
        if type(ranks) is not int or ranks < 1:
            raise ArgumentError(Problem("dist.spawn", "it must be an integer of at least 1", "ranks", ranks))
        self.ctx, self._algorithms = ctx, algorithms
        check_channels(ctx.config, channels)
        self._channels = channels
        self.registry = read_registry(*map(Path, files), allow_code=allow_code)
        for collective, name in algorithms.items():
            self.registry.find(collective, name)
        self._loaded: dict[str, Algorithm] = {}  # by full name: a file runs once, however often it is called
        self.group = group_of(ctx.config, shape_for(ctx.config, ranks))
        self.ranks = ProcessGroup(tuple(range(ranks)))
        self._groups: dict[ProcessGroup, Group] = {self.ranks: self.group}
        self._communicators = Communicators(ctx, ctx.config, self.group.pes, self.registry.tier)  # type: ignore[arg-type]
        self.streams = Streams(ctx, self._communicators, self.group.pes)
        self._open: dict[tuple[ProcessGroup, int], Operation] = {}  # collectives that not all ranks have called
        self._count: dict[tuple[ProcessGroup, int], int] = {}  # by group and rank: its collectives so far
        self._pairs: list[tuple[Operation, Post, int]] = []  # sends, and receives, without the other; of which rank
        self.stores: dict[tuple[str, ...], dict[str, bytes]] = {}  # by kind and place

    def tensor(self, rank: int, values: Any, empty: bool = False) -> LocalTensor:
        """Make a tensor with these elements in the memory of a rank. `empty` says whether it may have no elements."""
        given = np.asarray(values)
        if not given.size and empty:
            return replace(self.empty(rank, 1, dtype_of(given.dtype).name), shape=given.shape)
        if not given.size:
            raise ArgumentError(Problem("dist.from_numpy", f"an array of shape {given.shape} has no elements"))
        whole = self.ctx.from_numpy(given.reshape(-1), name=self._tensor_name(), pe=self.group.pes[rank])
        self.ctx.deploy_tensor(whole)
        return LocalTensor(whole, self, rank, given.shape)

    def empty(self, rank: int, count: int, dtype: str) -> LocalTensor:
        """Reserve memory of a rank for elements."""
        memory = self.ctx.empty((max(1, count),), dtype, name=self._tensor_name(), pe=self.group.pes[rank])
        return LocalTensor(memory, self, rank, (count,))

    def _tensor_name(self) -> str:
        return f"dist{len(self.ctx.tensors)}"

    def post(self, rank: int, call: Post) -> Operation:
        """Handle the call of a collective, a send or a receive by a rank. Raises InputError if the calls of the ranks do not
        match.
        """
        if call.peer is not None:
            return self._post_pair(rank, call, call.peer)
        number = self._count.get((call.group, rank), 0)
        self._count[call.group, rank] = number + 1
        operation = self._open.get((call.group, number))
        if operation is None:
            operation = Operation(call.name, call.group.ranks)
            self._open[call.group, number] = operation
        operation.called[rank] = call
        operation.asynchronous = operation.asynchronous or call.asynchronous
        self.streams.add(operation, rank)
        if operation.matched:
            del self._open[call.group, number]
            self._check_alike(operation)
            self._prepare(operation, call)
            self.streams.match(operation)
        return operation

    def _post_pair(self, rank: int, call: Post, peer: int) -> Operation:
        """Handle a send or a receive. The call matches the oldest fitting call of the other side."""
        for at, (operation, before, other) in enumerate(self._pairs):
            sends, receives = ((rank, call), (other, before)) if call.name == "send" else ((other, before), (rank, call))
            same = before.name != call.name and (before.group, before.tag) == (call.group, call.tag)
            if same and sends[1].peer == receives[0] and receives[1].peer in (sends[0], ANY):
                del self._pairs[at]
                return self._pair(operation, call, rank, (sends[0], receives[0]), sends[1].given, receives[1].given)
        operation = Operation(call.name, (rank, peer), called={rank: call}, asynchronous=call.asynchronous)
        self._pairs.append((operation, call, rank))
        self.streams.add(operation, rank)
        return operation

    def _pair(
        self, operation: Operation, call: Post, rank: int, ways: tuple[int, int], x: LocalTensor, out: LocalTensor
    ) -> Operation:
        """Complete the operation of a send or a receive with the call of the other rank."""
        source, target = ways
        if (x.size, x.dtype) != (out.size, out.dtype):
            rule = f"rank {source} sends {x.size} {x.dtype}, and rank {target} receives {out.size} {out.dtype}"
            raise DistError(Problem("dist.send", rule))
        operation.called[rank] = call
        operation.ranks = (source, target)
        operation.asynchronous = operation.asynchronous and call.asynchronous
        operation.launches = x.size > 0
        if operation.launches:
            operation.transfers = [Transfer(source, target, x.address, out.address, x.size, x.dtype)]
        self.streams.add(operation, rank)
        self.streams.match(operation)
        return operation

    def _check_alike(self, operation: Operation) -> None:
        """Raise InputError if the ranks make different calls, or pass tensors that do not match."""
        calls = [operation.called[rank] for rank in operation.ranks]
        if len({one.name for one in calls}) > 1:
            self.refuse({rank: one.name for rank, one in operation.called.items()}, operation.ranks)
        if len({one.form for one in calls}) > 1:
            first = next(k for k, one in enumerate(calls) if one.form != calls[0].form)
            a, b = (f"rank {operation.ranks[k]} passes {_shown(calls[k].form)}" for k in (0, first))
            rule = f"every rank must pass the same root and reduction, and tensors of the same type and size; {a}, and {b}"
            raise DistError(Problem(f"dist.{operation.name}", rule))

    def refuse(self, called: dict[int, str], ranks: Sequence[int]) -> NoReturn:
        """Raise an error: the calls of the ranks do not match, so no rank can continue."""
        said = ", ".join(f"rank {rank} {called.get(rank, 'has ended')}" for rank in ranks)
        remedy = "a send waits for its recv: let one side receive first" if "send" in called.values() else ""
        raise DistError(Problem("dist", f"the calls of ranks do not match: {said}", remedy=remedy))

    def _prepare(self, operation: Operation, call: Post) -> None:
        """Choose the algorithm and the queues of a collective."""
        if call.name == "exchange":
            operation.transfers = [one for rank in operation.ranks for one in self._transfers(operation, rank)]
            operation.launches = bool(operation.transfers)
            return
        root, reduction, dtype, count = call.form[:4]
        if not count:  # tensors without elements: ranks wait for each other, and no message is sent
            operation.launches = False
            return
        collective, ranks = COLLECTIVES[call.name], operation.ranks
        group = self._groups.setdefault(call.group, on_machine(self.group, call.group.ranks))
        at = 0 if root is None else call.group.rank_of(root)
        group = rooted(group, at)
        order = (*ranks[at:], *ranks[:at])
        entry, protocol = self._entry(call.name, group, count, dtype)
        group = entry.seen(group)
        queues = queues_of(self.registry, entry, config=self.ctx.config, group=group, shares=True)  # type: ignore[arg-type]
        assert queues.slots is not None and queues.slot_bytes is not None
        if entry.full_name not in self._loaded:
            self._loaded[entry.full_name] = entry.load()
        algorithm = self._loaded[entry.full_name]
        operation.call = Call(
            entry.full_name, algorithm, group, count, dtype, queues.slot_bytes, reduction=reduction, collective=collective,
            channels=self._channels,
        )  # fmt: skip
        table = algorithm.neighbours(group.kind, group.shape)
        sizes = (queues.slots, queues.slot_bytes, protocol)
        switched = switch_queues(algorithm, group.kind, group.shape, reduction.op)
        name = f"{entry.full_name} {group.kind}" + (f" {reduction.op}" if switched else "")
        operation.communicator = self._communicators.find(order, name, table, *sizes, switched)
        pointers: dict[int, tuple[int, int, int | None]] = {}
        for rank in ranks:
            x, out, _, _ = operation.called[rank].given
            scratch = None
            if reduction.factor is not None:
                scratch = self.empty(rank, x.size, dtype).address
            pointers[rank] = (x.address, out.address, scratch) if x is not None else (0, 0, None)
        operation.pointers = pointers
        operation.before = {rank: operation.called[rank].given[2] for rank in ranks}
        operation.after = {rank: operation.called[rank].given[3] for rank in ranks}

    def _entry(self, name: str, group: Group, count: int, dtype: str) -> tuple[Entry, str]:
        """Return the algorithm of a collective, and its protocol."""
        entry = self.registry.find(name, self._algorithms.get(name))
        tuner = tuner_of(self.ctx.config, group, self.registry, shares=True)  # type: ignore[arg-type]  # a system, as it has queues
        if entry.registry is not None:
            choice = tuner.choose(name, count, dtype, self._channels)
            entry, protocol = self.registry.find(name, choice.name), choice.protocol
        else:
            protocol = tuner.protocol(entry, count, dtype, self._channels) if len(tuner.protocols) > 1 else SIMPLE
        if rule := entry.unfit(self.ctx.config, group):  # type: ignore[arg-type]
            raise DistError(Problem(f"dist.{name}", rule))
        return entry, protocol

    @staticmethod
    def _transfers(operation: Operation, rank: int) -> Iterable[Transfer]:
        """Return what a rank sends in an all-to-all with tensors of any size. Raises InputError if a receiver expects another
        size.
        """
        for at, peer in enumerate(operation.ranks):
            x = operation.called[rank].given[0][at]
            out = operation.called[peer].given[1][operation.ranks.index(rank)]
            if (x.size, x.dtype) != (out.size, out.dtype):
                rule = f"rank {rank} sends {x.size} {x.dtype} to rank {peer}, which expects {out.size} {out.dtype}"
                raise DistError(Problem("dist.all_to_all", rule))
            if x.size:
                yield Transfer(rank, peer, x.address, out.address, x.size, x.dtype)


def _shown(form: tuple[Any, ...]) -> str:
    root, reduction, dtype, count = form[:4]
    parts = [f"{count:,} elements of {dtype}", reduction.name, "" if root is None else f"root {root}"]
    return ", ".join(part for part in parts if part)


def read(world: World, tensor: LocalTensor) -> Array:
    if not tensor.size:
        return np.empty(tensor.shape, dtype_of(tensor.dtype).numpy)
    return world.ctx.to_numpy(tensor.whole).reshape(-1)[tensor.offset :][: tensor.size].reshape(tensor.shape)
