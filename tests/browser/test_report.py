"""The report in a browser: its numbers are ours, links and keys work, and names of strangers do no harm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from kernbench.config import load_config
from kernbench.trace.columns import NULL
from kernbench.trace.reader import open_trace
from kernbench.trace.report import report_html
from kernbench.trace.report.views import AXES, Totals, chosen, grouped, heatmaps, roofline, totals
from kernbench.trace.schema import STALL_REASONS
from kernbench.trace.timeline import Timeline, read_timeline
from kernbench.workloads import decoder_layer
from tests.browser.chromium import Page, browser, missing, prefer
from tests.oracles.ref_trace import reference_trace
from tests.trace_big import write_big
from tests.trace_samples import lawful, lines, meta, one_of_each, write_trace
from tests.workload_programs import TINY, tiny_machine

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
PAGE_AXES = [name for name in AXES if name not in ("cmd", "job")]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Timeline, Path]:
    """Five decoder layers at level full, as tables and as a page."""
    folder = tmp_path_factory.mktemp("layers")
    return shown(write_big(folder / "layers.jsonl", 1000))


def shown(trace: Path) -> tuple[Timeline, Path]:
    made = read_timeline(open_trace(trace))
    path = trace.with_suffix(".html")
    path.write_bytes(report_html(made))
    return made, path


@pytest.fixture(autouse=True)
def _no_errors(page: Page) -> Iterator[None]:
    """Whatever a test does, the console stays silent."""
    prefer(page, "light")
    page.errors()
    yield
    assert page.errors() == []


def plain(one: Totals) -> dict[str, Any]:
    """Totals as the page has them."""
    told = asdict(one)
    waits = [told["waits"][reason] for reason in STALL_REASONS]
    return {**told, "cycles": list(told["cycles"].values()), "waits": waits, "dram": told["dram_bytes"]}


def agrees(told: dict[str, Any], ours: Totals) -> None:
    wanted = plain(ours)
    names = ("spans", "jobs", "bytes", "dram", "macs", "ops", "queued", "cycles", "active")
    assert {name: told[name] for name in names} == {name: wanted[name] for name in names}
    assert told["waits"] == [*wanted["waits"], 0]  # and waits whose reason this version does not know
    if ours.spans:
        assert (told["first"], told["last"]) == (ours.first, ours.last)


def test_counts_totals_and_groups_are_ours(page: Page, layers: tuple[Timeline, Path]) -> None:
    made, path = layers
    page.open(path)
    counts = page.ask("counts")
    assert (counts["spans"], counts["shown"], counts["commands"]) == (len(made.spans), len(made.spans), len(made.commands))
    assert counts["points"] == {name: len(table) for name, table in made.points.items()}
    agrees(page.ask("totals"), totals(made))
    for name in PAGE_AXES:
        rows = {row["label"]: row for row in page.ask("groups", name)}
        ours = grouped(made, name)
        assert list(rows) == list(ours), name
        for label, one in ours.items():
            agrees(rows[label], one)


def test_numbers_of_a_traced_layer_are_ours(page: Page, tmp_path: Path) -> None:
    """As the above, of a trace with waits, conflicts and flows that stop."""
    machine = tiny_machine(512, te={"engines": 2, "macs_per_cycle": 256}, kv_layouts=[{"t_max": 2048, "head_dim": 128}])
    program = decoder_layer(TINY, load_config(machine)).to_dict()
    trace = tmp_path / "tiny.jsonl"
    trace.write_bytes(b"\n".join(reference_trace(machine, program, "full", 256)) + b"\n")
    made, path = shown(trace)
    page.open(path)
    agrees(page.ask("totals"), totals(made))
    assert sum(totals(made).waits.values()) > 0 and made.points["SRAM_CONFLICT"].count > 0
    assert page.ask("counts")["points"] == {name: len(table) for name, table in made.points.items()}
    for name in ("phase", "unit", "opcode"):
        rows = {row["label"]: row for row in page.ask("groups", name)}
        for label, one in grouped(made, name).items():
            agrees(rows[label], one)
    assert [heat["parts"] for heat in page.ask("heat")] == [heat.part.ravel().tolist() for heat in heatmaps(made)]
    page.ask("filter", {"component": ["SRAM"]})
    assert page.ask("view")["lanes"] == ["Events"]  # folded
    box = "const box = document.getElementById('plot').getBoundingClientRect();"
    place = page.run(f"{box} return [box.left + 200, box.top + 37]")
    page.mouse(*place, click=True)
    warned = "SRAM" in {made.points["WARN"].row(i)["component"] for i in range(len(made.points["WARN"]))}
    assert page.ask("view")["lanes"] == ["Events", *(["WARN"] if warned else []), "SRAM_CONFLICT"]
    page.ask("filter", {"component": ["TE"]})
    assert page.ask("view")["lanes"] == ["Engines", "te0", "te1", "Events", "WARN", "POWER_STATE"]


@pytest.mark.parametrize(
    "wanted",
    [
        {"phase": ["QKV_PROJ", "SOFTMAX"]},
        {"component": ["TE"], "layer": ["1", "2"]},
        {"opcode": ["KV_LOAD_TILE"], "unit": ["dma0", "dma1", "dram.ch3"]},
        {"tenant": ["1"], "head": ["3"], "token": ["1026"]},
        {"phase": ["none"]},
        {"model": []},
    ],
)
def test_totals_of_a_filter_are_ours(page: Page, layers: tuple[Timeline, Path], wanted: dict[str, list[str]]) -> None:
    made, path = layers
    page.open(path)
    page.ask("filter", wanted)
    mask = chosen(made, **wanted)
    assert page.ask("counts")["shown"] == int(mask.sum())
    agrees(page.ask("totals"), totals(made, mask))
    if not mask.any():
        assert page.run("return document.getElementById('nothing').textContent").startswith("Nothing passes the filters")


def test_totals_of_selected_time_are_ours(page: Page, layers: tuple[Timeline, Path]) -> None:
    made, path = layers
    page.open(path)
    for cycles in ((0, 1), (1000, 30000), (made.last - 5, made.last), (-10, 10**9)):
        agrees(page.ask("range", *cycles), totals(made, chosen(made, cycles)))
    page.ask("filter", {"phase": ["MLP_UP"]})
    agrees(page.ask("range", 5000, 9000), totals(made, chosen(made, (5000, 9000), phase=["MLP_UP"])))
    box = page.run("return document.getElementById('plot').getBoundingClientRect().toJSON()")
    y = box["top"] + 200
    page.mouse(box["left"] + 300, y, drag_to=(box["left"] + 500, y), shift=True)
    first, last = map(int, page.run("return document.querySelector('#side p').textContent").replace(",", "").split(" \u2013 "))
    assert 0 < first < last < made.last
    text = page.run("return document.getElementById('side').innerText")
    assert f"{totals(made, chosen(made, (first, last), phase=['MLP_UP'])).spans:,}" in text


def test_heatmaps_and_roofline_are_ours(page: Page, layers: tuple[Timeline, Path]) -> None:
    made, path = layers
    page.open(path)
    told = page.ask("heat")
    ours = heatmaps(made)
    assert [heat["name"] for heat in told] == [heat.name for heat in ours]
    for theirs, heat in zip(told, ours, strict=True):
        assert (theirs["rows"], theirs["bin"]) == (heat.rows, heat.bin_cycles)
        assert theirs["parts"] == heat.part.ravel().tolist()
        assert [pytest.approx(row) for row in heat.shares.tolist()] == theirs["shares"]
    roof, found = roofline(made), page.ask("roofline")
    assert [(point["label"], point["macs"], point["bytes"], point["cycles"]) for point in found["points"]] == [
        (point.label, point.macs, point.dram_bytes, point.cycles) for point in roof.points
    ]
    assert (found["macs"], found["peak"], found["bandwidth"]) == (roof.macs_per_cycle, roof.peak, roof.bytes_per_cycle)
    assert sorted(found["left"]) == sorted(roof.left_out)


def test_every_field_of_a_span_is_shown(page: Page, tmp_path: Path) -> None:
    made, path = shown(write_trace(tmp_path / "each.jsonl", one_of_each()))
    page.open(path)
    for i in range(len(made.spans)):
        span = made.spans.row(i)
        unit = made.units[span["unit"]].name
        kind = int(made.spans["kind"][i])
        key = f"{unit}:{span['job']}" + (":0" if kind == 5 else "")
        told = page.ask("fields", key)
        detail = list(made.details.values())[kind].row(span["detail"])
        command = {} if "command" not in span else made.commands.row(span["command"])
        for name, value in {**command, **detail}.items():
            name = {"start": "command start", "end": "command end", "unit": "unit"}.get(name, name)
            if name in ("t_cycle", "unit", "bytes", "job_id", "deps"):
                continue
            text = told[name].replace(",", "").replace("\u2009", " ")
            assert text.startswith(hex(value) if name.endswith("_addr") else str(value)), name


def test_a_click_selects_and_its_address_leads_back(page: Page, layers: tuple[Timeline, Path]) -> None:
    made, path = layers
    page.open(path)
    job = next(
        i for i in range(len(made.spans)) if made.units[made.spans["unit"][i]].name == "dma1" and made.spans["row"][i] == 2
    )
    key = f"dma1:{made.spans['job'][job]}"
    page.mouse(*page.ask("place", key))
    assert page.run("return !document.getElementById('tip').hidden")
    assert f"{made.spans['start'][job]:,}" in page.run("return document.getElementById('tip').innerText")
    page.mouse(*page.ask("place", key), click=True)
    assert page.ask("view")["selected"] == key
    page.press("f")
    seen = page.ask("view")
    assert seen["from"] <= made.spans["start"][job] and seen["to"] >= made.spans["end"][job]
    page.run("return new Promise((done) => setTimeout(done, 400))")
    address = page.run("return location.hash")
    page.open(path, address)
    again = page.ask("view")
    assert again["selected"] == key and again["from"] == pytest.approx(seen["from"], abs=1)
    other = made.spans.row(0)
    page.run(
        "location.hash = arguments[0]",
        f"#span=control%3Ac{made.commands['cmd_id'][other['command']]}&tab=timeline&lanes=command",
    )
    page.run("return new Promise((done) => setTimeout(done, 100))")
    assert page.ask("view")["selected"].startswith("control:c")
    page.open(path, "#span=no%3A1&t=x&tab=none&f.phase=[[&f.job=z&colour=9&by=9&range=4")
    assert page.ask("view")["selected"] is None and page.ask("counts")["shown"] == len(made.spans)
    page.open(path, '#f.phase=["SILU"]&tab=phases&by=layer&f.cycles=0-20000')
    mask = chosen(made, (0, 20000), phase=["SILU"])
    assert (page.ask("counts")["shown"], page.ask("view")["tab"]) == (int(mask.sum()), "phases")


def test_the_keyboard(page: Page, layers: tuple[Timeline, Path]) -> None:
    made, path = layers
    page.open(path)
    whole = page.ask("view")
    page.press("w", "w", "d")
    near = page.ask("view")
    assert near["to"] - near["from"] < (whole["to"] - whole["from"]) / 2 and near["from"] > whole["from"]
    page.press("s", "0")
    assert (page.ask("view")["from"], page.ask("view")["to"]) == (0, made.last)
    for number, tab in enumerate(("timeline", "heat", "phases", "roofline", "run"), 1):
        page.press(str(number))
        assert page.ask("view")["tab"] == tab
        views = page.run(
            "return [...document.querySelectorAll('.view')].filter((one) => !one.hidden).map((one) => one.innerText.length)"
        )
        assert len(views) == 1
    page.press("1", "l")
    assert "Commands" in page.ask("view")["lanes"]
    page.press("l", "r", "?")
    assert page.run("return document.getElementById('keys').open")
    page.press("\ue00c", "\ue00c")  # Escape: the list of keys, then the selection
    assert not page.run("return document.getElementById('keys').open") and page.run(
        "return document.getElementById('side').hidden"
    )
    page.press("/", *"softmax", "\ue007")
    first = page.ask("view")["selected"]
    row = made.commands.columns["cmd_type"]
    job = int(first.partition(":")[2])
    found = int((made.spans["job"] == job).nonzero()[0][0])
    assert row[int(made.spans["command"][found])] == "VE_SOFTMAX_TILE" or made.spans["kind"][found] == 0
    page.press("\ue007", "\ue00c", "]")
    assert page.ask("view")["selected"] != first
    assert page.run("return document.getElementById('filters').hidden")
    page.press("b")
    assert not page.run("return document.getElementById('filters').hidden")


def test_light_and_dark(page: Page, layers: tuple[Timeline, Path]) -> None:
    _, path = layers
    ink = "return getComputedStyle(document.body).backgroundColor"
    page.open(path)
    light = page.run(ink)
    assert page.ask("view")["dark"] is False
    prefer(page, "dark")
    page.open(path)
    dark = page.run(ink)
    assert page.ask("view")["dark"] is True and dark != light
    page.press("t")
    assert page.ask("view")["dark"] is False and page.run(ink) == light
    page.run("localStorage.clear()")


HOSTILE = [
    "</script><script>window.harmed = 1</script>",
    "<img src=x onerror='window.harmed = 1'>",
    "]]>--><!-- \u2028\u2029 \u202e\u0007\u001b[31m\u0000 \ufeff",
    "x" * 10_000,
    "@DATA@ @HEAD@ ${7*7} {{7*7}} __proto__",
    "constructor",
    "",
]


def test_names_of_strangers_do_no_harm(page: Page, tmp_path: Path) -> None:
    _, *rest = lawful()
    plain_records = [json.loads(line) for line in lines([meta(program=HOSTILE[0] + HOSTILE[2], units=[]), *rest]).splitlines()]
    for i, record in enumerate(plain_records):
        for name in ("phase", "model_name", "precision", "cmd_type", "marker", "unit", "job_type", "op_type"):
            if name in record or record["event_type"] == "CMD_ENQUEUE":
                record[name] = HOSTILE[(i if name != "unit" else len(record[name])) % len(HOSTILE)]
    path = tmp_path / "hostile.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in plain_records), encoding="utf-8")
    made, target = shown(path)
    assert made.broken == ""
    page.open(target)
    for key in "12345":
        page.press(key)
    page.press("1", "l")
    for i in range(len(made.spans)):
        if made.spans["job"][i] != NULL and made.spans["kind"][i] < 5:
            page.ask("fields", f"{made.units[made.spans['unit'][i]].name}:{made.spans['job'][i]}")
    page.run("document.querySelectorAll('#filters details').forEach((one) => { one.open = true; })")
    page.press("l", "/", *"x", "\ue007", "\ue00c")
    box = page.run("return document.getElementById('plot').getBoundingClientRect().toJSON()")
    for y in range(40, 500, 30):
        page.mouse(box["left"] + 300, box["top"] + y)
    assert page.run("return window.harmed") is None
    assert (
        page.run("return document.querySelectorAll('script, img').length") == 2
    )  # the page's own: what it knows, and its code
    assert page.run(
        "return document.documentElement.scrollWidth <= innerWidth && document.documentElement.scrollHeight <= innerHeight"
    )
    assert "<script>" in page.run("return document.getElementById('program').textContent")
    seen = page.run("return document.body.innerText")
    assert not set(seen) & set("\u0000\u0007\u001b\u202e\u2028\ufeff")


def test_an_empty_trace_and_one_that_breaks_off(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(lines([meta(units=[])]))
    made, target = shown(path)
    assert made.broken
    page.open(target)
    assert "breaks off" in page.run("return document.getElementById('notice').textContent")
    for key, words in (
        ("1", "No spans in this trace"),
        ("2", "No samples in this trace"),
        ("3", "Nothing to sum up"),
        ("4", "No point to draw"),
    ):
        page.press(key)
        assert words in page.run("return document.getElementById('stage').innerText")
    page.press("5", "1", "r", "x", "l", "w", "/", "a", "\ue007")
