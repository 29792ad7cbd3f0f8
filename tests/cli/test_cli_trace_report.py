"""`kbsim trace report`: the page and the pictures, where they go, and what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from kernbench.common.look.palette import colour
from tests.cli.conftest import Kbsim
from tests.trace_samples import lawful, lines, meta, write_trace

VIEWS = ("gantt", "heatmap", "phases", "roofline")


@pytest.fixture(autouse=True)
def _trace() -> None:
    write_trace(Path("a.jsonl.gz"), lawful())


def test_the_page_goes_beside_the_trace_or_where_it_is_told(kbsim: Kbsim) -> None:
    assert (kbsim("trace", "report", "a.jsonl.gz").code, Path("a.html").exists()) == (0, True)
    said = kbsim("trace", "report", "a.jsonl.gz", "-o", "b.html")
    size = Path("b.html").stat().st_size
    assert said == (0, "", f"b.html: 9 spans, {size:,} bytes\n")
    assert Path("b.html").read_bytes() == Path("a.html").read_bytes()
    part = kbsim("trace", "report", "a.jsonl.gz", "--cycles", "8:23", "-o", "c.html")
    assert part.err.startswith("c.html: 2 spans, ")


@pytest.mark.parametrize("view", VIEWS)
def test_pictures_are_sound_and_the_same_again(kbsim: Kbsim, view: str) -> None:
    pytest.importorskip("matplotlib")
    for name in ("one.svg", "two.svg", "one.png", *(["two.png"] if view == "gantt" else [])):
        assert kbsim("trace", "report", "a.jsonl.gz", "--view", view, "--out", name).code == 0
        first = Path(f"one{Path(name).suffix}")
        assert first.read_bytes() == Path(name).read_bytes()
    assert Path("one.png").read_bytes().startswith(b"\x89PNG")
    text = Path("one.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert {"gantt": "te0", "heatmap": "DRAM bandwidth", "phases": "QKV", "roofline": "MAC/cycle"}[view] in text
    assert not re.search(r"\d{4}-\d{2}-\d{2}T", text)
    assert kbsim("trace", "report", "a.jsonl.gz", "--view", view, "--dark", "-o", "dark.svg").code == 0
    assert colour("card", "dark") in Path("dark.svg").read_text(encoding="utf-8")


def test_options_of_pictures_change_them(kbsim: Kbsim) -> None:
    pytest.importorskip("matplotlib")

    def drawn(*options: str) -> str:
        assert kbsim("trace", "report", "a.jsonl.gz", "-o", "x.svg", *options).code == 0
        return Path("x.svg").read_text(encoding="utf-8")

    assert "1 TE_GEMM_TILE" in drawn("--view", "gantt", "--lanes", "command")
    assert "TE_GEMM_TILE" in drawn("--view", "gantt", "--by", "opcode") and "te0" in drawn("--view", "gantt", "--by", "opcode")
    assert "dma0" not in drawn("--view", "phases", "--by", "opcode") and "VE_LAYERNORM_TILE" in drawn(
        "--view", "phases", "--by", "opcode"
    )
    assert "cycles 8 to 23" in drawn("--view", "gantt", "--cycles", "8:23")
    assert drawn("--view", "roofline", "--by", "layer") != drawn("--view", "roofline")


def test_names_of_strangers_make_sound_pictures(kbsim: Kbsim) -> None:
    pytest.importorskip("matplotlib")
    bad = ["$\\frac{1}{0}$", "<b>&\x00\x07\u202e", "x" * 10_000, "\ud7ff\ufffe\U0001d538"]
    text = lines([meta(program=bad[1] + bad[0]), *lawful()[1:]]).decode()
    for name, other in (("QKV", bad[0]), ("LN", bad[2]), ("dma0", bad[3]), ("te0", bad[1])):
        text = text.replace(f'"{name}"', f'"{_escaped(other)}"')
    Path("bad.jsonl").write_text(text, encoding="utf-8")
    for view in VIEWS:
        said = kbsim("trace", "report", "bad.jsonl", "--view", view, "-o", f"{view}.svg")
        assert said.code == 0, said.err
        ElementTree.fromstring(Path(f"{view}.svg").read_text(encoding="utf-8"))


def _escaped(text: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in text)


def test_a_file_that_breaks_off_is_shown_and_said(kbsim: Kbsim) -> None:
    Path("cut.jsonl").write_bytes(lines(lawful())[:4000])
    said = kbsim("trace", "report", "cut.jsonl")
    assert said.code == 2 and Path("cut.html").exists()
    assert re.fullmatch(r"cut\.html: \d+ spans, [\d,]+ bytes\nerror: cut\.jsonl: line \d+ \(byte [\d,]+\): .*\n", said.err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["-o", "a.svg"],
            'error: kbsim trace report: --out = "a.svg", but the file name must end in .html or .htm; --view draws pictures',
        ),
        (
            ["--view", "gantt", "-o", "a.html"],
            'error: kbsim trace report: --out = "a.html", but the file name must end in .svg or .png',
        ),
        (["--lanes", "command"], "error: kbsim trace report: --lanes: the page has a switch for that"),
        (["--dark"], "error: kbsim trace report: --dark: the page has a switch for that"),
        (["--view", "heatmap", "--by", "layer"], "error: kbsim trace report: --by: it means nothing for --view heatmap"),
        (["--view", "phases", "--lanes", "engine"], "error: kbsim trace report: --lanes: it means nothing for --view phases"),
        (["--cycles", "9:3"], 'error: kbsim trace report: --cycles = "9:3", but it must be FROM:TO, with FROM below TO'),
        (["--cycles", "x"], 'error: kbsim trace report: --cycles = "x", but it must be FROM:TO, with FROM below TO'),
        (["-o", "no/a.html"], "error: no/a.html: it cannot be written: there is no directory"),
    ],
)
def test_a_report_that_cannot_be_made_is_refused(kbsim: Kbsim, arguments: list[str], message: str) -> None:
    said = kbsim("trace", "report", "a.jsonl.gz", *arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(message), said.err


def test_nothing_to_draw_is_said(kbsim: Kbsim) -> None:
    pytest.importorskip("matplotlib")
    write_trace(Path("empty.jsonl"), [meta(), lawful()[-1]])
    for view, why in (
        ("gantt", ""),
        ("heatmap", "it has no samples"),
        ("phases", "no job started"),
        (
            "roofline",
            "no job computes MACs and moves bytes of DRAM, or TRACE_META does not say what engines and channels can do",
        ),
    ):
        said = kbsim("trace", "report", "empty.jsonl", "--view", view)
        if why:
            assert said == (2, "", f"error: kbsim trace report --view: the trace has nothing to draw: {why}\n")


def test_matplotlib_is_loaded_for_pictures_alone() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from kernbench.cli.main import exit_code\n"
        "assert exit_code(['trace', 'report', 'a.jsonl.gz', '-o', 'a.html']) == 0\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
