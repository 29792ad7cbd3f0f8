"""The cells of a row of a published table: numbers, sizes, types and units, with the errors of wrong ones."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TypeVar

from kernbench.analysis.chips.columns import alike
from kernbench.common.spelling import nearest

Cells = Mapping[str, str]
Value = TypeVar("Value")
LINE = "line of the file"  #: a column that every row gets
LIMIT = 1e18  #: the largest number in a table; steps of the largest models have fewer operations
MAX_TOKENS = 1 << 20  #: most tokens of a step


def row_name(row: Cells) -> str:
    """How messages call a row."""
    return f"row {row['id']}" if row.get("id") else f"line {row.get(LINE, '?')}"


def number_in(row: Cells, name: str) -> float:
    """A cell; 0 if it is empty or the column does not exist."""
    text = row.get(name) or ""
    if not text:
        return 0.0
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= LIMIT:
        unit = re.fullmatch(r"([0-9.]+)\s*([num]?s)", text.strip())
        remedy = f"; write {unit[1]}, and {unit[2]} in a column unit" if unit else ""
        raise ValueError(f"{name} = {text!r}, but it must be a number from 0 to {LIMIT:.0e}{remedy}")
    return value


def whole_in(row: Cells, name: str) -> int:
    value = number_in(row, name)
    if not value.is_integer():
        raise ValueError(f"{name} = {row[name]!r}, but it must be a whole number")
    return int(value)


def tokens_in(row: Cells, name: str) -> int:
    value = whole_in(row, name)
    if value > MAX_TOKENS:
        raise ValueError(f"{name} = {value}, but a step takes at most {MAX_TOKENS} tokens or sequences")
    return value


def shape_in(row: Cells, names: str) -> list[int]:
    """The sizes of a product, each at least 1."""
    sizes = [whole_in(row, name) for name in names]
    for name, size in zip(names, sizes, strict=True):
        if size < 1:
            raise ValueError(f"{given_text(row, name)}, but a product needs at least 1{meant_column(row, name)}")
    return sizes


def at_least_1(row: Cells, name: str) -> int:
    value = whole_in(row, name)
    if value < 1:
        raise ValueError(f"{given_text(row, name)}, but it must be at least 1{meant_column(row, name)}")
    return value


def kv_heads_of(row: Cells) -> int:
    """The KV heads of queries with the heads of a row; without the column, each query head has its own."""
    heads = whole_in(row, "heads")
    kv_heads = whole_in(row, "kv_heads") or heads
    if heads % kv_heads:
        raise ValueError(f"kv_heads = {kv_heads}, but it must divide heads = {heads}")
    return kv_heads


def given_text(row: Cells, name: str) -> str:
    return f"{name} = {row.get(name) or 'nothing'}"


def meant_column(row: Cells, name: str) -> str:
    """The remedy for a missing column of which several other columns could have the values."""
    found = [] if name in row else alike(row, name)
    return f"; rename one of {', '.join(found)} to {name}" if found else ""


def measured_in(row: Cells) -> float:
    value = number_in(row, "measured")
    if value < 1 / LIMIT:
        raise ValueError(f"measured = {row.get('measured') or 'nothing'}, but it must be above 0")
    return value


def choice_in(row: Cells, name: str, known: Mapping[str, Value]) -> Value:
    text = row.get(name) or ""
    if text not in known:
        near = nearest(text.lower().replace("μ", "u").replace("µ", "u").replace("micro", "u").replace("milli", "m"), known)
        remedy = f"; did you mean {near}?" if near else ""
        raise ValueError(f"{name} = {text!r}, but it must be one of {', '.join(known)}{remedy}")
    return known[text]


UNITS = {"ns": 1e3, "us": 1.0, "ms": 1e-3, "s": 1e-6}  #: units of the measured times of operations: how many are a microsecond
#: Bits of the multiplier and bytes of an element, by the value in the column `dtype` of a table of operations.
TYPES = {
    **dict.fromkeys(("fp32", "float32", "f32", "tf32"), (32, 4.0)),
    **dict.fromkeys(("", "fp16", "float16", "f16", "half", "bf16", "bfloat16"), (16, 2.0)),
    **dict.fromkeys(("fp8", "float8", "f8", "fp8_e4m3", "fp8_e5m2", "float8_e4m3fn", "float8_e5m2", "e4m3", "e5m2"), (8, 1.0)),
    **dict.fromkeys(("int8", "i8"), (8, 1.0)),
    **dict.fromkeys(("int4", "i4", "fp4"), (4, 0.5)),
}  # fmt: skip


def type_name(row: Cells) -> str:
    return (row.get("dtype") or "").lower().removeprefix("torch.")


def type_of(row: Cells) -> tuple[int, float]:
    """Bits of the multiplier and bytes of an element of an operation; 16 bits without the column `dtype`."""
    text = type_name(row)
    if text not in TYPES:
        raise ValueError(f"dtype = {row['dtype']!r}, but it must be one of {', '.join(filter(None, TYPES))}")
    return TYPES[text]


def units_per_us(row: Cells) -> float:
    """Units of the measured time of an operation in a microsecond."""
    return choice_in({"unit": row.get("unit") or "us"}, "unit", UNITS)


def node_size(row: Cells) -> int:
    """The number of chips of a node; 0 if the row does not have an integer there."""
    text = row.get("devices_per_node") or ""
    return int(text) if text.isdigit() else 0


def crosses_nodes(row: Cells) -> bool:
    workers = row.get("workers") or ""
    return workers.isdigit() and 0 < node_size(row) < int(workers)
