"""The page about traces leaves nothing out, and its example is what the reference writes."""

from __future__ import annotations

import json
import re

import pytest

from kernbench.trace import schema
from kernbench.trace.schema import EVENTS
from tests.docs.test_build import DOCS, first_cells, part
from tests.oracles.ref_trace import reference_trace

pytestmark = pytest.mark.skipif(not (DOCS / "conf.py").exists(), reason="the documentation is not in this source tree")


def sections() -> dict[str, str]:
    """The generated parts by their headings."""
    pieces = re.split(r"^##+ (.*)\n", part("reference").trace_tables(), flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def test_every_event_and_field_is_in_the_reference() -> None:
    found = sections()
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (\w+) \| (\d)", found["Events"], re.MULTILINE)
    assert rows == [(str(e.number), e.name, e.level, str(e.phase)) for e in EVENTS]
    for event in EVENTS:
        assert first_cells(found[event.name]) == [field.name for field in event.fields]
        assert f"Number {event.number}, level `{event.level}`" in found[event.name]
        for field in event.fields:
            row = next(line for line in found[event.name].splitlines() if line.startswith(f"| `{field.name}` |"))
            assert all(f"`{choice}`" in row for choice in field.choices)
            assert f"| {field.unit} |" in row and ("always" in row) == field.required
    assert first_cells(found["Fields of every event"]) == [field.name for field in schema.COMMON_FIELDS]


def test_warnings_errors_and_changes_are_in_the_reference() -> None:
    found = sections()
    assert first_cells(found["Warnings"]) == list(schema.WARN_CODES)
    assert first_cells(found["Errors"]) == list(schema.ERROR_CODES)
    for version, what in schema.CHANGES:
        assert f"| {version} | {what} |" in found["Changes by version"]


def test_the_example_is_what_the_reference_writes() -> None:
    page = (DOCS / "reference" / "trace.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"<!-- file: (\S+) -->\n```json\n(.*?)```", page, re.DOTALL))
    machine, program = json.loads(blocks["small.json"]), json.loads(blocks["one_load.json"])
    assert b"".join(line + b"\n" for line in reference_trace(machine, program, "full")) == blocks["one_load.jsonl"].encode()
