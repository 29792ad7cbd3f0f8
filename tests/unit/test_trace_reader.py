"""Trace files are read up to where they break, and say where that is; the records are the lines."""

from __future__ import annotations

import gzip
import json
import os
import sys
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kernbench.common.errors import InputError
from kernbench.trace import Trace, files, open_trace, schema
from kernbench.trace.events import RECORDS, decode, encode
from tests.trace_samples import lawful, lines, meta, one_of_each, record, write_trace

PACKED = ["t.jsonl", "t.jsonl.gz", "t.jsonl.zst"]
LINE = b'{"event_type":"CMD_START","t_cycle":0,"cmd_id":0,"unit":"dma0"}\n'


def needs(name: str) -> None:
    if name.endswith(".zst"):
        try:
            files.zstd_module()
        except InputError:
            pytest.skip("zstd is not installed")


def with_line(folder: Path, line: bytes, after: int = 20) -> Trace:
    """The lawful trace with one more line."""
    whole = lines(lawful()).splitlines(keepends=True)
    path = folder / "t.jsonl"
    path.write_bytes(b"".join([*whole[:after], line, *whole[after:]]))
    return open_trace(path)


def read(trace: Trace) -> tuple[int, str]:
    """How many records there are, and where the file breaks off."""
    count = sum(1 for _ in trace)
    return count, str(trace.broken)


@pytest.mark.parametrize("name", PACKED)
def test_one_of_each_comes_back(tmp_path: Path, name: str) -> None:
    needs(name)
    records = one_of_each()
    assert {one.event.name for one in records} == set(schema.BY_NAME)
    trace = open_trace(write_trace(tmp_path / name, records))
    for _ in range(2):  # iterating again reads again
        assert [trace.meta, *trace, trace.end] == records
        assert trace.broken is None and trace.skipped == 0


def test_samples_give_every_field(tmp_path: Path) -> None:
    given = {(one.event.name, f) for one in one_of_each() for f in one.__struct_fields__ if getattr(one, f) is not None}
    assert {(event.name, field.name) for event in schema.EVENTS for field in event.fields} <= given


def test_a_line_has_its_keys_in_the_order_of_the_schema() -> None:
    for one in one_of_each():
        line = encode(one)
        keys = list(json.loads(line))
        own = [field.name for field in one.event.fields]
        common = [field.name for field in schema.COMMON_FIELDS if field.name not in own]
        order = ["event_type", "t_cycle", *own, *common[1:]]
        assert keys == [name for name in order if name in keys]
        assert decode(line) == one
        assert line.decode() == json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":"))


def test_absent_and_null_are_the_same() -> None:
    line = b'{"event_type":"JOB_ISSUE","t_cycle":1,"job_id":2,"cmd_id":3,"unit":"te0","job_type":"TE_GEMM","vec_chunk_id":null}'
    one = decode(line)
    assert one == record("JOB_ISSUE", 1, job_id=2, cmd_id=3, unit="te0", job_type="TE_GEMM")
    assert one.vec_chunk_id is None and one.core_id is None and b"vec_chunk_id" not in encode(one)


def test_text_is_not_escaped_and_comes_back() -> None:
    one = record("MARKER", 0, marker='ü " \\ \n \x1b[31m 漢\u2028', cmd_id=1)
    assert decode(encode(one)) == one and "ü".encode() in encode(one) and b"\n" not in encode(one)


def test_a_file_cut_anywhere_gives_its_whole_lines(tmp_path: Path) -> None:
    text = lines(lawful())
    path = tmp_path / "t.jsonl"
    first = text.index(b"\n") + 1
    for at in [*range(first, len(text) - 1, 61), len(text) - 2]:
        path.write_bytes(text[:at])
        trace = open_trace(path)
        records = list(trace)
        whole = text[:at].count(b"\n") + text[at : at + 1].count(b"\n")  # a line may lack its line feed alone
        assert records == lawful()[1:whole] and trace.end is None and trace.broken is not None
        start = text[:at].rfind(b"\n") + 1
        cut_off = start < at and text[at : at + 1] != b"\n"
        reason = "the line is cut off" if cut_off else "the file ends without TRACE_END"
        offset = start if cut_off else at
        assert (trace.broken.line, trace.broken.offset, trace.broken.reason) == (whole + 1, offset, reason)
    path.write_bytes(text[:-1])
    assert read(open_trace(path)) == (73, "None")


@pytest.mark.parametrize("name", PACKED[1:])
def test_packed_data_that_is_cut_off_gives_a_prefix(tmp_path: Path, name: str) -> None:
    needs(name)
    data = write_trace(tmp_path / name, lawful()).read_bytes()
    kind = "gzip" if name.endswith("gz") else "zstd"
    read_at = []
    for at in range(len(data) // 2, len(data), 53):
        (tmp_path / name).write_bytes(data[:at])
        text = zlib.decompressobj(31).decompress(data[:at]) if kind == "gzip" else b""
        if kind == "gzip" and b"\n" in text:
            trace = open_trace(tmp_path / name)
            read_at.append(len(list(trace)))
            assert read_at[-1] == text.count(b"\n") - 1
            assert trace.broken is not None and trace.broken.reason == f"the {kind} data is cut off"
            assert trace.broken.offset == text.rfind(b"\n") + 1
        elif kind == "zstd":  # one block, of which nothing comes out before all of it is there
            with pytest.raises(InputError, match="its first line cannot be unpacked"):
                open_trace(tmp_path / name)
    assert kind == "zstd" or len(set(read_at)) > 5


@pytest.mark.parametrize("name", PACKED[1:])
def test_corrupt_data_is_read_to_the_last_good_byte(tmp_path: Path, name: str) -> None:
    needs(name)
    body = [record("CMD_START", i, cmd_id=i * 2654435761 % 2**32, unit="dma0") for i in range(20_000)]
    path = write_trace(tmp_path / name, [meta(), *body])
    data = bytearray(path.read_bytes())
    data[-100:-70] = bytes(30)
    path.write_bytes(data)
    trace = open_trace(path)
    records = list(trace)
    assert records == body[: len(records)] and trace.broken is not None and trace.broken.line == len(records) + 2
    assert len(records) > (19_000 if name.endswith("gz") else 10_000)  # zstd unpacks whole blocks of 128 KiB
    said = f"the {'gzip' if name.endswith('gz') else 'zstd'} data is corrupt at its byte "
    assert trace.broken.reason.startswith(said) or "JSON" in trace.broken.reason  # it may unpack to garbage first


def test_all_that_can_be_unpacked_comes_before_the_break(tmp_path: Path) -> None:
    body = [record("CMD_START", i, cmd_id=i * 2654435761 % 2**32, unit="dma0") for i in range(2_000)]
    whole = gzip.compress(lines([meta(), *body]), mtime=0)
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(whole[:-8] + bytes(8))  # the check sum is wrong, all the rest is right
    trace = open_trace(path)
    assert list(trace) == body and trace.broken is not None
    assert trace.broken.reason == f"the gzip data is corrupt at its byte {len(whole) - 5:,}"
    assert (trace.broken.line, trace.broken.offset) == (2_002, len(lines([meta(), *body])))


def test_packed_members_may_follow_each_other(tmp_path: Path) -> None:
    text = lines(lawful())
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress(text[:5000], mtime=0) + gzip.compress(text[5000:], mtime=0) + bytes(512))
    assert read(open_trace(path)) == (73, "None")


GARBLED = [
    (b"\n", "the line is empty"),
    (b"nonsense\n", "this is not valid JSON: invalid character (byte 4)"),
    (LINE.replace(b":0,", b":NaN,", 1), "this is not valid JSON: invalid character (byte 36)"),
    (LINE.replace(b":0,", b":-Infinity,", 1), "this is not valid JSON: invalid character (byte 37)"),
    (LINE[:-1] + LINE, "this is not valid JSON: trailing characters (byte 64)"),
    (LINE[:30] + b"\n", "this is not valid JSON: invalid character (byte 30)"),
    (LINE[:-2] + b"\n", "this is not valid JSON: Input data was truncated"),
    (LINE.replace(b"dma0", b"\xff"), "it is not UTF-8"),
    (b"[" * 100_000 + b"\n", "it is nested too deeply"),
    (b"[1]\n", "Expected object, got array"),
    (LINE.replace(b":0,", b":1.5,", 1), "t_cycle: Expected int, got float"),
    (LINE.replace(b',"unit":"dma0"', b""), "Object missing required field unit"),
    (LINE.replace(b"CMD_START", b"CMD_\\u001bSTART"), "version 1.2 has no event type CMD_\\u001bSTART"),
    (LINE.replace(b"event_type", b"event"), "Object missing required field event_type"),
    (lines([meta()]), "a second TRACE_META"),
]


@pytest.mark.parametrize(("line", "reason"), GARBLED, ids=[reason[:40] for _, reason in GARBLED])
def test_a_garbled_line_is_the_break(tmp_path: Path, line: bytes, reason: str) -> None:
    trace = with_line(tmp_path, line)
    assert list(trace) == lawful()[1:20]
    assert trace.end is None and trace.broken is not None
    assert (trace.broken.line, trace.broken.offset) == (21, len(lines(lawful()[:20])))
    assert trace.broken.reason == reason


def test_nothing_follows_the_last_line(tmp_path: Path) -> None:
    trace = with_line(tmp_path, LINE, after=75)
    assert read(trace) == (73, f"line 76 (byte {len(lines(lawful())):,}): there is more after TRACE_END")
    assert trace.end == lawful()[-1]


REFUSED: list[tuple[bytes, str]] = [
    (b"", "it is empty, or its first line cannot be unpacked; is it a trace?"),
    (b"# a program\n", "its first line must be TRACE_META; is it a trace?"),
    (LINE, "its first line must be TRACE_META; is it a trace?"),
    (lines([meta()])[:300], "its first line must be TRACE_META; is it a trace?"),
    (lines([meta(version="2.0")]), '1: version = "2.0", but this kernbench reads 1.x; use a newer kernbench'),
    (lines([meta(version="0.9")]), '1: version = "0.9", but this kernbench reads 1.x'),
    (lines([meta(version="one")]), '1: version = "one", but this kernbench reads 1.x'),
    (lines([meta()]).replace(b'"commands":5', b'"commands":"five"'),
     "1: TRACE_META does not fit the schema: commands: Expected int, got str"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "rule"), REFUSED, ids=[rule[:30] for _, rule in REFUSED])
def test_what_is_no_trace_is_refused(tmp_path: Path, data: bytes, rule: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(data)
    with pytest.raises(InputError) as error:
        open_trace(path)
    assert str(error.value) == f"{path}:{'' if rule.startswith('1') else ' '}{rule}"


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system has no /dev/fd")
def test_a_pipe_is_refused() -> None:
    ours, theirs = os.pipe()
    os.write(theirs, LINE)
    os.close(theirs)
    try:
        with pytest.raises(InputError, match="this is a pipe, but a trace is read more than once; write"):
            open_trace(f"/dev/fd/{ours}")
    finally:
        os.close(ours)


def test_files_that_cannot_be_opened_are_refused(tmp_path: Path) -> None:
    unread = ((tmp_path, "cannot be read: Is a directory"), ("\0", "cannot be read: embedded null"))
    for path, reason in ((tmp_path / "no", "does not exist"), *unread):
        with pytest.raises(InputError, match=f"the file {reason}"):
            open_trace(path)


def test_a_python_without_zstd_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.jsonl.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd and more")
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    with pytest.raises(InputError, match=r"trace: this Python has no zstd; pip install backports\.zstd, or name a \.jsonl\.gz"):
        open_trace(path)


def test_a_newer_minor_version_is_read_without_what_is_new(tmp_path: Path) -> None:
    more = [b'{"event_type":"QUANTUM","t_cycle":0}\n', LINE.replace(b"}", b',"colour":[{}]}')]
    path = tmp_path / "t.jsonl"
    path.write_bytes(lines([meta(version="1.99")]) + b"".join(more) + lines(lawful()[1:]))
    trace = open_trace(path)
    assert [trace.newer, *trace] == [True, record("CMD_START", 0, cmd_id=0, unit="dma0"), *lawful()[1:-1]]
    assert (trace.skipped, trace.broken) == (1, None)


def test_some_fields_alone_can_be_read(tmp_path: Path) -> None:
    trace = open_trace(write_trace(tmp_path / "t.jsonl", one_of_each()))
    records = [one for batch in trace.batches({"TE_END": ["t_cycle", "mac_count"]}) for one in batch]
    assert [one.event.name for one in records] == [one.event.name for one in one_of_each()[1:-1]]
    assert [one.__struct_fields__ for one in records if one.event.name != "TE_END"] == [()] * (len(records) - 1)
    (te,) = [one for one in records if one.event.name == "TE_END"]
    assert (te.t_cycle, te.mac_count) == (13, 4194304) and trace.end is not None and trace.end.cycles == 41


def test_a_line_past_all_bounds_is_a_break(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE", 1 << 20)
    trace = with_line(tmp_path, LINE[:-2] + b',"x":"' + b"x" * (1 << 21) + b'"}\n')
    count, broken = read(trace)
    assert count == 19 and broken.endswith("a line is longer than 1 MiB")


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(lines([meta(), *lawful()[1:-1] * 700, lawful()[-1]]))
    assert path.stat().st_size > 6_000_000
    tracemalloc.start()
    count = sum(1 for _ in open_trace(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 73 * 700 and peak < 3_000_000


def test_records_are_made_from_the_schema() -> None:
    assert list(RECORDS) == [event.name for event in schema.EVENTS]
    for name, kind in RECORDS.items():
        required = {field.name for field in msgspec.structs.fields(kind) if field.required}
        wanted: dict[str, Any] = {field.name: field.required for field in schema.BY_NAME[name].fields}
        assert required == {"t_cycle", *(field for field, needed in wanted.items() if needed)}
        assert kind.event is schema.BY_NAME[name] and kind.__doc__ == kind.event.doc
