"""Every command at 40, 80 and 120 columns: no line is longer than the terminal, no word is broken, and no cell is cut."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from kernbench.cli.command_tree import command_tree
from kernbench.cli.main import exit_code
from tests.cli.bench_samples import BENCH
from tests.cli.conftest import Kbsim
from tests.cli.samples import write_samples
from tests.sweep_samples import SPEC

WIDTHS = (40, 80, 120)  #: columns
CUT = "\u2026"  #: ends a cell of which a part is lost
WHOLE = 1000  #: columns that hold every line
TINY = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
        "vocab_size": 500, "head_dim": 64}  # fmt: skip
SMALL = "--set m=64 --set n=64 --set k=64 --set block_n=32"
#: What the commands below read.
BEFORE = (
    "run tiles.json -c small.yaml --trace a.jsonl --trace-level access -q",
    "run tiles.json -c small.yaml --set te.macs_per_cycle=64 --trace b.jsonl --trace-level full -q",
    "sweep run s.yaml --threads 1 -q",
)
#: Other programs read the lines of these: they are not wrapped where a terminal is narrow.
LINES = ("validate --list", "program check tiles.json -c small.yaml", "ccl run all_reduce -n 4 -b 1K -e 4K -f 4")
COMMANDS = (
    "run tiles.json -c small.yaml",
    "run stuck.json -c small.yaml",
    f"run gemm {SMALL} --verify",
    f"run gemm -c single_cube {SMALL}",
    f"run gemm -c h100_8x {SMALL}",
    "run llama2-7b-decode -c npu_server",
    "step tiles.json -c small.yaml --cycles 900",
    "llm --model tiny.json --prompt 16 --tokens 1",
    "llm --model tiny.json --prompt 16 --tokens 1 --phase decode --compare kv=4,8",
    "op matmul -c a100 -m 1024 -n 1024 -k 1024",
    f"compare gemm {SMALL} -c npu_server -c single_cube",
    "whatif tiles.json -c small.yaml",
    "tenants tiles.json tiles.json:weight=2 -c small.yaml",
    "probe --sizes 4K",
    "validate --list",
    "validate dram --quick",
    "bench list",
    "bench show gemm",
    "program list",
    "program show tiles.json -c small.yaml",
    "program check tiles.json -c small.yaml",
    "config list",
    "config keys dram",
    "config show npu_server --effective",
    "config show two_sips",
    "config show a100",
    "config check small.yaml",
    "topology show single_cube",
    "topology route sip0.cube0.pe0 sip0.cube0.pe3 -c single_cube",
    "trace summary a.jsonl",
    "trace why a.jsonl",
    "trace validate a.jsonl",
    "trace diff a.jsonl b.jsonl",
    "trace export a.jsonl -o a.json",
    "sweep run s.yaml --threads 1",
    "sweep report s.sqlite",
    "sweep compare s.sqlite s.sqlite",
    "ccl list",
    "ccl run all_reduce -n 4 -b 1K -e 4K -f 4",
    "noc replay --help",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The samples, two traces and the results of a sweep."""
    made = tmp_path_factory.mktemp("widths")
    write_samples(made)
    for name, text in {"scale.py": BENCH, "tiny.json": json.dumps(TINY), "s.yaml": SPEC}.items():
        (made / name).write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        for command in BEFORE:
            assert exit_code(command.split()) == 0
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_long_line_and_no_broken_word(command: str, folder: Path, kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    check(command, kbsim, monkeypatch)


@pytest.mark.parametrize("path", [node.path for node in command_tree().walk()])
def test_help_has_no_long_line_and_no_broken_word(path: str, kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    check(f"{path} --help", kbsim, monkeypatch)


@pytest.mark.parametrize("columns", ["1", "2", "5", "12", "0", "-3", "wide", "\u00b2", "9" * 5000])
def test_no_width_is_an_error(columns: str, folder: Path, kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", columns)
    ran = {command: kbsim(*command.split()) for command in ("run --help", *COMMANDS)}
    assert {command: said.err for command, said in ran.items() if said.code not in (0, 1, 2, 4)} == {}


def test_a_table_that_is_too_wide_becomes_records(folder: Path, kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row has the same cells as in a wide terminal, with the headers before them; empty cells are left out."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "40")
    text = kbsim("run", "tiles.json", "-c", "small.yaml").out
    assert "te0  use 61%  busy 2,085  conflict 0\n  idle 1,325  jobs 3  work 786 kMAC\n" in text
    assert "noc.r0c1-r0c0 +2  █▍········  use 14%\n  bytes 11.3 kB\n" in text  # the name was broken to make room
    assert "cycles 1,983  entry 13 DMA_LOAD_TILE\n" in text  # a column of numbers keeps its header


def test_no_number_is_cut_where_counts_are_long(folder: Path, kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    text = kbsim(*["run", "llama2-7b-decode", "-c", "npu_server", "--set", "te.macs_per_cycle=16"]).out
    assert "te0..3" in text and CUT not in text


def check(command: str, kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {}
    for width in (*WIDTHS, WHOLE):
        monkeypatch.setenv("COLUMNS", str(width))
        texts[width] = kbsim(*command.split()).out
    for width in WIDTHS[1:] if command in LINES else WIDTHS:
        assert [line for line in texts[width].split("\n") if len(line) > width] == []
        assert texts[width].count(CUT) == texts[WHOLE].count(CUT)
        assert broken_words(texts[width], texts[WHOLE]) == []


def test_a_broken_word_is_found() -> None:
    whole = "key                        value\nkv_store.priority  the first of 1,234 cycles\n"
    key = "key           value\nkv_store.pri  the first of\nority         1,234 cycles\n"
    assert broken_words(key, whole) == ["kv_store.priority"]
    assert broken_words("key        value\nkv_store.  the first of 1,2\npriority   34 cycles\n", whole) == ["1,234"]
    assert broken_words("key        value\nkv_store.  the first of\npriority   1,234 cycles\n", whole) == []


def broken_words(text: str, whole: str) -> list[str]:
    """The words of `whole` that two lines of `text` share. A name may be broken at `.`, `_` or `/`."""
    words = set(re.findall(r"\S+", whole))
    found = []
    lines = text.split("\n")
    for upper, lower in pairwise(lines):
        for cell in cells(upper):
            first = next((other for other in cells(lower) if other.start() <= cell.start() <= other.end()), None)
            if first is None:
                continue
            begun, rest = cell.group().split()[-1], first.group().split()[0]
            if begun + rest in words and begun not in words and begun[-1].isalnum() and rest[0].isalnum():
                found.append(begun + rest)
    return found


def cells(line: str) -> list[re.Match[str]]:
    """The cells of a line: texts with at least two blanks, or a frame, between them."""
    return list(re.finditer(r"[^\s│]+(?: [^\s│]+)*", line))
