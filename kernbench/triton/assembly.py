"""`tl.inline_asm_elementwise` for common PTX instructions. Each register holds one element, and functions of `tl` do the work.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

from kernbench.triton import dtypes
from kernbench.triton.constants import plain
from kernbench.triton.dtypes import dtype, refuse
from kernbench.triton.elementwise import cast, function, math, maximum, minimum, where
from kernbench.triton.tensor import FUNCTIONS, as_tensor, number_tensor, tensor

_KINDS: dict[str, dtype] = {
    "f16": dtypes.float16, "bf16": dtypes.bfloat16, "f32": dtypes.float32, "f64": dtypes.float64, "b8": dtypes.uint8,
    "b16": dtypes.uint16, "b32": dtypes.uint32, "b64": dtypes.uint64, "u8": dtypes.uint8, "u16": dtypes.uint16,
    "u32": dtypes.uint32, "u64": dtypes.uint64, "s8": dtypes.int8, "s16": dtypes.int16, "s32": dtypes.int32,
    "s64": dtypes.int64, "pred": dtypes.int1,
}  # fmt: skip


def _binary(op: str) -> Callable[..., tensor]:
    return lambda x, y: FUNCTIONS["binary"](op, x, y)


def _of(op: str) -> Callable[..., tensor]:
    return lambda x: function(op, x)


#: Instructions by name; modifiers of rounding and of range (`rn`, `approx`, `ftz`, `lo`, `full`) change nothing here.
_OPS: dict[str, Callable[..., tensor]] = {
    "mov": lambda x: x,
    "add": _binary("add"),
    "sub": _binary("sub"),
    "mul": _binary("mul"),
    "div": _binary("truediv"),
    "and": _binary("and"),
    "or": _binary("or"),
    "xor": _binary("xor"),
    "shl": _binary("shl"),
    "shr": _binary("shr"),
    "max": maximum,
    "min": minimum,
    "fma": lambda x, y, z: math("fma", [x, y, z], x.dtype),
    "mad": lambda x, y, z: FUNCTIONS["binary"]("add", FUNCTIONS["binary"]("mul", x, y), z),
    "not": lambda x: FUNCTIONS["unary"]("invert", x),
    "neg": lambda x: FUNCTIONS["unary"]("neg", x),
    "abs": lambda x: FUNCTIONS["abs"](x),
    "ex2": _of("exp2"),
    "lg2": _of("log2"),
    "rcp": lambda x: FUNCTIONS["binary"]("truediv", 1.0, x),
    "rsqrt": _of("rsqrt"),
    "sqrt": _of("sqrt"),
    "sin": _of("sin"),
    "cos": _of("cos"),
    "tanh": _of("tanh"),
}
_WITHOUT_MEANING = frozenset({"rn", "approx", "ftz", "lo", "full"})
_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_STEP = re.compile(r"(?:@(!?)(\w+)\s+)?([a-z]\w*)((?:\.\w+)*)\s+(.+)", re.DOTALL)


def inline_asm_elementwise(
    asm: Any, constraints: Any, args: Sequence[Any], dtype: Any, is_pure: bool = True, pack: Any = 1, _semantic: Any = None
) -> Any:
    """Run PTX instructions on each element of the operands.

    Arithmetic, logic, comparisons, selections, conversions and approximate functions are supported. In `asm`, the registers
    `$0` and following are the results; the registers of the operands come after them.

    Parameters
    ----------
    asm
        The PTX instructions.
    constraints
        The constraints of the registers, as in Triton.
    args
        The operands: tensors or numbers.
    dtype
        The element type of the result, or a tuple of types for several results.
    is_pure
        A hint, which is ignored.
    pack
        Elements per register; only 1 is supported.

    Raises
    ------
    TritonError
        If an instruction is not supported (the message names it), or if a register holds more than one element.
    """
    text, outs = str(plain(asm)), plain(dtype)
    kinds = list(outs) if isinstance(outs, tuple | list) else [outs]
    if plain(pack) != 1:
        refuse(f"tl.inline_asm_elementwise: pack={plain(pack)}: a register holds only one element on this machine; use pack=1")
    registers: dict[str, tensor] = {f"${len(kinds) + number}": as_tensor(one) for number, one in enumerate(args)}
    for step in _steps(text):
        _Instruction(step, registers).run()
    absent = [f"${number}" for number in range(len(kinds)) if f"${number}" not in registers]
    if absent:
        refuse(f"tl.inline_asm_elementwise: {', '.join(absent)} is never written; the instructions must write every result")
    made = tuple(_as(registers[f"${number}"], kind) for number, kind in enumerate(kinds))
    return made if isinstance(outs, tuple | list) else made[0]


def _steps(text: str) -> list[str]:
    """Return the instructions of the text, without braces, comments and register declarations."""
    bare = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    steps = [" ".join(one.split()) for one in re.sub(r"^\s*\{|\}\s*$", " ", bare).replace(";", "\n").split("\n")]
    return [one for one in _joined(steps) if one and not one.startswith(".reg")]


def _joined(steps: list[str]) -> list[str]:
    """Join instructions that a line break divides. A line that ends with a comma continues on the next line."""
    found: list[str] = []
    for one in steps:
        if found and found[-1].endswith(","):
            found[-1] += " " + one
        else:
            found.append(one)
    return found


def _as(value: tensor, kind: dtype) -> tensor:
    """Read the bits of a register as a type. Integers of other widths keep their low bits; predicates become numbers."""
    if value.dtype == kind:
        return value
    alike = kind.primitive_bitwidth == value.dtype.primitive_bitwidth and not value.dtype.is_bool() and not kind.is_bool()
    return cast(value, kind, bitcast=alike)


class _Instruction:
    """One instruction, and the registers that it reads and writes.

    Its text is, for example, `@!%p add.rn.f32 $0, $1, 0f3F800000`: a predicate, the name with modifiers, the register of the
    result, and the operands.
    """

    def __init__(self, step: str, registers: dict[str, tensor]) -> None:
        self.step, self.registers = step, registers
        found = _STEP.fullmatch(step)
        if found is None:
            refuse(f'tl.inline_asm_elementwise: "{step}" is not supported; use functions of tl')
        negated, self.predicate, self.name, self.modifiers, operands = found.groups()
        self.negated = bool(negated)
        parts = self.modifiers.split(".")[1:]
        self.result, *self.operands = (one.strip() for one in operands.split(","))
        self.kinds = [_KINDS[one] for one in parts if one in _KINDS]
        self.rest = [one for one in parts if one not in _KINDS and one not in _WITHOUT_MEANING]
        if not self.kinds or any(one.startswith(("[", "{")) for one in (self.result, *self.operands)):
            refuse(f'tl.inline_asm_elementwise: "{step}" is not supported; use functions of tl')

    def run(self) -> None:
        """Write the register of the result; where the predicate does not hold, the register keeps its value."""
        made = self._value()
        if self.name != "setp":
            made = _as(made, self.kinds[0])
        before = self.registers.get(self.result)
        if self.predicate is not None:
            chosen = self._register(self.predicate)
            if before is not None:
                one, other = (_as(before, made.dtype), made) if self.negated else (made, _as(before, made.dtype))
                made = where(chosen, one, other)
        self.registers[self.result] = made

    def _value(self) -> tensor:
        """The result, before the predicate."""
        name, kind, taken = self.name, self.kinds[0], self.operands
        if name == "setp" and len(self.rest) == 1 and self.rest[0] in _COMPARISONS:
            compared: tensor = FUNCTIONS["binary"](self.rest[0], *(self._operand(one, kind) for one in taken))
            return compared
        if name == "selp" and not self.rest and len(taken) == 3:
            chosen = _as(self._register(taken[2]), dtypes.int1)
            return where(chosen, self._operand(taken[0], kind), self._operand(taken[1], kind))
        if name == "cvt" and len(self.kinds) == 2 and set(self.rest) <= _roundings(kind):
            return cast(self._operand(taken[0], self.kinds[1]), kind, "rtz" if "rz" in self.rest else None)
        if name not in _OPS or self.rest or (name == "div" and not kind.is_floating()):
            refuse(f'tl.inline_asm_elementwise: "{name}{self.modifiers}" is not supported; use functions of tl')
        kinds = [kind] * len(taken)
        if name in ("shl", "shr"):
            kinds[1:] = [dtypes.uint32] * len(kinds[1:])
        return _OPS[name](*(self._operand(one, own) for one, own in zip(taken, kinds, strict=True)))

    def _operand(self, place: str, kind: dtype) -> tensor:
        """The value of a register or constant as a type."""
        number = None if place in self.registers else _number(place)
        return _as(self._register(place), kind) if number is None else number_tensor(number, kind)

    def _register(self, name: str) -> tensor:
        if name not in self.registers:
            refuse(f'tl.inline_asm_elementwise: {name} of "{self.step}" is not set')
        return self.registers[name]


def _roundings(kind: dtype) -> frozenset[str]:
    """The modifiers of a conversion to a type that are supported."""
    return frozenset({"rzi", "rz"} if kind.is_floating() else {"rzi", "rz", "sat"})


def _number(text: str) -> float | int | None:
    """Parse a constant of PTX."""
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        return float(struct.unpack(">f", bytes.fromhex(text[2:]))[0])
    try:
        return int(text.rstrip("uU"), 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None
