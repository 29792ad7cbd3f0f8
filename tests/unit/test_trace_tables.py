"""Traces as CSV, Parquet and self-contained lines: all that is in the file comes back."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kernbench.common.errors import InputError
from kernbench.trace.events import Record, encode
from kernbench.trace.exporters import write as sink
from kernbench.trace.exporters.event_rows import columns
from kernbench.trace.exporters.write import Format, export
from kernbench.trace.files import zstd_module
from kernbench.trace.reader import open_trace
from kernbench.trace.schema import COMMON_FIELDS, EVENTS
from tests.trace_samples import lawful, meta, one_of_each, record, write_trace

NO_PYARROW = pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed")
FREQ = 1.5


def exported(records: list[Record], form: Format, folder: Path) -> Path:
    out = folder / f"x.{form.value}"
    export(open_trace(write_trace(folder / "x.jsonl", records)), form, out)
    return out


def full(records: list[Record]) -> Iterator[dict[str, Any]]:
    """What every row must say: the record's own fields, and the common ones that the first line has for all."""
    for one in records:
        own = json.loads(encode(one))
        common = {"sim_id": "5f2a9c", **records[0].defaults, "t_ns": own["t_cycle"] / FREQ}
        yield {**common, **own}


def texts(row: dict[str, Any]) -> dict[str, Any]:
    """As a table has it: lists and objects as JSON text, labels as text."""
    made = {}
    for name, value in row.items():
        text = isinstance(value, (list, dict)) or name == "marker"
        made[name] = json.dumps(value, separators=(",", ":")) if text and not isinstance(value, str) else value
    return made


@pytest.mark.parametrize("records", [one_of_each(), lawful()], ids=["one_of_each", "lawful"])
def test_lines_are_the_trace_with_every_common_field(records: list[Record], tmp_path: Path) -> None:
    out = exported(records, Format.JSONL, tmp_path)
    rows = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert rows == list(full(records))
    again = open_trace(out)
    assert [one.event.name for one in again] == [one.event.name for one in records[1:-1]] and again.broken is None
    export(again, Format.JSONL, tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == out.read_bytes()


@pytest.mark.parametrize("records", [one_of_each(), lawful()], ids=["one_of_each", "lawful"])
def test_csv_has_every_field_in_its_column(records: list[Record], tmp_path: Path) -> None:
    data = exported(records, Format.CSV, tmp_path).read_bytes()
    assert data.count(b"\r\n") == data.count(b"\n") == len(records) + 1
    read = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    assert list(read[0]) == list(columns())
    for row, wanted in zip(read, full(records), strict=True):
        assert {name: value for name, value in row.items() if value} == {
            name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in texts(wanted).items()
        }


def test_columns_are_those_of_the_schema() -> None:
    made = columns()
    assert list(made)[: 1 + len(COMMON_FIELDS)] == ["event_type", *(one.name for one in COMMON_FIELDS)]
    assert made.keys() == {
        "event_type",
        *(one.name for fields in (COMMON_FIELDS, *(e.fields for e in EVENTS)) for one in fields),
    }
    for event in EVENTS:
        assert [one.name for one in event.fields if made[one.name] != one.kind] == [], event.name


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "'quoted", 'a "b", c\r\nd', "ünïcode"])
def test_no_cell_is_a_formula_and_every_text_comes_back(text: str, tmp_path: Path) -> None:
    data = exported([meta(), record("MARKER", 1, marker=text, cmd_id=0)], Format.CSV, tmp_path).read_bytes()
    row = list(csv.DictReader(io.StringIO(data.decode(), newline="")))[1]
    cell = row["marker"]
    assert cell[0] not in "=+-@\t\r"
    assert (cell[1:] if cell.startswith("'") else cell) == text


@NO_PYARROW
@pytest.mark.parametrize("records", [one_of_each(), lawful()], ids=["one_of_each", "lawful"])
def test_parquet_has_every_field_with_its_type(records: list[Record], tmp_path: Path) -> None:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(exported(records, Format.PARQUET, tmp_path))
    assert table.column_names == list(columns())
    kinds = {
        "int": "int64",
        "number": "double",
        "flag": "bool",
        "ints": "list<element: int64>",
        "texts": "list<element: string>",
    }
    for name, kind in columns().items():
        assert str(table.schema.field(name).type) == kinds.get(kind, "string"), name
    lists = [name for name, kind in columns().items() if kind in ("ints", "texts")]
    for row, wanted in zip(table.to_pylist(), full(records), strict=True):
        given = {name: value for name, value in row.items() if value is not None}
        assert given == {**texts(wanted), **{name: wanted[name] for name in lists if name in wanted}}


@NO_PYARROW
def test_parquet_is_written_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet

    from kernbench.trace.exporters import parquet

    monkeypatch.setattr(parquet, "ROWS", 20)
    file = pyarrow.parquet.ParquetFile(exported(lawful(), Format.PARQUET, tmp_path))
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    assert sizes == [20, 20, 20, 15] and sum(sizes) == len(lawful())


@NO_PYARROW
def test_the_largest_integers_come_through(tmp_path: Path) -> None:
    import pyarrow.parquet

    most = 2**63 - 1
    records = [
        meta(),
        record("CMD_START", most, cmd_id=most, unit="x"),
        record("QUEUE_SAMPLE", most, unit="x", queued=[most], active=[]),
    ]
    rows = pyarrow.parquet.read_table(exported(records, Format.PARQUET, tmp_path)).to_pylist()
    assert (rows[1]["t_cycle"], rows[1]["cmd_id"], rows[2]["queued"]) == (most, most, [most])


@pytest.mark.parametrize("form", [Format.CSV, Format.JSONL, pytest.param(Format.PARQUET, marks=NO_PYARROW)])
def test_same_input_same_bytes(form: Format, tmp_path: Path) -> None:
    first = exported(lawful(), form, tmp_path).read_bytes()
    assert exported(lawful(), form, tmp_path).read_bytes() == first


def test_names_say_how_files_are_packed(tmp_path: Path) -> None:
    trace = open_trace(write_trace(tmp_path / "x.jsonl", lawful()))
    for name in ("y.jsonl", "y.jsonl.gz", "y.jsonl.zst"):
        export(trace, Format.JSONL, tmp_path / name)
    plain = (tmp_path / "y.jsonl").read_bytes()
    packed = (tmp_path / "y.jsonl.gz").read_bytes()
    assert gzip.decompress(packed) == plain and packed[4:8] == b"\0\0\0\0"
    assert zstd_module().decompress((tmp_path / "y.jsonl.zst").read_bytes()) == plain


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "precious.csv"
    target.write_text("precious")
    with pytest.raises(ZeroDivisionError), sink.whole_file(target) as out:
        out.write(b"half of it")
        raise ZeroDivisionError
    assert target.read_text() == "precious" and list(tmp_path.iterdir()) == [target]
    with pytest.raises(InputError, match="there is no directory"), sink.whole_file(tmp_path / "no" / "x"):
        pass
    with pytest.raises(InputError, match="No space left"), sink.whole_file("/dev/full") as out:
        out.write(b"x" * 100)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system has no /dev/fd")
def test_a_pipe_without_a_name_is_written_to() -> None:
    ours, theirs = os.pipe()
    with sink.whole_file(f"/dev/fd/{theirs}") as out:
        out.write(b"a table")
    os.close(theirs)
    with open(ours, "rb") as pipe:
        assert pipe.read() == b"a table"


@pytest.mark.parametrize(("form", "extra"), [("perfetto", "perfetto"), ("parquet", "analysis")])
def test_a_missing_package_is_named(form: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import import_module

    module = import_module(f"kernbench.trace.exporters.{form}")

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(module, "import_module", missing)
    with pytest.raises(InputError, match=rf"needs a package that is not installed; pip install 'kernbench\[{extra}\]'"):
        exported(lawful(), Format(form), tmp_path)
    assert not (tmp_path / f"x.{form}").exists()
