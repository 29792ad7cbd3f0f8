"""What a list of ops does to memories, one after the other in plain numpy on plain bytes: the slow truth of a replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

TYPES: dict[str, Any] = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
}
FLOATS = ("f32", "f16", "bf16")


@dataclass
class Tensor:
    """A contiguous tensor in a memory."""

    space: str
    addr: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape)) * int(np.dtype(TYPES[self.dtype]).itemsize)


@dataclass
class Step:
    """One op: `copy` moves bytes, `gemm` is `inputs[0] @ inputs[1] [+ inputs[2]]`, others are elementwise or sums."""

    op: str
    inputs: list[Tensor]
    out: Tensor
    scalar: float | int | None = None
    axis: int | None = None
    transpose: tuple[bool, bool] = (False, False)
    tile_k: int | None = None
    deps: list[int] = field(default_factory=list)


def touches(step: Step) -> tuple[list[tuple[str, int, int]], tuple[str, int, int]]:
    """The bytes that a step reads, and those that it writes."""
    spans = [(one.space, one.addr, one.addr + one.nbytes) for one in (*step.inputs, step.out)]
    return spans[:-1], spans[-1]


def conflict(one: Step, other: Step) -> bool:
    """Whether their order matters."""

    def meet(a: tuple[str, int, int], b: tuple[str, int, int]) -> bool:
        return a[0] == b[0] and max(a[1], b[1]) < min(a[2], b[2])

    reads, write = touches(one)
    others, other_write = touches(other)
    return meet(write, other_write) or any(meet(write, a) for a in others) or any(meet(other_write, a) for a in reads)


class Memories:
    """Bytes by space."""

    def __init__(self, spaces: dict[str, bytes]) -> None:
        self.spaces = {name: bytearray(data) for name, data in spaces.items()}

    def load(self, tensor: Tensor) -> Any:
        data = bytes(self.spaces[tensor.space][tensor.addr : tensor.addr + tensor.nbytes])
        return np.frombuffer(data, TYPES[tensor.dtype]).reshape(tensor.shape)

    def run(self, step: Step) -> None:
        """Do one op."""
        inputs = [self.load(one) for one in step.inputs]
        with np.errstate(all="ignore"):
            result = inputs[0] if step.op == "copy" else compute(step, inputs)
        out = step.out
        data = np.ascontiguousarray(result).reshape(out.shape).tobytes()
        self.spaces[out.space][out.addr : out.addr + out.nbytes] = data


def compute(step: Step, inputs: list[Any]) -> Any:
    """The result of a step on its inputs, in the type of its output."""
    real = any(one.dtype in FLOATS for one in step.inputs)
    wide = [one.astype(np.float32 if real else np.int64) for one in inputs]
    if step.op == "gemm":
        result = multiply(step, wide)
    elif step.op == "sum":
        result = np.sum(wide[0], step.axis, dtype=wide[0].dtype)
    else:
        if step.scalar is not None:
            wide.append(step.scalar)
        result = {"add": np.add, "sub": np.subtract, "maximum": np.maximum, "neg": np.negative}[step.op](*wide)
        result = np.broadcast_to(result, step.out.shape)
    return result.astype(TYPES[step.out.dtype])


def multiply(step: Step, wide: list[Any]) -> Any:
    a, b = (one.T if flipped else one for one, flipped in zip(wide, step.transpose, strict=False))
    total: Any = wide[2] if len(wide) > 2 else None
    chunk = step.tile_k or a.shape[1]
    for k in range(0, a.shape[1], chunk):
        part = a[:, k : k + chunk] @ b[k : k + chunk]
        total = part if total is None else total + part
    return total if total.dtype == np.float32 else total.astype(np.int32)
