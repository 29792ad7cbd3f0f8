"""Operations by name with named parameters, as `kbsim op` and sweeps give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernbench.common.dtypes import DTYPES
from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import meant
from kernbench.workloads.ops.operation import COLLECTIVES, Attention, Collective, Operation, Product, Sequences, Vector

MAX_SIDE = 1 << 30  #: rows, columns, depth or cached tokens of an operation
MAX_TOKENS = 1 << 20  #: tokens or sequences of a step
MAX_BYTES = 1 << 40
#: Vector operations by class, as tables name them.
KINDS = {
    "norm": ("layernorm", "rmsnorm", "softmax", "norm", "final_layernorm"),
    "gather": ("embedding", "emb", "gather"),
    "elementwise": ("gelu", "silu", "add", "mul", "act_fn", "rotary_emb", "rope", "attn_rope", "mlp_act"),
    "other": ("sampler",),
}
#: Other names of a product.
PRODUCTS = ("gemm", "mm", "bmm", "linear", "gemv", "dot")
#: Element types of operands.
TYPES = tuple(name for name, one in DTYPES.items() if one.kind != "bool" and one.bits <= 32)
#: The default of each number, its least and its largest value.
NUMBERS: dict[str, tuple[int | None, int, int]] = {
    "m": (1, 1, MAX_SIDE), "n": (4096, 1, MAX_SIDE), "k": (4096, 1, MAX_SIDE), "batch": (1, 0, MAX_TOKENS),
    "kv": (1024, 0, MAX_SIDE), "prefill": (0, 0, MAX_TOKENS), "heads": (32, 1, MAX_TOKENS), "kv_heads": (8, 1, MAX_TOKENS),
    "head_dim": (128, 1, MAX_TOKENS), "w": (None, 1, 32), "ranks": (2, 2, MAX_TOKENS), "bytes": (1 << 20, 1, MAX_BYTES),
}  # fmt: skip
DEFAULTS: dict[str, Any] = {name: default for name, (default, _, _) in NUMBERS.items()} | {"dtype": "f16"}


def operations() -> list[str]:
    """The names of all operations."""
    return ["matmul", "attention", *COLLECTIVES, *(one for names in KINDS.values() for one in names)]


def check_name(name: str, where: str, field: str) -> None:
    """InputError if no operation has this name; `where` and `field` say where the name stands."""
    every = operations()
    if name not in every:
        remedy = "did you mean matmul?" if name.lower() in PRODUCTS else meant(name, every)
        raise InputError(Problem(where, f"it must be one of {', '.join(every)}", field, name, remedy))


def operation_of(name: str, given: Mapping[str, Any], where: str, shown: Callable[[str], str] = str) -> Operation:
    """The operation `name` with these parameters, and the defaults of the others.

    `where`: the subject of an InputError. `shown`: the name of a parameter in an InputError.
    """
    at = _Parameters(DEFAULTS | dict(given), where, shown)
    at.check()
    if name == "matmul":
        return _product(at)
    if name == "attention":
        return _attention(at)
    if name in COLLECTIVES:
        return Collective(name, at["ranks"], at["bytes"])  # type: ignore[arg-type]
    kind = next(kind for kind, names in KINDS.items() if name in names)
    return Vector(name, kind, at["m"], at["n"], 2 * at.size * at["m"] * at["n"], 5.0 * at["m"] * at["n"])


class _Parameters:
    """The parameters of an operation, and the errors about them."""

    def __init__(self, values: Mapping[str, Any], where: str, shown: Callable[[str], str]) -> None:
        self._values, self._where, self.shown = values, where, shown

    def __getitem__(self, field: str) -> Any:
        return self._values[field]

    def refuse(self, field: str, rule: str) -> InputError:
        """The error about one parameter."""
        return InputError(Problem(self._where, rule, self.shown(field), self[field]))

    def check(self) -> None:
        """InputError for a number that is out of range, and for an unknown type of elements."""
        for field, (default, least, most) in NUMBERS.items():
            if self[field] is None and default is None:
                continue
            if type(self[field]) is not int:
                raise self.refuse(field, "it must be an integer")
            if not least <= self[field] <= most:
                raise self.refuse(field, f"it must be at least {least} and at most {most}")
        if self["dtype"] not in TYPES:
            raise self.refuse("dtype", f"it must be one of {', '.join(TYPES)}")

    @property
    def bits(self) -> int:
        """[bit] of an element."""
        return DTYPES[self["dtype"]].bits

    @property
    def size(self) -> float:
        """[B] of an element."""
        return self.bits / 8


def _product(at: _Parameters) -> Product:
    if at["w"] is not None and at["w"] > at.bits:
        raise at.refuse("w", f"it must be at most {at.bits}, the bits of {at['dtype']} ({at.shown('dtype')})")
    floats = DTYPES[at["dtype"]].kind == "float"
    weight = (at["w"] or at.bits) / 8
    return Product(at["m"], at["n"], at["k"], at.size, weight, max(2.0, at.size), at.bits, floats=floats)


def _attention(at: _Parameters) -> Attention:
    if not at["batch"] and not at["prefill"]:
        names = f"{at.shown('batch')} or {at.shown('prefill')}"
        raise at.refuse("batch", f"a step needs at least one sequence: {names} must be greater than 0")
    if at["heads"] % at["kv_heads"]:
        raise at.refuse("kv_heads", f"it must divide {at.shown('heads')}, which is {at['heads']}")
    groups = (Sequences(at["batch"], 1, at["kv"]), Sequences(1 if at["prefill"] else 0, at["prefill"], 0))
    some = tuple(one for one in groups if one.count)
    return Attention(some, at["heads"], at["kv_heads"], at["head_dim"], at.size)
