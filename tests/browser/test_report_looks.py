"""How the page of a trace looks: what is said of an empty run, and nothing cut off in a narrow window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernbench.cmdq.program import Program
from kernbench.config import load_config
from kernbench.sim_engine.machine import Machine
from kernbench.trace.reader import open_trace
from kernbench.trace.report import report_html
from kernbench.trace.timeline import read_timeline
from tests.browser.chromium import Page, browser, missing
from tests.trace_big import write_big

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile"), width=700) as found:
        yield found
        assert found.errors() == []


def shown(trace: Path) -> Path:
    path = trace.with_suffix(".html")
    path.write_bytes(report_html(read_timeline(open_trace(trace))))
    return path


def traced(machine: Machine, path: Path) -> Path:
    with path.open("wb") as file:
        tracing = machine.trace(file)
        machine.run()
        tracing.close()
    return path


def test_an_empty_run_took_no_cycle(page: Page, tmp_path: Path) -> None:
    """There is a cycle to see in it, but it was not run."""
    page.open(shown(traced(Machine(load_config("npu_mobile"), Program("nothing")), tmp_path / "nothing.jsonl")))
    texts = page.run("return ['facts', 'foot'].map((id) => document.getElementById(id).textContent.replace(/\\s/g, ' '))")
    assert texts[0] == "0 cycles · 0 ns at 1 GHz · 0 commands" and texts[1].startswith("0 \u2013 00 cycles, 0 ns0 spans")


def test_names_of_nodes_are_cut_where_they_are_alike(page: Page, tmp_path: Path) -> None:
    """Of `sip0.cube0.pe0.pe_dma` and its like only `sip0.cube0.p...` was to be read, of each the same."""
    program = Program("loads")
    for pe in ("sip0.cube0.pe0", "sip0.cube0.pe1"):
        program.dma_load(node=pe, tensor_role="weight", qbits=8, dram_addr=0, num_elements=64, spm_bank=0, spm_offset=0)
    page.open(shown(traced(Machine(load_config("single_cube"), program), tmp_path / "loads.jsonl")))
    page.press("r")
    names = page.run(
        "return [...document.querySelectorAll('#side .meter > span')].map((it) => {"
        "  const name = it.firstChild.getBoundingClientRect(), room = it.getBoundingClientRect();"
        "  return [it.textContent, Math.round(name.right - room.right)]; })"
    )
    assert [name for name, _ in names] == ["sip0.cube0.pe0.pe_dma", "sip0.cube0.pe1.pe_dma"]
    assert all(over <= 0 for _, over in names)  # the end of each is seen


def test_a_narrow_window_cuts_nothing_off(page: Page, tmp_path: Path) -> None:
    path = shown(write_big(tmp_path / "layers.jsonl", 1000))
    for tab in ("timeline", "heat", "roofline", "run"):
        page.open(path, f"#tab={tab}")
        for place in ("brand", "facts", "bar", "foot", "view-roofline"):
            sizes = "const it = document.getElementById(arguments[0]); return [it.scrollWidth, it.clientWidth]"
            wide, room = page.run(sizes, place)
            assert wide <= room, (tab, place)
