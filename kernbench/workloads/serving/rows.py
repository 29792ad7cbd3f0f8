"""A row for each request, as CSV or Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import check_writable, not_written, placed, target_of

_COUNTS = ("id", "prompt", "output", "generated", "cached", "preemptions")
NAMES = (
    "id", "state", "arrival_ms", "prompt", "output", "generated", "cached", "preemptions", "queue_ms", "ttft_ms", "tpot_ms",
    "e2el_ms", "joules",
)  # fmt: skip
_GROUP = 1 << 16  #: rows of a Parquet row group


def check_rows(path: Path) -> None:
    """Raises InputError if `write_rows` would refuse the file."""
    check_writable(path)
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(Problem("kbsim serve", "the file name must end in .csv or .parquet", "--rows", str(path)))
    if path.suffix.lower() == ".parquet":
        _arrow()


def write_rows(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Write the rows as they arrive. Raises InputError if the file cannot be written, or if the ending of its name is not
    supported."""
    check_rows(path)
    try:
        with placed(target_of(path)) as out:
            (_write_csv if path.suffix.lower() == ".csv" else _write_parquet)(rows, out)
    except OSError as error:
        raise not_written(path, error) from None


def _write_csv(rows: Iterable[dict[str, Any]], out: BinaryIO) -> None:
    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    writer = csv.DictWriter(text, NAMES, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    text.detach()


def _write_parquet(rows: Iterable[dict[str, Any]], out: BinaryIO) -> None:
    arrow, parquet = _arrow()
    kinds = {**dict.fromkeys(NAMES, arrow.float64()), **dict.fromkeys(_COUNTS, arrow.int64()), "state": arrow.string()}
    schema = arrow.schema(list(kinds.items()))
    with parquet.ParquetWriter(out, schema, compression="zstd", store_schema=False) as writer:
        group: list[dict[str, Any]] = []
        for row in rows:
            group.append(row)
            if len(group) == _GROUP:
                writer.write_table(arrow.Table.from_pylist(group, schema))
                group = []
        writer.write_table(arrow.Table.from_pylist(group, schema))


def _arrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        rule = "Parquet needs a package that is not installed"
        raise InputError(Problem("--rows", rule, remedy="pip install 'kernbench[analysis]'")) from None
