"""The arrays of a launch in the machine's memory: each range of host memory is stored once, and views are ranges in it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.pointers import DevicePointer
from kernbench.runtime_api.context import Context
from kernbench.runtime_api.tensors import DeviceTensor
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.triton.arguments import TensorPointers, TypedPointer, array_of, arrays_in, mapped
from kernbench.triton.dtypes import TritonError, uint64
from kernbench.triton.tools.tensor_descriptor import TensorDescriptor


@dataclass(eq=False)
class _Stretch:
    """Host memory that contains one or more arrays."""

    name: str
    low: int
    high: int
    kind: np.dtype[Any]
    arrays: list[tuple[str, Array]] = field(default_factory=list)
    tensor: DeviceTensor | None = None
    flat: Array | None = None


class Buffers:
    """The arrays among the arguments of a launch."""

    def __init__(self, kernel: str, arguments: dict[str, Any]) -> None:
        self._kernel = kernel
        self._stretches: list[_Stretch] = []
        self._unsigned: set[str] = set()  #: arguments of type uint64, which are stored as i64
        self._empty: dict[str, Array] = {}  #: arguments without elements
        for name, value in arguments.items():
            for label, array in arrays_in(f"{kernel}: argument {name}", value):
                self._add(label.removeprefix(f"{kernel}: argument "), array)

    def _add(self, name: str, array: Array) -> None:
        if array.dtype == np.uint64:
            self._unsigned.add(name)
            array = array.view(np.int64)
        if not array.size:
            self._empty[name] = array
            return
        if any(step < 0 for step in array.strides):
            raise TritonError(
                f"{self._kernel}: argument {name} has a negative stride, which is not supported; pass a copy of the array"
            )
        uneven = [step for step in array.strides if step % array.itemsize]
        if uneven:
            apart = f"its elements of {array.itemsize} B are {uneven[0]} B apart"
            raise TritonError(f"{self._kernel}: argument {name}: {apart}, and pointers count whole elements; make a copy of it")
        low, high = np.lib.array_utils.byte_bounds(array)
        made = _Stretch(name, low, high, array.dtype, [(name, array)])
        for other in [one for one in self._stretches if one.low < high and low < one.high]:
            where = f"{self._kernel}: arguments {other.name} and {name} share memory"
            if other.kind != array.dtype:
                raise TritonError(f"{where} as {other.kind} and {array.dtype}; pass copies of them")
            if (made.low - other.low) % array.itemsize:
                raise TritonError(f"{where} whose elements overlap; pass copies of them")
            low, high = min(made.low, other.low), max(made.high, other.high)
            made = _Stretch(other.name, low, high, made.kind, other.arrays + made.arrays)
            self._stretches.remove(other)
        self._stretches.append(made)

    def deploy(self, ctx: Context, arguments: dict[str, Any]) -> dict[str, Any]:
        """Copy all arrays into the machine's memory, and return the arguments of the programs."""
        for one in self._stretches:
            if one.flat is None:
                # The values at the first launch; a repeated run begins with these values.
                one.flat = _memory(one).view(one.kind).copy()
            one.tensor = ctx.from_numpy(one.flat, name=one.name)
        given = {name: self._given(ctx, name, value) for name, value in arguments.items()}
        for tensor in ctx.tensors.values():
            ctx.deploy_tensor(tensor)
        return given

    def _given(self, ctx: Context, name: str, value: Any) -> Any:
        """An argument in the form that programs receive."""
        if isinstance(value, TensorPointers):
            addresses = [int(self._pointer(f"{name}.{i}")) for i in range(len(value.tensors))]
            return ctx.from_numpy(np.asarray(addresses, np.int64), name=name).pointer(0, "")
        if isinstance(value, tuple):
            numbers = count()
            return mapped(value, lambda one: self._given(ctx, f"{name}.{next(numbers)}", one))
        if isinstance(value, TensorDescriptor):
            return replace(value, base=self._given(ctx, name, value.base))
        if array_of(name, value) is None:
            return value
        pointer = self._pointer(name)
        return TypedPointer(pointer, uint64) if name in self._unsigned else pointer

    def windows(self, ctx: Context) -> list[DevicePointer]:
        """Pointers to all tensors."""
        return [one.pointer(0, "") for one in ctx.tensors.values()]

    def stretch_of(self, name: str) -> str:
        """The name of the memory range that contains an array."""
        return next((one.name for one in self._stretches if any(label == name for label, _ in one.arrays)), "")

    def had_nan(self, names: set[str]) -> bool:
        """Whether one of these memory ranges contained NaN before the launch."""
        floats = [one.flat for one in self._stretches if one.name in names and dtype_of(one.kind).kind == "float"]
        return any(flat is not None and bool(np.isnan(flat.astype(np.float32)).any()) for flat in floats)

    def _pointer(self, name: str) -> DevicePointer:
        if name in self._empty:  # no access is inside an empty array
            kind = dtype_of(self._empty[name].dtype).name
            return DevicePointer(0, name=name, shape=(0,), dtype=kind, tensor_shape=(0,), window=0)
        for one in self._stretches:
            for label, array in one.arrays:
                if label == name:
                    assert one.tensor is not None
                    whole = one.tensor.pointer(0, "")
                    at = int(whole) + np.lib.array_utils.byte_bounds(array)[0] - one.low
                    return DevicePointer(
                        at,
                        name=one.name,
                        shape=array.shape,
                        dtype=whole.dtype,
                        tensor_shape=whole.tensor_shape,
                        window=int(whole),
                    )
        raise TritonError(f"{self._kernel}: {name} is not an array")

    def bring_back(self, store: MemoryStore, written: set[str]) -> dict[str, Array]:
        """Write the stored ranges back into the arrays, and return all arrays by name. TritonError for an array that cannot be
        written."""
        for one in self._stretches:
            if one.name not in written or one.tensor is None:
                continue
            for name, array in one.arrays:
                if not array.flags.writeable:
                    raise TritonError(f"{self._kernel} stores to {name}, an array that cannot be written to; pass a copy")
            _memory(one)[...] = _bits(one.tensor.gather(store))
        found = {name: array for one in self._stretches for name, array in one.arrays} | self._empty
        return {name: array.view(np.uint64) if name in self._unsigned else array for name, array in found.items()}


def _memory(stretch: _Stretch) -> Array:
    """The host memory of a range, as integers. Bytes between the elements of views belong to the memory too."""
    first = min((array for _, array in stretch.arrays), key=lambda array: np.lib.array_utils.byte_bounds(array)[0])
    count = (stretch.high - stretch.low) // stretch.kind.itemsize
    # Overlapping ranges are merged, so each range lies inside the one array whose views it contains.
    return np.lib.stride_tricks.as_strided(_bits(first), (count,), (stretch.kind.itemsize,))


def _bits(array: Array) -> Array:
    """The elements as integers, because numpy can make strided views of integers but not of f8."""
    return array.view(f"u{array.itemsize}")
