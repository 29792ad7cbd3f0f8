"""Names of the ops of a vector engine. Kernels, command queues, records of ops and machine files use the same names."""

from __future__ import annotations

_ONE = (
    "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "reciprocal", "sigmoid", "tanh", "erf", "sin", "cos", "silu", "gelu",
    "tf32", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "log1p", "log10", "expm1", "exp10",
    "cbrt", "trunc", "rint", "round_away", "j0", "j1", "y0", "y1", "cyl_bessel_i0", "cyl_bessel_i1", "isnan", "isinf",
    "copy", "cast", "transpose", "neg", "abs", "relu", "floor", "ceil", "full", "not",
)  # fmt: skip
_TWO = (
    "add", "sub", "mul", "div", "mod", "pow", "maximum", "minimum", "fmax", "fmin", "eq", "ne", "lt", "le", "gt", "ge",
    "atan2", "hypot", "copysign", "and", "or", "xor", "shl", "shr",
)  # fmt: skip
#: The number of operands of an elementwise op.
ARITY: dict[str, int] = dict.fromkeys(_ONE, 1) | dict.fromkeys(_TWO, 2) | dict.fromkeys(("where", "fma", "clamp"), 3)
#: Ops that reduce an axis.
REDUCTIONS: tuple[str, ...] = (
    "sum", "prod", "mean", "max", "min", "argmax", "argmin", "any", "all", "max_num", "min_num", "argmax_num", "argmin_num",
    "xor_sum",
)  # fmt: skip
#: Ops on whole rows, with results of the shape of the input.
SCANS: tuple[str, ...] = ("cumsum", "cumprod", "softmax", "layernorm", "rmsnorm")
#: Ops that move or count elements.
MOVES: tuple[str, ...] = (
    "reshape", "permute", "slice", "concat", "flip", "gather", "sort", "histogram", "bitcast",
)  # fmt: skip
VECTOR_OPS: tuple[str, ...] = (*ARITY, *REDUCTIONS, *SCANS, *MOVES)
