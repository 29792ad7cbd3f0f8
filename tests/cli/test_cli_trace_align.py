"""`kbsim trace align`: a bad file of counters, or of what they mean, is refused with its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Kbsim
from tests.trace_samples import lawful, lines, meta, write_trace


@pytest.fixture(autouse=True)
def _files(_place: None) -> None:
    write_trace("hand.jsonl", lawful())
    Path("few.json").write_text(json.dumps({"counters": [{"counter": "te0.busy", "value": 8}]}))


def csv_file(text: str) -> Callable[[], str]:
    def write() -> str:
        Path("bad.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
        return "bad.csv"

    return write


def json_file(data: Any) -> Callable[[], str]:
    def write() -> str:
        Path("bad.json").write_text(json.dumps(data))
        return "bad.json"

    return write


COLUMNS = "columns are counter, value, unit, t_cycle, t_ns; the first two are needed"
UNITS = "control, dma0, te0, ve0, dram.ch0, noc.r1c0-r0c0, noc.r0c0-r1c0, spm"
MEANT = "it must be the name of a simulated counter, or {simulated: ..., scale: ...}"
REFUSED = {
    "no file": (lambda: "no.csv", "no.csv: the file does not exist"),
    "other ending": (lambda: "hand.jsonl", "hand.jsonl: the file name must end in .json, .yaml or .yml"),
    "empty": (csv_file(""), f"bad.csv:1: there is no column counter; {COLUMNS}"),
    "nothing": (csv_file("counter,value\n"), "bad.csv: there are no counters in it"),
    "no value": (csv_file("counter\nx\n"), f"bad.csv:1: there is no column value; {COLUMNS}"),
    "column": (csv_file("counter,value,x\n"), f'bad.csv:1: column = "x", but {COLUMNS}, each once'),
    "twice": (csv_file("counter,value,value\n"), f'bad.csv:1: column = "value", but {COLUMNS}, each once'),
    "cells": (csv_file("counter,value\nx,1\ny\n"), "bad.csv:3: it has 1 cells, but the first line has 2"),
    "number": (csv_file("counter,value\nx,1\ny,abc\n"), 'bad.csv:3: value = "abc", but it must be a decimal number'),
    "nan": (csv_file("counter,value\nx,nan\n"), 'bad.csv:2: value = "nan", but it must be a decimal number'),
    "missing": (csv_file("counter,value,unit\nx,,te0\n"), "bad.csv:2: value: it must be there"),
    "both times": (
        csv_file("counter,value,t_cycle,t_ns\nx,1,2,3\n"),
        "bad.csv:2: it has t_cycle and t_ns both; give one of them",
    ),
    "negative": (csv_file("counter,value,t_cycle\nx,1,-2\n"), 'bad.csv:2: t_cycle = "-2", but it must be at least 0'),
    "half": (csv_file("counter,value,t_cycle\nx,1,1.5\n"), 'bad.csv:2: t_cycle = "1.5", but it must be a whole number'),
    "unit": (
        csv_file("counter,value,unit\nx,1,te7\n"),
        f'bad.csv:2: unit = "te7", but the trace has no such unit; its units are {UNITS}',
    ),
    "quote": (csv_file('counter,value\n"x,1\n'), "bad.csv:2: it is not CSV: unexpected end of data"),
    "bytes": (csv_file("counter,value\n\udcff,1\n"), "bad.csv: the file cannot be read: invalid start byte"),
    "json top": (json_file({"counter": []}), 'bad.json:1:1: it must be {"counters": [...]}: a list of mappings'),
    "json item": (json_file({"counters": [3]}), "bad.json:1:15: counters[0] = 3, but it must be a mapping"),
    "json key": (
        json_file({"counters": [{"counter": "x", "value": 1, "v": 2}]}),
        "bad.json:1:49: counters[0].v: keys are counter, value, unit, t_cycle, t_ns",
    ),
    "json text": (
        json_file({"counters": [{"counter": 1, "value": 1}]}),
        "bad.json: counters[0]: counter = 1, but it must be a text",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_file_of_counters_is_refused_with_its_place(name: str, kbsim: Kbsim) -> None:
    make, message = REFUSED[name]
    said = kbsim("trace", "align", "hand.jsonl", make(), "-o", "out.jsonl")
    assert (said.code, said.out, said.err) == (2, "", f"error: {message}\n")
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize(("mapping", "message"), [
    ("x: te0.bussy", 'mapping of x: simulated = "te0.bussy", but no simulated counter has that name; did you mean te0.busy?'),
    ("x: {scale: 2}", f"map.yaml:1:4: x = a mapping of 1 key, but {MEANT}"),
    ("x: [3]", f"map.yaml:1:4: x = [3], but {MEANT}"),
    ("x: {simulated: cycles, scale: 0}", "map.yaml:1:31: x.scale = 0, but it must be above 0"),
    ("x: {simulated: cycles, scale: a}", 'map.yaml:1:31: x.scale = "a", but it must be a decimal number'),
])  # fmt: skip
def test_a_bad_mapping_is_refused(mapping: str, message: str, kbsim: Kbsim) -> None:
    Path("map.yaml").write_text(mapping)
    said = kbsim("trace", "align", "hand.jsonl", "few.json", "--map", "map.yaml")
    assert (said.code, said.out, said.err) == (2, "", f"error: {message}\n")


def test_a_pattern_that_is_too_long_is_refused(kbsim: Kbsim) -> None:
    Path("names.json").write_text(json.dumps({"X": "te0.b" + "[" * 100_000}))
    said = kbsim("trace", "align", "hand.jsonl", "few.json", "--map", "names.json")
    assert said.code == 2
    assert said.err.startswith("error: names.json:1:7: X = ")
    assert said.err.endswith(", but a name or pattern must have at most 1000 characters\n")


def test_a_pattern_in_the_trace_that_is_too_long_is_refused(kbsim: Kbsim) -> None:
    write_trace("odd.jsonl", [meta(filter={"only": ["te0.b" + "[" * 100_000]}), *lawful()[1:]])
    said = kbsim("trace", "summary", "odd.jsonl")
    assert said == (2, "", "error: odd.jsonl:1: filter.only: a pattern must have at most 1000 characters\n")


def test_a_line_that_no_reader_has_looked_at_is_refused(kbsim: Kbsim) -> None:
    first, *rest = [json.loads(line) for line in lines(lawful()).splitlines()]
    newer = [{**first, "version": "1.9"}, {"event_type": "OF_TOMORROW"}, *rest]  # it has no t_cycle
    Path("newer.jsonl").write_text("".join(json.dumps(one) + "\n" for one in newer))
    said = kbsim("trace", "align", "newer.jsonl", "few.json", "--out", "o.jsonl")
    assert (said.code, said.out) == (2, "")
    remedy = "to list all such lines, use kbsim trace validate"
    assert said.err == f"error: newer.jsonl:2: it is not an event: Object missing required field t_cycle; {remedy}\n"
    assert not Path("o.jsonl").exists()


@pytest.mark.parametrize("freq", ["0", "-1.5", "fast", "1/0", "1e99999"])
@pytest.mark.parametrize(
    "command",
    [
        ("summary", "odd.jsonl"),
        ("diff", "odd.jsonl", "hand.jsonl"),
        ("diff", "hand.jsonl", "odd.jsonl"),
        ("align", "odd.jsonl", "few.json"),
        ("export", "odd.jsonl", "--to", "chrome", "--out", "o.json"),
        ("export", "odd.jsonl", "--to", "perfetto", "--out", "o.pf"),
        ("export", "odd.jsonl", "--to", "csv", "--out", "o.csv"),
        ("export", "odd.jsonl", "--to", "parquet", "--out", "o.parquet"),
        ("export", "odd.jsonl", "--to", "jsonl", "--out", "o.jsonl"),
    ],
)
def test_a_trace_without_a_clock_is_refused(command: tuple[str, ...], freq: str, kbsim: Kbsim) -> None:
    write_trace("odd.jsonl", [meta(freq_ghz=freq), *lawful()[1:]])
    said = kbsim("trace", *command)
    assert (said.code, said.out) == (2, "")
    assert said.err == f'error: odd.jsonl:1: freq_ghz = "{freq}", but it must be a number above 0\n'


@pytest.mark.parametrize(("line", "message"), [
    ('{"event_type": "SRAM_ACCESS", "unit": "spm"}', "it is not an event: Object missing required field t_cycle"),
    ('{"event_type": "SRAM_ACCESS", "t_cycle": "9"}', "it is not an event: t_cycle: Expected int, got str"),
])  # fmt: skip
def test_a_line_that_cannot_be_merged_is_refused(line: str, message: str, kbsim: Kbsim) -> None:
    lines = Path("hand.jsonl").read_text().splitlines()
    Path("hand.jsonl").write_text("\n".join([*lines[:2], line, *lines[2:]]) + "\n")
    said = kbsim("trace", "align", "hand.jsonl", "few.json", "-o", "out.jsonl")
    assert said.code == 2 and f"hand.jsonl:3: {message}; to list all such lines, use kbsim trace validate" in said.err
    assert not Path("out.jsonl").exists()
