"""The report as bytes: the same every time, alone in the world, and nothing of a trace can leave the place it was put."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tempfile
import zlib
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.common.errors import InputError
from kernbench.trace.events import Record
from kernbench.trace.reader import open_trace
from kernbench.trace.report import SCRIPTS, STYLES, report_html
from kernbench.trace.report.views import COLOURS, LANES, axis, gantt, grouped
from kernbench.trace.timeline import read_timeline
from tests.trace_samples import lawful, lines, meta, one_of_each, write_trace

PARTS = resources.files("kernbench.trace") / "report"


def page(tmp_path: Path, records: list[Record], **more: Any) -> str:
    trace = open_trace(write_trace(tmp_path / "a.jsonl", records))
    return report_html(read_timeline(trace, **more)).decode()


def script_of(text: str, mark: str) -> str:
    found = re.search(rf"<script{mark}>(.*?)</script>", text, re.DOTALL)
    assert found is not None
    return found[1]


class _Tags(HTMLParser):
    """What a browser would load: tags with addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href", "action", "srcset", "data")]


def test_the_same_trace_makes_the_same_bytes(tmp_path: Path) -> None:
    for records in (lawful(), one_of_each()):
        first, second = page(tmp_path, records), page(tmp_path, records)
        assert first == second
    assert page(tmp_path, lawful(), cycles=(0, 2**62)) == page(tmp_path, lawful())


def test_nothing_is_loaded_and_only_this_script_runs(tmp_path: Path) -> None:
    text = page(tmp_path, lawful())
    tags = _Tags()
    tags.feed(text)
    assert tags.loaded == ["data:,"] and tags.scripts == 3
    script = script_of(text, "")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None and f"default-src 'none'; script-src 'sha256-{digest}'" in policy[1]
    code = "".join((PARTS / name).read_text(encoding="utf-8") for name in SCRIPTS)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|fetch\(|XMLHttp|import\(", code
    )
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(", code + "".join(styles()))


def styles() -> list[str]:
    return [(PARTS / name).read_text(encoding="utf-8") for name in STYLES]


def test_every_part_is_used() -> None:
    found = {item.name for item in PARTS.iterdir() if item.is_file() and item.suffix != ".py"}
    pair = {"pair.html", "pair.css", "pair.js"}  # of two traces
    assert found == {"page.html", *SCRIPTS, *STYLES, *pair}
    for name in (*SCRIPTS, "pair.js"):
        assert "</script" not in (PARTS / name).read_text(encoding="utf-8")


def test_names_stay_where_they_are_put(tmp_path: Path) -> None:
    bad = "</script><script>alert(1)</script><!-- ]]> & \u2028 @DATA@ @SCRIPT@ \x00"
    text = page(tmp_path, [meta(program=bad), *lawful()[1:]])
    assert text.count("<script") == 3 and text.count("</script>") == 3 and "<!--" not in text
    head = json.loads(script_of(text, ' id="head" type="application/json"'))
    assert head["run"]["program"] == bad
    title = re.search(r"<title>(.*?)</title>", text)
    assert title is not None and title[1].startswith("&lt;/script&gt;") and title[1].isprintable()


def test_the_packed_columns_hold_the_spans(tmp_path: Path) -> None:
    text = page(tmp_path, lawful())
    head = json.loads(script_of(text, ' id="head" type="application/json"'))
    stream = zlib.decompress(base64.b64decode(script_of(text, ' id="data" type="application/octet-stream"')), -15)
    told = head["spans"]["columns"]["start"]
    made = read_timeline(open_trace(tmp_path / "a.jsonl"))
    plain = [
        sum(stream[told["at"] + plane * told["count"] + i] << 8 * plane for plane in range(told["bytes"])) for i in range(9)
    ]
    if told["delta"]:
        total, steps = 0, []
        for value in plain:
            total += (value >> 1) ^ -(value & 1)
            steps.append(total)
        plain = steps
    assert [value + told["base"] for value in plain] == made.spans["start"].tolist()
    assert head["spans"]["count"] == 9 and [heat["name"] for heat in head["heat"]][:3] == ["te", "ve", "dma"]


@pytest.mark.parametrize(("phase", "layers", "wanted"), [("QKV", 1, "phase"), ("", 3, "layer"), ("", 1, "opcode")])
def test_colours_begin_with_an_axis_that_tells_spans_apart(tmp_path: Path, phase: str, layers: int, wanted: str) -> None:
    records = []
    for record in lawful():
        if record.event.name == "CMD_ENQUEUE":
            fields = {name: getattr(record, name) for name in record.__struct_fields__}
            own = {"phase": phase + str(record.cmd_id % 2) if phase else None, "layer_id": record.cmd_id % layers}
            record = type(record)(**{**fields, **own})
        records.append(record)
    assert json.loads(script_of(page(tmp_path, records), ' id="head" type="application/json"'))["colour"] == wanted


def test_axes_have_labels_in_a_fixed_order(tmp_path: Path) -> None:
    made = read_timeline(open_trace(write_trace(tmp_path / "a.jsonl", lawful())))
    assert axis(made, "phase").labels == ["QKV", "LN", "none"] and axis(made, "layer").labels == ["0", "1", "none"]
    assert axis(made, "opcode").labels[:2] == ["DMA_LOAD_TILE", "TE_GEMM_TILE"]


NUMBERS = st.sampled_from([-(2**63), -7, -1, 0, 1, 5, 2**31, 2**53 - 1, 2**62, 2**63 - 1, 2**70])
ODD_META: dict[str, list[Any]] = {
    "window_cycles": [0, -5, 1, 2**62],
    "t_cycle": [-3, 12, 2**40],
    "freq_ghz": ["0", "x", "1/3", "1e999999999"],
    "units": [
        [],
        [{}, {"unit": None}],
        [{"unit": "te0", "component": "TE", "macs_per_cycle": "1/0", "capacity": "1e999999999"}],
    ],
    "sim_config": [{}, {"te": None, "spm": []}, {"te": {"f_w": [1], "f_a": {"8": "x"}}, "spm": {"ports": -5}}],
    "defaults": [{}, {"tenant_id": "x"}],
}


@given(st.data())
@settings(deadline=None, max_examples=80)
def test_whatever_numbers_stand_in_a_file_there_is_a_page_or_a_refusal(data: st.DataObject) -> None:
    records = [json.loads(line) for line in lines(data.draw(st.sampled_from([lawful, one_of_each]))()).splitlines()]
    for _ in range(data.draw(st.integers(1, 8))):
        record = data.draw(st.sampled_from(records[1:]))
        what = data.draw(st.sampled_from(["change", "drop", "repeat", "meta"]))
        fields = [name for name, value in record.items() if type(value) is int]
        if what == "change":
            record[data.draw(st.sampled_from(fields))] = data.draw(NUMBERS)
        elif what == "drop":
            records.remove(record)
        elif what == "repeat":
            records.insert(1, dict(record))
        else:
            name = data.draw(st.sampled_from(sorted(ODD_META)))
            records[0][name] = data.draw(st.sampled_from(ODD_META[name]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "odd.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        try:
            made = read_timeline(open_trace(path), data.draw(st.sampled_from([None, (5, 20), (0, 1)])))
        except InputError as error:
            assert "a report shows cycles up to" in str(error) or "does not fit the schema" in str(error)
            return
    assert report_html(made).startswith(b"<!doctype html>")
    for lanes in LANES:
        gantt(made, lanes)
    for name in COLOURS:
        assert sum(one.spans for one in grouped(made, name).values()) == len(made.spans)
