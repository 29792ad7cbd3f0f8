"""Arguments of launches: numpy arrays, torch tensors on the host, and lists of either as addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.errors import InputError
from kernbench.triton.dtypes import TritonError


class TensorPointers:
    """Several tensors as one argument: an i64 tensor of their addresses, which a kernel loads and makes pointers of."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self.tensors = list(tensors)


def array_of(where: str, value: Any) -> Array | None:
    """The array of an argument, which shares its memory; None where it is none. TritonError for types that are not here."""
    if isinstance(value, np.ndarray):
        found: Array = value
    elif type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "data_ptr"):
        found = _of_torch(where, value)
    else:
        return None
    try:
        dtype_of(found.dtype)
    except (InputError, TypeError):
        remedy = "use float32" if found.dtype == np.float64 else "use int64" if found.dtype == np.uint64 else "cast it first"
        raise TritonError(f"{where}: elements of {found.dtype} are not on these machines; {remedy}") from None
    return found


def _of_torch(where: str, value: Any) -> Array:
    if value.device.type != "cpu":
        raise TritonError(f"{where}: a tensor on {value.device}; bring it to the host by .cpu()")
    plain = value.detach()
    name = str(plain.dtype).rpartition(".")[2]
    other = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}
    if name in other:
        import torch  # type: ignore[import-not-found]  # the tensor is one of its own

        return plain.view(torch.int16 if name == "bfloat16" else torch.uint8).numpy().view(other[name])  # type: ignore[no-any-return]
    return plain.numpy()  # type: ignore[no-any-return]
