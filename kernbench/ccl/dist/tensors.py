"""Tensors of workers: in the memory of a rank, or on the host in numpy or torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kernbench.ccl.collectives import CCL_DTYPES
from kernbench.ccl.dist.errors import ArgumentError, TensorTypeError
from kernbench.ccl.dist.work import Work
from kernbench.ccl.dist.workers import Worker, ask, joined
from kernbench.ccl.dist.world import Do, LocalTensor, Post, Read
from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.errors import Problem


def from_numpy(values: Any) -> LocalTensor:
    """Copy an array to the memory of this rank, and return the tensor there."""
    me = joined("from_numpy")
    found: LocalTensor = ask(Do(lambda world: world.tensor(me.rank, values)))
    return found


def _copied(me: Worker, values: Array) -> LocalTensor:
    """Copy an array of a tensor of torch, which may have no elements."""
    found: LocalTensor = ask(Do(lambda world: world.tensor(me.rank, values, empty=True)))
    return found


def to_numpy(tensor: LocalTensor) -> Array:
    """Return the elements of a tensor of this rank, after all earlier calls of this rank have ended."""
    me = joined("to_numpy")
    found: Array = ask(Read(own_tensor("to_numpy", me, tensor, False)))
    return found


def launch(kernel: Callable[..., object], *args: Any) -> None:
    """Run `kernel(*args, tl)` on the PE of this rank, after the earlier calls of this rank.

    Calls with `async_op=True` that the rank has not waited for run at the same time as the kernel. A tensor in `args` is
    passed as a pointer.
    """
    me = joined("launch")
    given = tuple(own_tensor("launch", me, one, False).pointer if isinstance(one, LocalTensor) else one for one in args)
    ask(Do(lambda world: world.streams.kernel(me.rank, kernel, given)))


#: Types of torch that numpy does not have: the type of their bits.
_NOT_OF_NUMPY = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


def _is_torch(value: Any) -> bool:
    """Return whether a value is a torch tensor on the host."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "copy_")


def _from_torch(value: Any) -> Array:
    """Return the elements of a torch tensor, without a copy if possible."""
    plain = value.detach()
    name = str(plain.dtype).removeprefix("torch.")
    if name in _NOT_OF_NUMPY:
        import torch  # type: ignore[import-not-found,unused-ignore]

        bits = getattr(torch, _NOT_OF_NUMPY[name])
        return np.asarray(plain.contiguous().view(bits).numpy()).view(dtype_of(name).numpy)
    return np.asarray(plain.numpy())


def _into_torch(value: Any, found: Array) -> None:
    """Write results into a torch tensor in place."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    plain, target = np.asarray(found, order="C"), value.detach()  # a parameter may be written too
    if plain.dtype.name in _NOT_OF_NUMPY:
        bits = torch.from_numpy(plain.view(_NOT_OF_NUMPY[plain.dtype.name]))
        target.copy_(bits.view(getattr(torch, plain.dtype.name)))
    else:
        target.copy_(torch.from_numpy(plain))


class Given:
    """The tensors of one call. Tensors on the host are copied to the memory of the rank, and results are copied back."""

    def __init__(self, name: str, reduces: bool = False, combined: str = "") -> None:
        """`combined`: the name of a function whose calls a coalescing manager combines; other calls are only started."""
        self.name, self.me, self.reduces, self.combined = name, joined(name), reduces, combined
        self.back: list[Callable[[], None]] = []
        self.written: list[Any] = []
        self.flags = False  #: whether elements are truth values, which are reduced as bytes of 0 and 1
        self.complex = False  #: whether elements are complex numbers, which are moved and added as pairs of numbers

    def one(self, tensor: Any, written: bool = False) -> LocalTensor:
        """Return a tensor as a tensor in the memory of the rank. Raises InputError for any other object."""
        if written:
            self.written.append(tensor)
        if _is_torch(tensor):
            values = _from_torch(tensor)
            own, kind = values.dtype, values.dtype
            if own == np.bool_ and self.reduces:
                self.flags, kind = True, np.dtype(np.uint8)
                values = values.astype(kind)
            elif own.kind == "c":
                self.complex, kind = True, np.dtype(f"f{own.itemsize // 2}")
                values = np.ascontiguousarray(values).reshape(*values.shape, 1).view(kind)
            local = _copied(self.me, values)
            if written:
                self.back.append(lambda: _into_torch(tensor, _again(to_numpy(local), own)))
            return own_tensor(self.name, self.me, local, self.reduces)
        return own_tensor(self.name, self.me, tensor, self.reduces)

    def room(self, count: int, dtype: str) -> LocalTensor:
        """Reserve memory of the rank."""
        found: LocalTensor = ask(Do(lambda world: world.empty(self.me.rank, count, dtype)))
        return found

    def call(self, call: Post) -> Work | None:
        """Post the call. Return its handle if it is asynchronous."""
        work = self.work(call)
        return work if call.asynchronous else None

    def work(self, call: Post) -> Work:
        """Post the call.

        A call that is not asynchronous returns when all ranks have made the call, and with its results on the host. In a
        coalescing manager, it returns at once.
        """
        together = self.me.coalesced
        if together is not None and self.combined:
            together.check(self.combined, call.form[1].name if self.reduces else None)
        sent = call if together is None else replace(call, asynchronous=True)
        work = Work(ask(sent), self.back, self.written, call.group, self.me.rank)
        if together is not None:
            together.append(work)
        elif not call.asynchronous and self.back:
            work.wait()
        return work


def _again(values: Array, own: np.dtype[Any]) -> Array:
    """Return elements in the type of the tensor of torch that they came from."""
    if own.kind == "c":
        return values.view(own).reshape(values.shape[:-1])
    return values.astype(own, copy=False)


def own_tensor(name: str, me: Worker, tensor: Any, reduces: bool) -> LocalTensor:
    """Raise InputError if the object is not a tensor of this rank, or if its elements cannot be moved or added.

    Workers share Python objects: if one worker assigns to a shared variable, the next worker overwrites the value.
    """
    rule, remedy = "", ""
    if not isinstance(tensor, LocalTensor):
        rule = f"it takes tensors of torch or of dist.from_numpy, and rank {me.rank} gives a {type(tensor).__name__}"
        raise TensorTypeError(Problem(f"dist.{name}", rule))
    if tensor.world.ctx is not me.world.ctx or tensor.world.group != me.world.group:
        rule = f"rank {me.rank} passes a tensor of another group, of {tensor.world.ranks.size()} ranks"
    elif tensor.rank != me.rank:
        rule = f"rank {me.rank} passes a tensor of rank {tensor.rank}; each rank must pass its own"
    elif name not in ("to_numpy", "launch") and _immovable(tensor.dtype, reduces):
        rule = f"elements of {tensor.dtype} cannot be {'added' if reduces else 'moved one by one'}"
        remedy = f"take one of {', '.join(CCL_DTYPES)}"
    if rule:
        raise ArgumentError(Problem(f"dist.{name}", rule, remedy=remedy))
    assert isinstance(tensor, LocalTensor)
    return tensor


def _immovable(dtype: str, reduces: bool) -> bool:
    return dtype not in CCL_DTYPES and (reduces or dtype_of(dtype).bits < 8)
