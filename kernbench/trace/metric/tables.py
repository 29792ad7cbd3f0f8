"""Metrics as plain data: one nested object for JSON, and rows of one long table for CSV, Parquet and data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from fractions import Fraction
from importlib import import_module
from typing import Any, NamedTuple

from kernbench.common.errors import InputError, Problem
from kernbench.trace.exporters.csv import DANGEROUS
from kernbench.trace.metric.figures import Metrics, StageMetrics, Stall

COLUMNS = ("table", "name", "metric", "unit", "value", "exact")
_UNITS = {
    "cycle": "cycles first last active te ve dma longest busy idle bank_conflict backpressure occupied latency gap cycle ttft "
    "tpot",
    "job-cycle": "running queued command_cycles stalls",
    "member-cycle": "members",
    "B": "bytes read write loaded stored between",
    "B/cycle": "capacity",
    "op/cycle": "peak attained roof",
    "op/B": "intensity ridge",
    "op": "ops",
    "MAC": "macs",
    "ns": "ns",
    "GHz": "freq_ghz",
    "pJ": "energy_pj",
}
UNIT_OF: dict[str, str] = {metric: unit for unit, metrics in _UNITS.items() for metric in metrics.split()}


class Row(NamedTuple):
    """One figure of one engine, resource or group."""

    table: str  #: name of a field of Metrics
    name: str  #: unit, phase, layer or bank; empty if the table has only one item
    metric: str  #: a dot separates the name of a dict from its key: `stalls.backpressure`
    unit: str
    value: float | None  #: None if the figure is a text, or if the file does not have the figure
    exact: str  #: the value as an integer or `p/q`, or the text


def to_dict(metrics: Metrics) -> dict[str, Any]:
    """The object of `kbsim trace summary --format json`: every figure and the values computed from it; rationals are floats."""
    plain = _plain(metrics)
    assert isinstance(plain, dict)
    return plain


def rows(metrics: Metrics) -> Iterator[Row]:
    """Every figure as a row, in a fixed order."""
    for table in fields(metrics):
        value = getattr(metrics, table.name)
        if isinstance(value, tuple):
            for item in value:
                yield from _rows(table.name, _name(item), "", item)
        else:
            yield from _rows(table.name, "", "", value)


def csv_text(metrics: Metrics) -> str:
    """The rows as CSV with a header; control characters in texts are escaped, because the CSV may be printed on a terminal."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for table, name, metric, unit, value, exact in rows(metrics):
        number = value is not None
        writer.writerow([table, _cell(name), _cell(metric), unit, value if number else "", exact if number else _cell(exact)])
    return out.getvalue()


def _cell(text: str) -> str:
    """A text that no spreadsheet interprets as a formula and no terminal as a control sequence."""
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    return f"'{text}" if text.startswith(DANGEROUS) else text


def parquet_bytes(metrics: Metrics) -> bytes:
    """The rows as a Parquet file; InputError if pyarrow is not installed."""
    pyarrow, parquet = analysis("pyarrow"), analysis("pyarrow.parquet")
    kinds = [pyarrow.string()] * 4 + [pyarrow.float64(), pyarrow.string()]
    schema = pyarrow.schema(list(zip(COLUMNS, kinds, strict=True)))
    table = pyarrow.Table.from_pylist([row._asdict() for row in rows(metrics)], schema=schema)
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return bytes(sink.getvalue())


def analysis(module: str) -> Any:
    """A module of the extra `analysis`; InputError if it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        rule = f"{module.partition('.')[0]} is not installed"
        raise InputError(Problem("analysis", rule, remedy="pip install 'kernbench[analysis]'")) from None


def _members(item: Any) -> Iterator[tuple[str, Any]]:
    """The fields and properties of a dataclass, in the order of their definition."""
    for one in fields(item):
        yield one.name, getattr(item, one.name)
    for name, member in vars(type(item)).items():
        if isinstance(member, property):
            yield name, getattr(item, name)


def _name(item: Any) -> str:
    """The name of an item of a table: its unit, for a stall also the reason; or the name of its phase or layer."""
    if isinstance(item, Stall):
        return f"{item.unit}.{item.reason}"
    name = item.name if isinstance(item, StageMetrics) else item.unit
    return "" if name is None else str(name)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {name: _plain(member) for name, member in _members(value)}
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else float(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _rows(table: str, name: str, path: str, value: Any) -> Iterator[Row]:
    if is_dataclass(value) or isinstance(value, dict):
        for key, member in _members(value) if is_dataclass(value) else value.items():
            if path or key not in ("unit", "name", "reason"):
                yield from _rows(table, name, f"{path}.{key}" if path else str(key), member)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _rows(table, f"{name}{i}", path, item)
    elif isinstance(value, int | float | Fraction):
        yield Row(table, name, path, _unit(table, path), float(value), str(value))
    elif value is not None:
        yield Row(table, name, path, "", None, str(value))


def _unit(table: str, path: str) -> str:
    """The unit of a figure, from its table, its group or its name."""
    whole, _, last = path.rpartition(".")
    if last in ("count", "episodes", "open"):
        return ""
    if last == "bandwidth":
        return "B/cycle"
    return UNIT_OF.get(table) or UNIT_OF.get(whole) or UNIT_OF.get(last, "")
