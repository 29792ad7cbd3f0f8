"""The reductions of `dist`, with the names, numbers and texts of `torch.distributed.ReduceOp`."""

from __future__ import annotations

import warnings
from enum import Enum
from typing import Any, ClassVar

from kernbench.ccl.dist.errors import ArgumentError, TensorTypeError
from kernbench.ccl.reduction import Reduction
from kernbench.common.errors import InputError, Problem


class RedOpType(Enum):
    """A reduction without a factor. As in torch, it equals its number and is an instance of `ReduceOp`, but it never equals
    a `ReduceOp(...)` on its right.
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5  #: reductions of bits, for integers and truth values
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    def __eq__(self, other: object) -> bool:
        return other is self or (type(other) is int and other == self.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __index__(self) -> int:
        return int(self.value)

    def __call__(self, factor: float) -> ReduceOp:
        """Return the reduction PREMUL_SUM with a factor. No other reduction has a factor."""
        return ReduceOp(self, factor)


_Op = RedOpType  #: the name for annotations inside ReduceOp, whose attribute hides RedOpType


class _Reductions(type):
    """The type of ReduceOp, which counts the members of RedOpType as its instances."""

    def __instancecheck__(cls, found: object) -> bool:
        return isinstance(found, RedOpType) or super().__instancecheck__(found)


class ReduceOp(metaclass=_Reductions):
    """A reduction, and the factor of PREMUL_SUM.

    The attributes `ReduceOp.SUM`, `AVG` and so on are members of `RedOpType`. `ReduceOp.PREMUL_SUM(0.5)` multiplies the
    elements of each rank by 0.5 and adds the products.
    """

    RedOpType = RedOpType
    SUM: ClassVar = RedOpType.SUM
    AVG: ClassVar = RedOpType.AVG
    PRODUCT: ClassVar = RedOpType.PRODUCT
    MIN: ClassVar = RedOpType.MIN
    MAX: ClassVar = RedOpType.MAX
    BAND: ClassVar = RedOpType.BAND
    BOR: ClassVar = RedOpType.BOR
    BXOR: ClassVar = RedOpType.BXOR
    PREMUL_SUM: ClassVar = RedOpType.PREMUL_SUM

    def __init__(self, op: _Op, factor: float | None = None) -> None:
        if not isinstance(op, RedOpType):
            raise TensorTypeError(Problem("dist.ReduceOp", "it must be a member of dist.ReduceOp.RedOpType", "op", str(op)))
        if (factor is None) == (op is RedOpType.PREMUL_SUM):
            rule, given = "PREMUL_SUM has a factor, and no other reduction has one", "no factor" if factor is None else factor
            raise TensorTypeError(Problem("dist.ReduceOp", rule, op.name, given))
        self.op, self.factor = op, None if factor is None else float(factor)

    def __eq__(self, other: object) -> bool:
        """Compare the kinds of reduction. As in torch, factors are not compared."""
        return other is self.op or (type(other) is ReduceOp and self.op is other.op)

    def __hash__(self) -> int:
        return hash(self.op)

    def __repr__(self) -> str:
        return f"ReduceOp({self.op!s})" if self.factor is None else f"ReduceOp({self.op!s}, {self.factor})"


class _DeprecatedNames:
    """The old name `dist.reduce_op` for `dist.ReduceOp`, with a FutureWarning as in torch."""

    def __getattr__(self, name: str) -> Any:
        found: Any = RedOpType.__members__ if name == "__members__" else RedOpType.__members__.get(name)
        if found is None:
            raise AttributeError(f"dist.reduce_op has no {name}; the reductions are {', '.join(RedOpType.__members__)}")
        warnings.warn(f"dist.reduce_op is deprecated; write dist.ReduceOp.{name}", FutureWarning, stacklevel=2)
        return found


reduce_op = _DeprecatedNames()


def _make_nccl_premul_sum(factor: float) -> ReduceOp:
    """Return the reduction PREMUL_SUM with a factor."""
    return ReduceOp(RedOpType.PREMUL_SUM, factor)


#: The names of `Reduction` that differ from the name here.
_NAMES = {"PRODUCT": "prod"}


def reduction_of(where: str, op: Any) -> Reduction:
    """Return the reduction that an argument `op` names. Members of torch's own `RedOpType` are accepted too."""
    plain = ReduceOp(op) if isinstance(op, RedOpType) and op is not RedOpType.PREMUL_SUM else op
    if type(op).__name__ == "RedOpType" and type(op).__module__.startswith("torch.") and op.name in RedOpType.__members__:
        plain = ReduceOp(RedOpType[op.name])
    if type(plain) is not ReduceOp:
        factor = op is RedOpType.PREMUL_SUM
        known = ", ".join(RedOpType.__members__)
        rule = "it takes a factor" if factor else f"the reductions are {known} of dist.ReduceOp"
        raise TensorTypeError(Problem(where, rule, "op", str(op), "write ReduceOp.PREMUL_SUM(0.5)" if factor else ""))
    return Reduction(_NAMES.get(plain.op.name, plain.op.name.lower()), plain.factor)


def check_type(where: str, reduction: Reduction, dtype: str) -> None:
    """Raise ArgumentError for an element type that the reduction does not support."""
    try:
        reduction.check(where, dtype)
    except InputError as error:
        raise ArgumentError(error.problems) from None
