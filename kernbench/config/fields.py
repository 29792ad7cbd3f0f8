"""Types of machine fields: integers that are integers, exact rationals, sizes with units, tables keyed by qbits.

Each type refuses a value with a rule in the words of kernbench (`it must be at least 1`) and provides its JSON Schema, so
`schema.py` only names the types.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Any

from kernbench.common.errors import shown
from kernbench.common.units import SIZE_UNITS, parse_rational, parse_size
from kernbench.config.remedies import MAX_GHZ
from kernbench.config.section import JsonSchema, Refused, Rule

QBITS: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
TERM_LIMIT = 2**31  # limit of the terms of capacities and rates (docs/model/index.md)
WIDE_LIMIT = 2**62  # limit of addresses and cycle counts: 64-bit sums of two cannot overflow
MAX_ENGINES = 4096  # limit of the engines of a kind and of DRAM channels: a typing error must not request gigabytes of state
MAX_BANKS = 65536
MAX_MESH_SIDE = 256
#: VE ops without a term in `sfu` (docs/model/compute.md).
WITHOUT_SFU = ("add", "copy", "layernorm", "max", "min", "mul", "rmsnorm", "softmax", "sum")

#: The form `package.module:name`, for the JSON Schema.
CODE_PATTERN = "[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_.]*"
_CODE = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"

def refuse(rule: str) -> Refused:
    """The error that a check raises."""
    return Refused("rule", rule)


def integer(low: int, limit: int = TERM_LIMIT) -> Rule:
    """An integer from `low` to `limit - 1`; text, decimals and booleans are refused."""
    return Rule(
        lambda value: _in_range(value, low, limit),
        lambda: {"type": "integer", "minimum": low, "exclusiveMaximum": limit},
    )


def _in_range(value: Any, low: int, limit: int) -> int:
    if isinstance(value, (float, Fraction)):
        raise refuse("it must be an integer, without a decimal point")
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise refuse("it must be an integer")
    number: int = value.__index__()  # numpy's integers are accepted too
    if number < low:
        raise refuse(f"it must be at least {low}")
    if number >= limit:
        power = f"below 2^{limit.bit_length() - 1}"
        raise refuse(f"it must be {power if limit >= TERM_LIMIT else f'at most {limit - 1}'}")
    return number


def names_code(value: str) -> bool:
    """The value is `package.module:name`."""
    return re.fullmatch(_CODE, value) is not None


def one_of(names: tuple[str, ...], *, code: bool = False) -> Rule:
    """One of some names, or, with `code`, an object as `package.module:name`."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or not (value in names or (code and names_code(value))):
            raise refuse(f"it must be one of {', '.join(names)}" + (', or "package.module:name"' if code else ""))
        return value

    named: JsonSchema = {"type": "string", "enum": list(names)}
    other: JsonSchema = {"type": "string", "pattern": f"^{CODE_PATTERN}$"}
    return Rule(check, lambda: {"anyOf": [named, other]} if code else named)


def size(low: int = 1, limit: int = WIDE_LIMIT) -> Rule:
    """A number of bytes: an integer, or text with a unit."""

    def check(value: Any) -> int:
        if isinstance(value, str):
            try:
                return _in_range(parse_size(value), low, limit)
            except Refused:
                raise
            except ValueError as error:
                raise refuse(str(error)) from None
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise refuse('it must be a whole number of bytes or a size like "64 KiB"')
        return _in_range(value, low, limit)

    number = {"type": "integer", "minimum": low, "exclusiveMaximum": limit}
    text = {"type": "string", "pattern": rf"^[0-9.]+\s*({'|'.join(SIZE_UNITS)})$"}
    return Rule(check, lambda: {"anyOf": [number, text]})


def rational(positive: bool, limit: int = TERM_LIMIT, most: int | None = None) -> Rule:
    """An exact rational whose numerator and denominator are below `limit`; positive or not negative, and at most `most`."""

    def check(value: Any) -> Fraction:
        try:
            exact = parse_rational(value)
        except ValueError as error:
            raise refuse(str(error)) from None
        if exact < 0 or (positive and exact == 0):
            raise refuse("it must be above 0" if positive else "it must be at least 0")
        if most is not None and exact > most:
            raise refuse(f"it must be at most {most}")
        if exact.numerator >= limit or exact.denominator >= limit:
            raise refuse(f"written as a fraction, its numerator and denominator must be below 2^{limit.bit_length() - 1}")
        return exact

    number = {"type": "number", ("exclusiveMinimum" if positive else "minimum"): 0}
    number |= {} if most is None else {"maximum": most}
    text = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]*)?$|^\.[0-9]+$|^[0-9]+/[0-9]+$"}
    return Rule(check, lambda: {"anyOf": [number, text]})


def _table(key_of: Callable[[Any], Any], least: int = 0) -> Callable[[Any], Any]:
    """A check of a mapping's keys: they are made canonical, and no two may be equal. `least`: the smallest number of keys."""

    def check(value: Any) -> Any:
        if not isinstance(value, dict):
            raise refuse("it must be a mapping")
        if len(value) < least:
            raise refuse(f"it must have at least {least} key")
        table: dict[Any, Any] = {}
        for key, item in value.items():
            canonical = key_of(key)
            if canonical in table:
                raise refuse(f"it has the key {canonical} twice")
            table[canonical] = item
        return table

    return check


def _qbits_key(key: Any) -> int:
    for qbits in QBITS:
        if not isinstance(key, bool) and (key == qbits or key == str(qbits)):
            return qbits
    raise refuse(f"its keys must be among the qbits {', '.join(map(str, QBITS))}, and {shown(key)} is not")


def _op_key(key: Any) -> str:
    if not isinstance(key, str) or re.fullmatch(r"[a-z][a-z0-9_]{0,39}", key) is None:
        raise refuse(f"its keys must be names of vector ops in lower case, and {shown(key)} is not")
    return key


def _sfu_key(key: Any) -> str:
    name: str = _op_key(key)
    if name in WITHOUT_SFU:
        raise refuse(f"the time of {name} has no sfu term of its own")
    return name


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise refuse("it must be true or false")
    return value


def _place(value: Any) -> tuple[int, int]:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise refuse("it must be a pair [row, col]")
    row, col = (_in_range(item, 0, MAX_MESH_SIDE) for item in value)
    return row, col


def _pair(value: Any) -> tuple[int, int]:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise refuse("it must be a pair of integers")
    first, second = (_in_range(item, 1, TERM_LIMIT) for item in value)
    return first, second


_NAME = "[A-Za-z][A-Za-z0-9_]{0,39}"


def _name(value: Any) -> str:
    if not isinstance(value, str) or re.fullmatch(_NAME, value) is None:
        raise refuse("it must be a name of letters, digits and _, of at most 40")
    return value


def _listed(value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        raise refuse("it must be a list")
    return value


def _mapping_schema(pattern: str, values: Rule, **more: Any) -> Callable[[], JsonSchema]:
    return lambda: {"type": "object", "patternProperties": {pattern: values.json()}, "additionalProperties": False, **more}


_QBITS_PATTERN = f"^({'|'.join(map(str, QBITS))})$"
_RATE = rational(positive=True)
_ENERGY = rational(positive=False, limit=WIDE_LIMIT)
_NATURAL = integer(0)

Count = Annotated[int, integer(1)]
Natural = Annotated[int, _NATURAL]
Signed = Annotated[int, integer(-TERM_LIMIT + 1)]
Engines = Annotated[int, integer(1, MAX_ENGINES + 1)]
Size = Annotated[int, size()]
TermSize = Annotated[int, size(limit=TERM_LIMIT)]
Rate = Annotated[Fraction, _RATE]
Energy = Annotated[Fraction, _ENERGY]
#: A length or position in millimetres.
Length = Annotated[Fraction, rational(positive=False)]
Width = Annotated[Fraction, _RATE]
Frequency = Annotated[Fraction, rational(positive=True, limit=WIDE_LIMIT, most=MAX_GHZ)]
Factors = Annotated[dict[int, Rate], Rule(_table(_qbits_key), _mapping_schema(_QBITS_PATTERN, _RATE))]
#: Rates by numbers of bits, at least one.
Rates = Annotated[dict[int, Rate], Rule(_table(_qbits_key, 1), _mapping_schema(_QBITS_PATTERN, _RATE, minProperties=1))]
Energies = Annotated[dict[int, Energy], Rule(_table(_qbits_key), _mapping_schema(_QBITS_PATTERN, _ENERGY))]
SfuCycles = Annotated[dict[str, Natural], Rule(_table(_sfu_key), _mapping_schema("^[a-z][a-z0-9_]*$", _NATURAL))]
Flag = Annotated[bool, Rule(_flag, lambda: {"type": "boolean"})]
MeshCoordinates = Annotated[
    tuple[int, int],
    Rule(_place, lambda: {"type": "array", "items": integer(0).json(), "minItems": 2, "maxItems": 2}),
]
Places = Annotated[
    tuple[MeshCoordinates, ...],
    Rule(_listed, lambda: {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}}),
]
#: A name chosen by the user.
Name = Annotated[str, Rule(_name, lambda: {"type": "string", "pattern": f"^{_NAME}$"})]
_PAIR = Rule(_pair, lambda: {"type": "array", "items": integer(1).json(), "minItems": 2, "maxItems": 2})
#: Pairs of counts.
Pairs = Annotated[
    tuple[Annotated[tuple[int, int], _PAIR], ...],
    Rule(_listed, lambda: {"type": "array", "items": _PAIR.json(), "minItems": 1}),
]
#: A share of something: above 0 and at most 1.
Share = Annotated[Fraction, rational(positive=True, most=1)]
#: Factors of vector ops, by their names.
OpFactors = Annotated[dict[str, Rate], Rule(_table(_op_key), _mapping_schema("^[a-z][a-z0-9_]*$", _RATE))]
