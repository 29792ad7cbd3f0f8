"""The elementwise functions of `tl` with one operand; each function has the name of its op."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kernbench.triton_emu.handle import KernelTensor

UNARY = {  # the definition, and an operand with its result as an example
    "exp": ("`e` to the power of each element.", 0.0, "1."),
    "exp2": ("2 to the power of each element.", 3.0, "8."),
    "log": ("The natural logarithm of each element.", 1.0, "0."),
    "log2": ("The logarithm to base 2 of each element.", 8.0, "3."),
    "sqrt": ("The square root of each element.", 9.0, "3."),
    "rsqrt": ("`1 / sqrt(x)` for each element.", 4.0, "0.5"),
    "sigmoid": ("`1 / (1 + exp(-x))` for each element.", 0.0, "0.5"),
    "tanh": ("The hyperbolic tangent of each element.", 0.0, "0."),
    "gelu": ("`x * P(X <= x)` for each element, where X has the standard normal distribution.", 0.0, "0."),
    "silu": ("`x * sigmoid(x)` for each element.", 0.0, "0."),
    "relu": ("`max(x, 0)` for each element.", -2.0, "0."),
    "abs": ("The absolute value of each element.", -2.0, "2."),
    "neg": ("`-x` for each element.", 2.0, "-2."),
    "floor": ("Each element rounded down to an integer.", 1.5, "1."),
    "ceil": ("Each element rounded up to an integer.", 1.5, "2."),
    "sin": ("The sine of each element, in radians.", 0.0, "0."),
    "cos": ("The cosine of each element, in radians.", 0.0, "1."),
    "erf": ("The error function of each element.", 0.0, "0."),
}
_DOC = """{what}

`x`: a tensor; the result has its shape and, if it is of floats, its type. An integer tensor becomes f32, unless the result is
an integer. `out`: a tile that gets the result. `materialize`: also compute a result of at most 64 elements in Phase 1, from
known operands. Raises KernelError for another operand or an `out` of another shape.

>>> evaluate(lambda tl: tl.{op}(tl.full((2,), {operand}, "f32")))
array([{result}, {result}], dtype=float32)
"""


class TlFunctions:
    """The functions of `tl` with one operand."""

    if TYPE_CHECKING:  # methods of TLContext

        def unary(
            self, op: str, x: Any, frame: Any, *, out: Any = None, dtype: str | None = None, materialize: bool = False
        ) -> KernelTensor: ...


def _method(op: str, doc: str) -> Any:
    def method(self: TlFunctions, x: Any, *, out: Any = None, materialize: bool = False) -> KernelTensor:
        return self.unary(op, x, sys._getframe(1), out=out, materialize=materialize)

    method.__name__, method.__qualname__, method.__doc__ = op, f"TlFunctions.{op}", doc
    return method


for _op, (_what, _operand, _result) in UNARY.items():
    setattr(TlFunctions, _op, _method(_op, _DOC.format(what=_what, op=_op, operand=_operand, result=_result)))
