"""The exports in the real Perfetto UI: what its SQL engine counts is what we wrote, and it complains of nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kernbench.trace.exporters.write import Format, TimeUnit, export
from kernbench.trace.reader import open_trace
from tests.browser.perfetto_ui import PerfettoUi, missing, perfetto_ui
from tests.cli.samples import MACHINE, tiles
from tests.oracles.ref_trace import reference_trace
from tests.trace_exports import READERS
from tests.trace_samples import lawful, lines, meta, one_of_each, record

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
LANES = ("jobs", "commands", "flows", "waits", "write-backs", "suspended", "tokens")
ARGUMENT = {Format.CHROME: "args", Format.PERFETTO: "debug"}
NASTY = '</script><img src=x onerror="document.title=1">\x1b\x00' + "A" * 5000


def tiled() -> bytes:
    """The trace of a program with transfers at once, bank conflicts and a barrier."""
    return b"".join(line + b"\n" for line in reference_trace(yaml.safe_load(MACHINE), tiles().to_dict(), "full", 128))


def hostile() -> bytes:
    """Names with markup, control characters and great length."""
    units = [{"unit": NASTY, "component": "TE", "index": 0, "parent": ""}]
    made = [
        meta(units=units, program=NASTY),
        record("CMD_ENQUEUE", 0, cmd_id=0, cmd_type=NASTY, unit=NASTY, phase=NASTY),
        record("CMD_START", 0, cmd_id=0, unit=NASTY),
        record("MARKER", 1, marker=NASTY, cmd_id=0),
        record("CMD_END", 2, cmd_id=0, unit=NASTY, status=NASTY),
        record("HW_COUNTER", 2, counter=NASTY, value=1.5, unit=NASTY),
    ]
    return lines(made)


TRACES = {
    "tiles": tiled,
    "one_of_each": lambda: lines(one_of_each()),
    "uneven": lambda: lines(lawful()),  # in nanoseconds at 1.5 GHz: what is rounded must not overlap, or it is dropped
    "hostile": hostile,
}


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PerfettoUi, Path]]:
    folder = tmp_path_factory.mktemp("perfetto")
    (folder / "traces").mkdir()
    with perfetto_ui(folder / "traces", folder / "profile") as page:
        yield page, folder / "traces"


def opened(ui: tuple[PerfettoUi, Path], name: str, text: bytes, form: Format) -> tuple[dict[str, int], Path]:
    """Export a trace and load it into the page; the export's counts and its file."""
    page, folder = ui
    source = folder / f"{name}.jsonl"
    source.write_bytes(text)
    out = folder / f"{name}.{form.value}"
    counts = export(open_trace(source), form, out, TimeUnit.NS if name == "uneven" else TimeUnit.CYCLES)
    page.open(out.name)
    return counts, out


def check_counts(page: PerfettoUi, counts: dict[str, int]) -> None:
    assert page.import_errors() == 0
    assert page.query("select name, value from stats where severity != 'info' and value != 0") == []
    assert page.number("select count(*) from slice") == counts["slices"] + counts["instants"]
    assert page.number("select count(*) from counter") == counts["points"]
    assert page.number("select count(*) from flow") == counts["flows"]
    assert page.number("select count(*) from slice where dur < 0 or (dur > 0 and depth > 0)") == 0


@pytest.mark.parametrize("form", list(Format)[:2])
@pytest.mark.parametrize("name", TRACES)
def test_the_ui_counts_what_we_wrote(name: str, form: Format, ui: tuple[PerfettoUi, Path]) -> None:
    counts, out = opened(ui, name, TRACES[name](), form)
    page = ui[0]
    check_counts(page, counts)
    assert "Perfetto UI" in page.driver.title
    if (name, form) == ("uneven", Format.CHROME):
        return  # its decimals are rounded by the UI
    read, ns = READERS[form](out), 1000 if form is Format.CHROME else 1
    spans = page.query(f"select name, ts, dur from slice where category in {LANES}")
    ours = Counter((plain, int(start * ns), int((end - start) * ns)) for _, start, end, plain, _ in read.slices)
    assert Counter((row["name"], row["ts"], row["dur"]) for row in spans) == ours
    if name == "tiles":
        check_arrows(page, form, TRACES[name]())
    if (name, form) == ("tiles", Format.PERFETTO):
        check_rows(page)


def check_arrows(page: PerfettoUi, form: Format, text: bytes) -> None:
    """Each arrow goes from the slice of a dependency to that of the command that waited for it."""
    argument = f"{ARGUMENT[form]}.cmd_id"
    rows = page.query(
        f"select extract_arg(a.arg_set_id, '{argument}') as a, extract_arg(b.arg_set_id, '{argument}') as b, "
        "a.category as x, b.category as y, a.ts + a.dur <= b.ts as after "
        "from flow join slice a on a.id = flow.slice_out join slice b on b.id = flow.slice_in"
    )
    queued = [event for event in map(json.loads, text.splitlines()) if event["event_type"] == "CMD_ENQUEUE"]
    edges = {(dep, event["cmd_id"]) for event in queued for dep in event.get("deps", [])}
    assert {(row["a"], row["b"]) for row in rows} == edges
    assert all(row["x"] == row["y"] == "commands" and row["after"] for row in rows)


def check_rows(page: PerfettoUi) -> None:
    """The picture has a row for every engine, as many tracks deep as it does things at once."""
    shown: Any = page.driver.execute_script("return app.trace.workspace.children.map(node => node.name)")
    engines = {"dma0", "dma1", "te0", "te1", "ve0", "ve1"}
    assert engines | {"DRAM channels", "NoC links", "Scratchpads", "energy", "run"} <= set(shown)
    rows = page.query("select name, count(*) as n from track where name in ('dma0', 'te0') group by name order by name")
    assert rows == [{"name": "dma0", "n": 3}, {"name": "te0", "n": 1}]
