"""Completion in the shells themselves, and manual pages: all of it is made from the description of the commands."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from kernbench.cli.command_tree import command_tree, names_of
from kernbench.cli.completion import script
from kernbench.cli.man import manual_pages
from kernbench.cli.overview import COMMANDS
from tests.cli.conftest import Kbsim

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": ".", "MANWIDTH": "80"}
script_of = cache(script)
BASH = """
source kbsim.bash
COMP_WORDS=({words}) COMP_CWORD={last}
_kbsim
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
compdef() {{ }}
compadd() {{ shift; print -l -- "$@" }}
_files() {{ print -l -- *(N) }}
source kbsim.zsh
words=({words}) CURRENT=$(({last} + 1))
_kbsim
"""
FISH = "source kbsim.fish; complete -C {line}"


def offered(shell: str, line: str) -> set[str]:
    """What a shell offers for the last word of a line."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    Path(f"kbsim.{shell}").write_text(script_of(shell), encoding="utf-8")
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    code = {"bash": BASH, "zsh": ZSH, "fish": FISH}[shell].format(words=quoted, last=len(words) - 1, line=f"'{line}'")
    done = subprocess.run(
        [shell, "-c", code], capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin", "HOME": "."}
    )
    assert not done.stderr
    found = {one.split("\t")[0] for one in done.stdout.split("\n") if one}
    return {one for one in found if one.startswith(words[-1])}  # zsh itself leaves out the others


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("kbsim ", {"run", "llm", "trace", "completion"}),
        ("kbsim tr", {"trace", "triton"}),
        ("kbsim trace ", {"summary", "why", "report"}),
        ("kbsim run vec", {"vector_add"}),
        ("kbsim run ti", {"tiles.json"}),
        ("kbsim run tiles.json -c npu_", {"npu_mobile", "npu_server"}),
        ("kbsim run tiles.json --config sma", {"small.yaml"}),
        ("kbsim run tiles.json --wa", {"--walk"}),
        ("kbsim run tiles.json --walk ", {"plain", "fast"}),
        ("kbsim llm --model llama3-", {"llama3-8b", "llama3-70b"}),
        ("kbsim op matmul --runtime torch_", {"torch_eager", "torch_rocm", "torch_sdpa"}),
        ("kbsim op -c h100 atten", {"attention"}),
        ("kbsim ccl run all_", {"all_reduce", "all_gather", "all_to_all"}),
        ("kbsim ccl run all_reduce --algo ri", {"ring"}),
        ("kbsim validate dr", {"dram"}),
        ("kbsim config show h200", {"h200", "h200_8x"}),
        ("kbsim program show --graph ", {"dot", "mermaid"}),
        ("kbsim schema ll", {"llm"}),
        ("kbsim completion z", {"zsh"}),
        ("kbsim man tra", {"trace"}),
    ],
)  # fmt: skip
def test_shells_offer_what_may_follow(shell: str, line: str, some: set[str]) -> None:
    found = offered(shell, line)
    assert some <= found
    if line[-1] != " ":
        assert {one for one in found if not Path(one).exists() or one in some} == some


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_value_without_names_is_offered_none(shell: str) -> None:
    assert offered(shell, "kbsim run tiles.json --trace-window ") == set()


def test_a_script_names_every_option_and_is_printed(kbsim: Kbsim) -> None:
    for shell in ("bash", "zsh", "fish"):
        said = kbsim("completion", shell)
        assert said == (0, script(shell), "")
        for node in command_tree().walk():
            for option in node.options:
                for name in option.names:
                    assert name in said.out or f"-l {name.lstrip('-')}" in said.out or f"-s {name.lstrip('-')}" in said.out
    assert kbsim("completion", "csh").code == 2


def test_each_kind_of_name_has_some() -> None:
    kinds = {one.kind for node in command_tree().walk() for one in (*node.options, *node.arguments)} - {""}
    assert {"machines", "models", "runtimes", "targets", "benches", "collectives", "operations"} <= kinds
    assert all(names_of(kind) for kind in kinds)


def test_each_command_has_a_page(kbsim: Kbsim) -> None:
    pages = manual_pages()
    assert set(pages) == {"kbsim.1", *(f"kbsim-{name}.1" for name in COMMANDS)}
    for node in command_tree().walk():
        page = pages["kbsim.1" if not node.path else f"kbsim-{node.path.partition(' ')[0]}.1"]
        if not node.children or not node.path:
            for option in node.options:
                assert rf"\fB{option.names[0].replace('-', chr(92) + '-')}\fR" in page
    assert kbsim("man", "run") == (0, pages["kbsim-run.1"], "")
    assert kbsim("man").out == pages["kbsim.1"]
    said = kbsim("man", "rum")
    assert said.code == 2 and "did you mean run?" in said.err


def test_pages_are_written_and_man_reads_them(kbsim: Kbsim) -> None:
    assert kbsim("man", "-o", "man/man1").code == 0
    assert {file.name: file.read_text() for file in Path("man/man1").iterdir()} == manual_pages()
    if shutil.which("man") is None:
        pytest.skip("there is no man here")
    for name in ("kbsim.1", "kbsim-trace.1", "kbsim-run.1"):
        page = ["man", "--warnings", "-l", f"man/man1/{name}"]
        done = subprocess.run(page, capture_output=True, text=True, check=True, env=ENVIRONMENT)
        assert not done.stderr
        assert re.search(r"NAME\n +kbsim", re.sub(r".\x08", "", done.stdout))
