"""Arguments of launches: numpy arrays, torch tensors on the host, and lists of arrays or tensors that are passed as addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.errors import InputError
from kernbench.common.pointers import DevicePointer
from kernbench.triton.dtypes import CANONICAL, TYPES, TritonError, dtype, signature, uint64
from kernbench.triton.tools.tensor_descriptor import TensorDescriptor


class TypedPointer(NamedTuple):
    """A pointer whose element type in the kernel differs from the element type that the machine uses."""

    address: DevicePointer
    element: dtype


class TensorPointers:
    """Several tensors as one argument: an i64 tensor of their addresses. A kernel loads an address and casts it to a pointer.
    """

    def __init__(self, tensors: Sequence[Any]) -> None:
        self.tensors = list(tensors)


class TensorWrapper:
    """A torch tensor whose bits are read as elements of another type of `tl`. The wrapper shares the memory of the tensor."""

    def __init__(self, base: Any, dtype: dtype) -> None:
        self.base = base
        self.dtype = dtype

    @property
    def shape(self) -> Any:
        return self.base.shape

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the wrapped tensor, for example `data_ptr`, `stride`, `element_size` or `device`."""
        if name == "base":
            raise AttributeError(name)
        return getattr(self.base, name)

    def cpu(self) -> TensorWrapper:
        return TensorWrapper(self.base.cpu(), self.dtype)

    def clone(self) -> TensorWrapper:
        return TensorWrapper(self.base.clone(), self.dtype)

    def to(self, device: Any) -> TensorWrapper:
        return TensorWrapper(self.base.to(device), self.dtype)

    def new_empty(self, sizes: Any) -> TensorWrapper:
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __str__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"


class MockTensor:
    """A placeholder for a tensor in `kernel.warmup`: it has an element type, but no elements."""

    def __init__(self, dtype: Any, shape: Any = None) -> None:
        self.dtype = dtype
        self.shape = [1] if shape is None else shape

    @staticmethod
    def wrap_dtype(arg: Any) -> Any:
        """Return a MockTensor for a torch type; return any other value unchanged."""
        return MockTensor(arg) if type(arg).__name__ == "dtype" and type(arg).__module__ == "torch" else arg

    @staticmethod
    def data_ptr() -> int:
        return 0


def reinterpret(tensor: Any, dtype: dtype) -> Any:
    """Read the bits of an array, or of a torch tensor, as elements of another type of `tl`.

    Parameters
    ----------
    tensor
        A numpy array, a torch tensor on the host, or a TensorWrapper.
    dtype
        The new element type, for example `tl.float8e4nv`.

    Returns
    -------
    An array of the new type, or a TensorWrapper if `tensor` is a torch tensor. Both share memory with `tensor`.
    """
    if type(dtype).__module__ == "torch":
        name = CANONICAL.get(str(dtype).rpartition(".")[2], "")
        dtype = next((one for one in TYPES if signature(one) == name), dtype)
    if isinstance(tensor, TensorWrapper):
        return tensor.base if _dtype_named(tensor.base) == dtype else reinterpret(tensor.base, dtype)
    array = array_of("triton.reinterpret", tensor)
    if array is None:
        raise TritonError(f"triton.reinterpret needs an array, not a {type(tensor).__name__}")
    viewed = _viewed(array, dtype)
    return viewed if isinstance(tensor, np.ndarray) else TensorWrapper(tensor, dtype)


def _dtype_named(base: Any) -> dtype | None:
    """Return the type of `tl` whose name matches the element type of a torch tensor."""
    name = CANONICAL.get(str(base.dtype).rpartition(".")[2], "")
    return next((one for one in TYPES if signature(one) == name), None)


def _viewed(array: Array, kind: dtype) -> Array:
    if kind.own == "none":
        raise TritonError(f"triton.reinterpret as {kind}: the machines do not support this element type")
    own = np.dtype(np.uint64) if kind == uint64 else dtype_of(kind.own).numpy
    if own.itemsize != array.itemsize:
        raise TritonError(f"triton.reinterpret of {array.dtype} as {kind}: both element types must have the same size")
    return array.view(own)


def array_of(where: str, value: Any) -> Array | None:
    """Return the array of an argument, which shares memory with the argument; return None if the argument is not an array.

    Raises TritonError if the array has an element type that is not supported.
    """
    if isinstance(value, TensorWrapper):
        base = array_of(where, value.base)
        return None if base is None else _viewed(base, value.dtype)
    if isinstance(value, np.ndarray):
        found: Array = value
    elif type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "data_ptr"):
        found = _of_torch(where, value)
    else:
        return None
    if found.dtype == np.uint64:
        return found
    try:
        dtype_of(found.dtype)
    except (InputError, TypeError):
        raise TritonError(f"{where}: elements of {found.dtype} are not on these machines; cast it first") from None
    return found


def arrays_in(where: str, value: Any) -> Iterator[tuple[str, Array]]:
    """Return the arrays of an argument by name: the argument itself, or the arrays of a tuple, of pointers or of a descriptor.
    """
    if isinstance(value, TensorPointers):
        for number, one in enumerate(value.tensors):
            array = array_of(f"{where}.{number}", one)
            if array is None:
                raise TritonError(f"{where}.{number}: triton.pointers needs arrays, not a {type(one).__name__}")
            yield f"{where}.{number}", array
    elif isinstance(value, tuple):
        for number, one in enumerate(value):
            yield from arrays_in(f"{where}.{number}", one)
    else:
        array = array_of(where, value.base if isinstance(value, TensorDescriptor) else value)
        if array is not None:
            yield where, array


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to the elements of a tuple; the result has the type of the tuple."""
    made = [function(one) for one in value]
    return type(value)(*made) if hasattr(value, "_fields") else tuple(made)


def _of_torch(where: str, value: Any) -> Array:
    if value.device.type != "cpu":
        raise TritonError(f"{where}: a tensor on {value.device}; copy it to the host with .cpu()")
    if value.layout.__repr__() != "torch.strided":
        raise TritonError(f"{where}: a tensor of layout {value.layout}; make it dense with .to_dense()")
    plain = value.detach()
    name = str(plain.dtype).rpartition(".")[2]
    other = {"bfloat16": ml_dtypes.bfloat16}
    for one in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"):
        other[one] = getattr(ml_dtypes, one)
    if name in other:
        import torch  # the argument is a torch tensor

        return plain.view(torch.int16 if name == "bfloat16" else torch.uint8).numpy().view(other[name])  # type: ignore[no-any-return]
    return plain.numpy()  # type: ignore[no-any-return]
