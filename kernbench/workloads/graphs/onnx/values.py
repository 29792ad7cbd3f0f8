"""Values of the initializers of an ONNX file: in the file, or in one beside it. Values of weights are dropped."""

from __future__ import annotations

import stat
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from kernbench.common.errors import InputError, Problem
from kernbench.workloads.graphs.graph import SMALL, Array

if TYPE_CHECKING:
    import onnx

_FIELDS = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
_ELEMENT_BYTES = 16  # bytes of an element of the largest type, complex128


def read_constants(model: onnx.ModelProto, path: Path) -> None:
    """Reads small constants from files beside the model, and forgets the large ones' values."""
    from onnx import TensorProto

    for item in model.graph.initializer:
        if prod(item.dims) > SMALL:
            for values in _FIELDS:
                item.ClearField(values)
        elif item.data_location == TensorProto.EXTERNAL:
            item.raw_data = _external(item, path)
        item.data_location = TensorProto.DEFAULT
        del item.external_data[:]


def array_of(tensor: onnx.TensorProto, where: str) -> Array:
    """The values of a small constant. InputError if they do not fit its type and shape."""
    from onnx import numpy_helper

    try:
        return numpy_helper.to_array(tensor)
    except (KeyError, OverflowError, TypeError, ValueError) as error:  # of the type, and of numpy's reshape
        text = str(error).strip().partition("\n")[0] or type(error).__name__
        dims = " x ".join(str(dim) for dim in tensor.dims) or "one number"
        rule = f"its values do not make {dims} of its type: {text}"
        raise InputError(Problem(f"{where}: initializer {tensor.name}", rule)) from None


def _external(tensor: onnx.TensorProto, model: Path) -> bytes:
    """Bytes from a file in the model's folder, or in that of the file that the model is a link to."""
    what, entries = f"{model}: initializer {tensor.name}", {item.key: item.value for item in tensor.external_data}
    location = entries.get("location", "")
    offset, length = (_number(what, key, entries.get(key, "")) for key in ("offset", "length"))
    wanted = prod(tensor.dims) * _ELEMENT_BYTES
    rule = "it must be the name of a file in the folder of the model"
    if not location or Path(location).is_absolute() or ".." in Path(location).parts:
        raise InputError(Problem(what, rule, "location", location))
    try:
        place = (model.parent / location).resolve()
        if not any(place.is_relative_to(folder) for folder in (model.parent.resolve(), model.resolve().parent)):
            raise InputError(
                Problem(what, rule, "location", location, "it is a link to a file outside the folder of the model")
            )
        if not stat.S_ISREG(place.stat().st_mode):
            raise InputError(Problem(what, "it must be a file, no directory, pipe or device", "location", location))
        with place.open("rb") as file:
            file.seek(offset or 0)
            found: bytes = file.read(min(wanted if length is None else length, wanted))
    except (OSError, ValueError, RuntimeError) as error:  # ValueError: a NUL in the name; RuntimeError: links in a circle
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(Problem(what, f"its values cannot be read: {reason}", "location", location)) from None
    if length is not None and len(found) < length:
        rule = f"the file has {len(found)} bytes from offset {offset or 0} on, and the initializer takes at most {wanted}"
        raise InputError(Problem(what, rule, "length", length))
    return found


def _number(what: str, key: str, text: str) -> int | None:
    """A number of bytes, or None."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InputError(Problem(what, "it must be a whole number of bytes", key, text))
    return int(text)
