"""`triton.experimental.gluon.language`: the names that Gluon shares with `triton.language`, layouts and shared memory.

All other names raise an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import kernbench.triton.language as tl
from kernbench.triton.dtypes import refuse, refuse_name
from kernbench.triton.experimental.gluon.language import nvidia
from kernbench.triton.experimental.gluon.layouts import (
    AutoLayout,
    BlockedLayout,
    CoalescedLayout,
    DistributedLayout,
    DistributedLinearLayout,
    NVMMASharedLayout,
    SliceLayout,
    SwizzledSharedLayout,
    check_layout,
)
from kernbench.triton.experimental.gluon.shared import allocate_shared_memory, shared_memory_descriptor
from kernbench.triton.tensor import as_tensor, tensor


def arange(start: Any, end: Any, layout: Any = None) -> tensor:
    """Return the integers from `start` to `end - 1` as a tensor."""
    check_layout("gl.arange", layout, DistributedLayout, 1)
    return tl.arange(start, end)


def full(shape: Sequence[Any], value: Any, dtype: Any, layout: Any = None) -> tensor:
    """Return a tensor whose elements all have one value."""
    check_layout("gl.full", layout, DistributedLayout, len(shape))
    return tl.full(shape, value, dtype)


def zeros(shape: Sequence[Any], dtype: Any, layout: Any = None) -> tensor:
    """Return a tensor of zeros."""
    return full(shape, 0, dtype, layout)


def convert_layout(value: Any, layout: Any, assert_trivial: bool = False) -> tensor:
    """Return the tensor itself, in no time: registers are not modelled."""
    found = as_tensor(value)
    check_layout("gl.convert_layout", layout, DistributedLayout, len(found.shape))
    return found


set_auto_layout = convert_layout


def to_tensor(x: Any) -> tensor:
    """Return a number as a tensor without axes; return a tensor unchanged."""
    return as_tensor(x)


def barrier(cluster: bool = False) -> None:
    """Do nothing: a program has no threads that could be at different places."""
    if cluster:
        refuse("gl.barrier(cluster=True): there are no clusters of programs; use atomic ops")


_OF_GPUS = "it belongs to the warps and memories of one kind of GPU; use the ops of triton.language"


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    found = getattr(tl, name, None)
    return refuse_name(f"gl.{name} is not supported: {_OF_GPUS}") if found is None else found


__all__ = [
    "AutoLayout",
    "BlockedLayout",
    "CoalescedLayout",
    "DistributedLinearLayout",
    "NVMMASharedLayout",
    "SliceLayout",
    "SwizzledSharedLayout",
    "allocate_shared_memory",
    "arange",
    "barrier",
    "convert_layout",
    "full",
    "nvidia",
    "set_auto_layout",
    "shared_memory_descriptor",
    "to_tensor",
    "zeros",
]
