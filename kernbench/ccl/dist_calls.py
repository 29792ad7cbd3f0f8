"""What workers of `dist` call together, as launches on the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kernbench.ccl.call import Call, Launcher, Queues
from kernbench.ccl.collectives import CCL_DTYPES, COLLECTIVES
from kernbench.ccl.contract import Algorithm, Shape
from kernbench.ccl.group import Group, group_of, shape_for
from kernbench.ccl.measure import queues_of
from kernbench.ccl.registry import read_registry
from kernbench.ccl.rings import RING
from kernbench.common.dtypes import dtype_of
from kernbench.common.errors import InputError, Problem
from kernbench.config.allowed_code import AllowCode
from kernbench.runtime_api import Context, DPPolicy
from kernbench.runtime_api.tensors import DeviceTensor

PAIR = ("send", "recv")


@dataclass(frozen=True, eq=False)
class ShardOf:
    """A rank's part of a tensor that all ranks made together."""

    whole: DeviceTensor
    group: Group  #: that made it
    rank: int
    shape: tuple[int, ...]

    @property
    def row(self) -> int:
        """Its part of the whole."""
        return self.group.rows[self.rank]

    @property
    def dtype(self) -> str:
        return self.whole.dtype

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))


@dataclass(frozen=True, eq=False)
class Request:
    """What one rank calls."""

    name: str
    tensors: tuple[ShardOf, ...]
    peer: int | None  #: root, or the other rank of a pair
    value: Any


class Calls:
    """Answers what ranks ask for, when all that it takes have asked."""

    def __init__(
        self,
        ctx: Context,
        ranks: int,
        algorithms: dict[str, str],
        files: Sequence[str | Path] = (),
        allow_code: AllowCode = (),
    ) -> None:
        config = ctx.config
        if type(ranks) is not int or ranks < 1:
            raise InputError(Problem("dist.spawn", "it must be an integer of at least 1", "ranks", ranks))
        self._ctx, self._algorithms = ctx, algorithms
        self._registry = read_registry(*map(Path, files), allow_code=allow_code)
        for collective, name in algorithms.items():
            self._registry.find(collective, name)
        self._loaded: dict[str, Algorithm] = {}  # by full name: a file runs once, however often it is called
        self._group = group_of(config, shape_for(config, ranks))
        self._launchers: dict[Queues, Launcher] = {}

    def answer(self, wanted: dict[int, Request]) -> dict[int, Any]:
        """By rank what its call came to: of pairs that send and receive, else of all ranks. InputError where none fit."""
        for rank, one in wanted.items():
            if one.name == "send" and one.peer in wanted:
                other = wanted[one.peer]
                if other.name == "recv" and other.peer == rank:
                    self._pair(rank, one, one.peer, other)
                    return {rank: None, one.peer: None}
        names = {rank: one.name for rank, one in wanted.items()}
        if len(wanted) < self._group.size or len(set(names.values())) > 1 or set(PAIR) & set(names.values()):
            called = ", ".join(f"rank {rank} {names.get(rank, 'has ended')}" for rank in range(self._group.size))
            remedy = "a send waits for its recv: let one side receive first" if "send" in names.values() else ""
            raise InputError(Problem("dist", f"ranks call what does not fit together: {called}", remedy=remedy))
        return self._together(next(iter(names.values())), wanted)

    def _together(self, name: str, wanted: dict[int, Request]) -> dict[int, Any]:
        self._check_tensors(name, wanted)
        if name == "from_numpy":
            return self._made([np.asarray(wanted[rank].value) for rank in sorted(wanted)])
        if name == "to_numpy":
            wholes = {id(one.tensors[0].whole): one.tensors[0].whole for one in wanted.values()}
            arrays = {key: self._ctx.to_numpy(whole) for key, whole in wholes.items()}
            return {
                rank: arrays[id(one.tensors[0].whole)][one.tensors[0].row].reshape(one.tensors[0].shape)
                for rank, one in wanted.items()
            }
        self._collective(name, wanted)
        return dict.fromkeys(wanted)

    def _made(self, values: list[Any]) -> dict[int, ShardOf]:
        first = values[0]
        if any(one.shape != first.shape or one.dtype != first.dtype for one in values):
            raise InputError(Problem("dist.from_numpy", "every rank's array must have the same shape and type"))
        if not first.size:
            raise InputError(Problem("dist.from_numpy", f"an array of shape {first.shape} has no elements"))
        group, shape = self._group, self._group.shape
        rows = np.empty((group.size, first.size), first.dtype)
        for row, one in zip(group.rows, values, strict=True):
            rows[row] = one.reshape(-1)
        name = f"dist{len(self._ctx.tensors)}"
        whole = self._ctx.from_numpy(rows, name=name, placement=DPPolicy("row_wise", "row_wise", "row_wise", *shape))
        return {rank: ShardOf(whole, group, rank, first.shape) for rank in range(group.size)}

    def _collective(self, name: str, wanted: dict[int, Request]) -> None:
        """One launch. InputError where ranks' tensors or roots differ, or sizes do not fit."""
        forms = {(one.peer, tuple((id(t.whole), t.dtype, t.size) for t in one.tensors)) for one in wanted.values()}
        if len(forms) > 1:
            rule = "every rank must give the tensors that were made together, and the same root"
            raise InputError(Problem(f"dist.{name}", rule))
        one, collective, ranks = wanted[0], COLLECTIVES[name], self._group.size
        count = 1
        if collective.moves:
            x, out = one.tensors
            count = x.size // ranks if collective.blocks_in else x.size
            if x.dtype != out.dtype:
                rule = f"tensors of {x.dtype} and {out.dtype} are given, and both must have one type"
                raise InputError(Problem(f"dist.{name}", rule))
            if (x.size, out.size) != (collective.has(count, ranks), collective.gets(count, ranks)):
                rule = f"tensors of {x.size} and {out.size} elements do not fit for {ranks} ranks"
                raise InputError(Problem(f"dist.{name}", rule))
        entry = self._registry.find(name, self._algorithms.get(name))
        group = self._group if not one.peer else _rooted(self._group, one.peer)
        if group.kind_name not in entry.topologies:
            rule = f"{entry.full_name} is for {', '.join(entry.topologies)}, and the group is a {group.kind_name}"
            raise InputError(Problem(f"dist.{name}", rule))
        queues = queues_of(self._registry, entry)
        assert queues.slot_bytes is not None
        dtype = one.tensors[0].dtype if one.tensors else "i32"
        if entry.full_name not in self._loaded:
            self._loaded[entry.full_name] = entry.load()
        algorithm = self._loaded[entry.full_name]
        call = Call(entry.full_name, algorithm, group, count, dtype, queues.slot_bytes)
        tensors: list[Any] = [tensor.whole for tensor in one.tensors] or [0, 0]
        self._launch(queues)(call, *tensors)

    def _launch(self, queues: Queues) -> Launcher:
        """What launches with these queues; those of others go, so it installs its own again."""
        self._launchers = {queues: self._launchers.get(queues) or Launcher(self._ctx, queues)}
        return self._launchers[queues]

    def _pair(self, source: int, one: Request, target: int, other: Request) -> None:
        """From one rank to another."""
        self._check_tensors("send", {source: one})
        self._check_tensors("recv", {target: other})
        x, out = one.tensors[0], other.tensors[0]
        if (x.size, x.dtype) != (out.size, out.dtype):
            rule = f"rank {source} sends {x.size} {x.dtype}, and rank {target} receives {out.size} {out.dtype}"
            raise InputError(Problem("dist.send", rule))
        self._launchers = {}
        pes = [self._group.pes[rank] for rank in (source, target)]
        self._ctx.install_queues({0: {(0, "E"): (1, "W")}, 1: {(0, "W"): (0, "E")}}, ranks=pes)
        self._ctx.launch("send_recv", moved, x.whole, out.whole, x.size, x.dtype, pes=pes)

    def _check_tensors(self, name: str, wanted: dict[int, Request]) -> None:
        """InputError where a rank gives what is no tensor of its own, or one whose elements cannot be moved or added."""
        for rank, one in wanted.items():
            for tensor in one.tensors:
                if rule := self._not_its_own(rank, tensor):
                    raise InputError(Problem(f"dist.{name}", rule))
                reduces = name in COLLECTIVES and COLLECTIVES[name].reduces
                if name != "to_numpy" and tensor.dtype not in CCL_DTYPES and (reduces or dtype_of(tensor.dtype).bits < 8):
                    rule = f"elements of {tensor.dtype} cannot be {'added' if reduces else 'moved one by one'}"
                    remedy = f"take one of {', '.join(CCL_DTYPES)}"
                    raise InputError(Problem(f"dist.{name}", rule, remedy=remedy))

    def _not_its_own(self, rank: int, tensor: Any) -> str:
        """Why a rank cannot give a tensor; empty where it can. Workers share Python's objects: what one of them puts into a
        place that all know, the next one puts its own over."""
        if not isinstance(tensor, ShardOf):
            return f"it takes tensors that dist.from_numpy made, and rank {rank} gives a {type(tensor).__name__}"
        if tensor.group != self._group:
            return f"rank {rank} gives a tensor of another group, of {tensor.group.size} ranks"
        if tensor.rank != rank:
            return f"rank {rank} gives a tensor of rank {tensor.rank}; each rank keeps and gives its own"
        return ""


def _rooted(group: Group, root: int) -> Group:
    """The same ranks with another as the first."""
    order = [*range(root, group.size), *range(root)]
    pes, rows = tuple(group.pes[rank] for rank in order), tuple(group.rows[rank] for rank in order)
    return replace(group, shape=Shape(1, 1, group.size), kind=RING, pes=pes, rows=rows)


def moved(x: int, out: int, count: int, dtype: str, tl: Any) -> None:
    """Elements of one PE to another, message by message."""
    from kernbench.ccl.contract import cut
    from kernbench.ccl.over_rings import Memory

    memory = Memory(tl, x, out, dtype)
    for first, size in cut((0, count), memory.pieces(count, adds=False)):
        if tl.rank == 0:
            tile = memory.load(first, size)
            tl.wait(tile)
            tl.wait(tl.send("E", tile))
        else:
            memory.put(first, tl.recv("W", (size,), dtype))
