"""Functions of single elements in `tl`, by the names of their ops."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kernbench.triton_emu.handle import KernelTensor

UNARY = {
    "exp": "e to the power of each element.",
    "exp2": "2 to the power of each element.",
    "log": "Natural logarithms.",
    "log2": "Logarithms to base 2.",
    "sqrt": "Square roots.",
    "rsqrt": "1 / sqrt(x).",
    "sigmoid": "1 / (1 + exp(-x)).",
    "tanh": "Hyperbolic tangents.",
    "gelu": "x times the normal distribution's cumulative probability of x.",
    "silu": "x * sigmoid(x).",
    "relu": "max(x, 0).",
    "abs": "Sizes without signs.",
    "neg": "-x.",
    "floor": "Rounded down.",
    "ceil": "Rounded up.",
    "sin": "Sines.",
    "cos": "Cosines.",
    "erf": "The error function.",
}


class TlFunctions:
    """The part of `tl` that has a method for each of these."""

    if TYPE_CHECKING:  # what TLContext gives

        def unary(
            self, op: str, x: Any, frame: Any, *, out: Any = None, dtype: str | None = None, materialize: bool = False
        ) -> KernelTensor: ...


def _method(op: str, doc: str) -> Any:
    def method(self: TlFunctions, x: Any, *, out: Any = None, materialize: bool = False) -> KernelTensor:
        return self.unary(op, x, sys._getframe(1), out=out, materialize=materialize)

    method.__name__, method.__qualname__, method.__doc__ = op, f"TlFunctions.{op}", doc
    return method


for _op, _doc in UNARY.items():
    setattr(TlFunctions, _op, _method(_op, _doc))
