"""The same table as Parquet, with types; made and written in groups of rows, so memory does not grow with the trace."""

from __future__ import annotations

from importlib import import_module
from typing import Any, BinaryIO

from kernbench.common.errors import InputError, Problem
from kernbench.trace.events import Record
from kernbench.trace.exporters.event_rows import columns, filled
from kernbench.trace.exporters.timeline import json_text
from kernbench.trace.reader import Trace
from kernbench.trace.schema import VERSION, Kind

ROWS = 1 << 16  #: number of rows of a group


def export(trace: Trace, out: BinaryIO) -> dict[str, int]:
    """Write a trace as Parquet; return the number of rows. InputError if pyarrow is missing."""
    arrow, parquet = packages()
    kinds = columns()
    schema = arrow.schema([(name, _type(arrow, kind)) for name, kind in kinds.items()], {"kernbench_trace": VERSION})
    rows: list[Record] = []
    count = 0
    texts = [name for name, kind in kinds.items() if kind not in ("int", "number", "flag", "ints")]
    options = {"compression": "zstd", "use_dictionary": texts, "store_schema": False}
    with parquet.ParquetWriter(out, schema, **options) as writer:
        for record in filled(trace):
            rows.append(record)
            if len(rows) == ROWS:
                writer.write_table(_table(arrow, schema, kinds, rows))
                count += len(rows)
                rows.clear()
        writer.write_table(_table(arrow, schema, kinds, rows))
    return {"rows": count + len(rows), "columns": len(kinds)}


def packages() -> tuple[Any, Any]:
    """pyarrow and its Parquet module. InputError if they are missing."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        rule = "Parquet needs a package that is not installed"
        raise InputError(Problem("--to parquet", rule, remedy="pip install 'kernbench[analysis]'")) from None


def _type(arrow: Any, kind: Kind) -> Any:
    if kind == "ints":
        return arrow.list_(arrow.int64())
    if kind == "texts":
        return arrow.list_(arrow.string())
    return {"int": arrow.int64(), "number": arrow.float64(), "flag": arrow.bool_()}.get(kind, arrow.string())


def _table(arrow: Any, schema: Any, kinds: dict[str, Kind], rows: list[Record]) -> Any:
    arrays = []
    for field in schema:
        name, kind = field.name, kinds[field.name]
        if name == "event_type":
            values: list[Any] = [record.event.name for record in rows]
        else:
            values = [_value(getattr(record, name, None), kind) for record in rows]
        arrays.append(arrow.array(values, field.type))
    return arrow.Table.from_arrays(arrays, schema=schema)


def _value(value: Any, kind: Kind) -> Any:
    """A value as its column holds it: numbers as doubles, labels and objects as text."""
    if value is None or kind in ("int", "ints", "flag", "texts") or isinstance(value, str):
        return value
    return float(value) if kind == "number" else json_text(value)
