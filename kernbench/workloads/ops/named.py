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
    at = DEFAULTS | dict(given)

    def refuse(field: str, rule: str) -> InputError:
        return InputError(Problem(where, rule, shown(field), at[field]))

    for field, (default, least, most) in NUMBERS.items():
        if at[field] is None and default is None:
            continue
        if type(at[field]) is not int:
            raise refuse(field, "it must be an integer")
        if not least <= at[field] <= most:
            raise refuse(field, f"it must be at least {least} and at most {most}")
    if at["dtype"] not in TYPES:
        raise refuse("dtype", f"it must be one of {', '.join(TYPES)}")
    bits = DTYPES[at["dtype"]].bits
    size = bits / 8
    if name == "matmul":
        if at["w"] is not None and at["w"] > bits:
            raise refuse("w", f"it must be at most {bits}, the bits of {at['dtype']} ({shown('dtype')})")
        floats = DTYPES[at["dtype"]].kind == "float"
        return Product(at["m"], at["n"], at["k"], size, (at["w"] or bits) / 8, max(2.0, size), bits, floats=floats)
    if name == "attention":
        if not at["batch"] and not at["prefill"]:
            rule = f"a step needs at least one sequence: {shown('batch')} or {shown('prefill')} must be greater than 0"
            raise refuse("batch", rule)
        if at["heads"] % at["kv_heads"]:
            raise refuse("kv_heads", f"it must divide {shown('heads')}, which is {at['heads']}")
        groups = (Sequences(at["batch"], 1, at["kv"]), Sequences(1 if at["prefill"] else 0, at["prefill"], 0))
        return Attention(tuple(one for one in groups if one.count), at["heads"], at["kv_heads"], at["head_dim"], size)
    if name in COLLECTIVES:
        return Collective(name, at["ranks"], at["bytes"])  # type: ignore[arg-type]
    kind = next(kind for kind, names in KINDS.items() if name in names)
    return Vector(name, kind, at["m"], at["n"], 2 * size * at["m"] * at["n"], 5.0 * at["m"] * at["n"])
