"""Arguments of launches: numpy arrays, torch tensors on the host, and lists of either as addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.errors import InputError
from kernbench.common.pointers import DevicePointer
from kernbench.triton.dtypes import TritonError, dtype
from kernbench.triton.tools.tensor_descriptor import TensorDescriptor


class TypedPointer(NamedTuple):
    """A pointer whose element type in the kernel differs from that of the machine."""

    address: DevicePointer
    element: dtype


class TensorPointers:
    """Several tensors as one argument: an i64 tensor of their addresses, which a kernel loads and makes pointers of."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self.tensors = list(tensors)


def array_of(where: str, value: Any) -> Array | None:
    """The array of an argument, which shares its memory; None if it is not an array. TritonError for types that are not here.
    """
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
        remedy = "use float32" if found.dtype == np.float64 else "cast it first"
        raise TritonError(f"{where}: elements of {found.dtype} are not on these machines; {remedy}") from None
    return found


def arrays_in(where: str, value: Any) -> Iterator[tuple[str, Array]]:
    """The arrays of an argument by name: itself, those of a tuple, of pointers, or of a tensor descriptor."""
    if isinstance(value, TensorPointers):
        for number, one in enumerate(value.tensors):
            array = array_of(f"{where}.{number}", one)
            if array is None:
                raise TritonError(f"{where}.{number}: triton.pointers takes arrays, and not a {type(one).__name__}")
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
        raise TritonError(f"{where}: a tensor on {value.device}; bring it to the host by .cpu()")
    if value.layout.__repr__() != "torch.strided":
        raise TritonError(f"{where}: a tensor of layout {value.layout}; make a dense one by .to_dense()")
    plain = value.detach()
    name = str(plain.dtype).rpartition(".")[2]
    other = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}
    if name in other:
        import torch  # type: ignore[import-not-found]  # the tensor is one of its own

        return plain.view(torch.int16 if name == "bfloat16" else torch.uint8).numpy().view(other[name])  # type: ignore[no-any-return]
    return plain.numpy()  # type: ignore[no-any-return]
