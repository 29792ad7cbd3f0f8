"""Plain lines of a trace: read without msgspec, they are the records that msgspec reads, and break the same laws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench.trace import open_trace
from kernbench.trace.events import encode, strict_types
from kernbench.trace.laws.line import NAMES, Line
from kernbench.trace.laws.scan import Scan
from kernbench.trace.validate import validate
from tests.trace_samples import lawful, one_of_each

LINES = [encode(one) + b"\n" for one in (*lawful()[1:-1], *one_of_each()[1:-1])]
DECODER = msgspec.json.Decoder(strict_types())
BYTES = b'"\\,:{}[]0123456789-+.eE \n\x00\x1f\x7f\x80\xc3aT'
VALUES = [-1, 0, 1, 5, 7, 2**53, 10**18 - 1, 10**18, 2**63 - 1, 2**63, 1.5, 0.1, 1e300, "", "te0", "dma0", "spm", "OK", "x",
          "bank_conflict", "READ", "\u00e4", 'a"b', True, None, [], [1, 2], ["DMA"], {}]  # fmt: skip
RELAXED = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))


def fields(line: Line, event: Any) -> dict[str, Any]:
    """What laws may look at."""
    own = {"t_cycle", *(field.name for field in event.fields if field.name in NAMES)}
    return {"event": line.event.name, "unit": line.unit, **{name: getattr(line, name) for name in own}}


def opened(text: bytes) -> Scan:
    scan = Scan()
    scan.open(text)
    return scan


def assert_same(text: bytes) -> bool:
    """A line that is plain is a record, and the same one; whether it is plain."""
    scan, decoded = opened(text), Line()
    if scan.next(0) < 0:
        return False
    record = DECODER.decode(text)
    decoded.take(record)
    got, wanted = fields(scan.line, record.event), fields(decoded, record.event)
    assert got == wanted and {name: type(one) for name, one in got.items()} == {
        name: type(one) for name, one in wanted.items()}  # fmt: skip
    return True


def test_the_lines_that_kernbench_writes_are_plain() -> None:
    assert [text for text in LINES if not assert_same(text)] == []


@given(text=st.sampled_from(LINES), data=st.data())
@RELAXED
def test_a_damaged_line_is_the_same_record_or_not_plain(text: bytes, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 3))
        added = bytes(data.draw(st.lists(st.sampled_from(BYTES), max_size=3)))
        text = text[:at] + added + text[at + cut :]
    assert_same(text)


@given(text=st.sampled_from(LINES), data=st.data())
@RELAXED
def test_a_line_with_other_values_is_the_same_record_or_not_plain(text: bytes, data: st.DataObject) -> None:
    known = json.loads(text)
    for _ in range(data.draw(st.integers(1, 3))):
        known[data.draw(st.sampled_from(sorted(known)[1:]))] = data.draw(st.sampled_from(VALUES))
    ascii_only = data.draw(st.booleans())
    made = json.dumps(known, separators=(",", ":"), ensure_ascii=ascii_only).encode() + b"\n"
    try:
        DECODER.decode(made)
    except msgspec.ValidationError:
        assert opened(made).next(0) < 0
    else:
        assert_same(made)


@given(data=st.data())
@RELAXED
def test_a_trace_breaks_the_same_laws_whether_its_lines_are_plain(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    lines = [json.loads(encode(one)) for one in lawful()]
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(1, len(lines) - 2))
        what = data.draw(st.sampled_from(["drop", "double", "swap", "value"]))
        if what == "drop":
            del lines[at]
        elif what == "double":
            lines.insert(at, dict(lines[at]))
        elif what == "swap":
            other = data.draw(st.integers(1, len(lines) - 2))
            lines[at], lines[other] = lines[other], lines[at]
        else:
            name = data.draw(st.sampled_from(sorted(lines[at])))
            lines[at][name] = data.draw(st.sampled_from(VALUES))
    folder: Path = tmp_path_factory.mktemp("traces")
    found = []
    for start in ("{", "{ "):  # a line with a space is read by msgspec
        texts = [start + json.dumps(line, separators=(",", ":"))[1:] for line in lines]
        (folder / "t.jsonl").write_text("\n".join(texts) + "\n")
        report = validate(open_trace(folder / "t.jsonl"), 100)
        broken = report.broken and (report.broken.line, report.broken.reason)
        found.append((report.violations, report.counts, report.events, report.skipped, broken))
    assert found[0] == found[1]
