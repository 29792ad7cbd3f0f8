"""Every example of the documentation is run, and prints what the page says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.docs import examples
from tests.docs.examples import (
    BLOCK,
    ROOT,
    Kbsim,
    Place,
    Shown,
    extra_modules,
    first_pages,
    pages,
    run_page,
    run_text,
    wrong_at,
)
from tests.forked import Forked

PAGES = [page for page in pages() if page.exists() and BLOCK.search(page.read_text(encoding="utf-8"))]


IN_TREE = pytest.mark.skipif(not (ROOT / "docs" / "index.md").exists(), reason="the documentation is not in this source tree")
EACH = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
#: Commands of this page start as a user starts them, as those of the README do (below); nightly those of all pages.
#: The page has seven short commands, files and Python.
STARTED = [page for page in PAGES if page.name == "add_a_rule.md"]


@pytest.fixture(scope="session")
def full(forked: Forked) -> Kbsim:
    """Commands in forked children, which spare the time that a start takes."""
    return forking(forked)


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kbsim]:
    """The same, with nothing to import but what a plain install has."""
    hides = examples.hiding(extra_modules(), tmp_path_factory.mktemp("plain"))
    with Forked({**os.environ, **hides}) as forked:
        yield forking(forked)


def forking(forked: Forked) -> Kbsim:
    def kbsim(arguments: Sequence[str], environment: Mapping[str, str], together: bool) -> tuple[str, str, int]:
        here = Path.cwd()
        ended = forked.kbsim(*arguments, folder=here, environment=environment, together=together, seconds=300, teardown=False)
        return ended.out, ended.err, ended.code

    return kbsim


@IN_TREE
@EACH
def test_examples_print_what_the_page_says(page: Path, full: Kbsim, plain: Kbsim) -> None:
    """README and the tutorials have nothing to import but what a plain install has."""
    place = Place(hidden=extra_modules(), kbsim=plain) if page in first_pages() else Place(kbsim=full)
    agrees(page, place)


@pytest.mark.nightly
@IN_TREE
@EACH
def test_examples_do_so_in_processes_that_the_shell_starts(page: Path) -> None:
    agrees(page, Place(hidden=extra_modules()) if page in first_pages() else Place())


@IN_TREE
def test_some_examples_do_so_in_processes_that_the_shell_starts() -> None:
    (page,) = STARTED
    agrees(page, Place())


def agrees(page: Path, place: Place) -> None:
    wrong = [shown for shown in run_page(page, place) if not shown.agrees()]
    text = "\n".join(f"line {shown.line}:\n{shown.said}--- printed:\n{shown.printed}" for shown in wrong)
    assert not wrong, f"{page.relative_to(ROOT)} (python -m tests.docs.examples --write): {text}"


def test_dots_stand_for_lines_and_nothing_else_does() -> None:
    printed = "a\nb\nc\n"
    assert Shown(1, "a\n...\nc\n", printed, (0, 0)).agrees()
    assert Shown(1, "...\n", printed, (0, 0)).agrees()
    assert Shown(1, "a\nb\nc\n...\n", printed, (0, 0)).agrees()
    assert Shown(1, "x = [...], y\n", "x = 1234, y\n", (0, 0)).agrees()
    assert not Shown(1, "x = [...], y\n", "x = 1234\n, y\n", (0, 0)).agrees()
    assert not Shown(1, "a\nc\n", printed, (0, 0)).agrees()
    assert not Shown(1, "a\n.\nc\n", printed, (0, 0)).agrees()
    assert not Shown(1, "", printed, (0, 0)).agrees()


def test_a_forked_child_prints_what_a_process_prints(full: Kbsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers, refusals and help, on stdout and stderr, and what the shell makes of them."""
    monkeypatch.chdir(tmp_path)
    commands = ["run gemm --json", "run nothing", "run gemm --set dram.channels=5", "trace --help", "sweep", "config show tiny"]
    commands += ["run gemm --config single_cube", 'run nothing; echo "exit code $?"', "run nothing 2>&1 | wc -l"]
    commands += ["run nothing > x"]
    text = "".join(f"```console\n$ kbsim {command}\n```\n" for command in commands)
    forked, started = ([(one.printed, one.code) for one in run_text(text, place)] for place in (Place(kbsim=full), Place()))
    assert forked == started and {code for _, code in forked} == {0, 2}


def test_the_shell_starts_only_what_is_more_than_a_command_and_what_becomes_of_its_output() -> None:
    asked: list[Sequence[str]] = []

    def spy(arguments: Sequence[str], environment: Mapping[str, str], together: bool) -> tuple[str, str, int]:
        asked.append(arguments)
        return "out\n", "" if together else "err\n", 3

    lines = ["kbsim --version | sed s/u/x/", "kbsim run 'a b.json'", 'kbsim run "{a: *}" 2>&1 | tail -n 1; echo $?']
    lines += ["kbsim -q; echo $?", "kbsim $(echo -h)"]
    shown = run_text("".join(f"```console\n$ {line}\n```\n" for line in lines), Place(kbsim=spy))
    assert asked == [["--version"], ["run", "a b.json"], ["run", "{a: *}"], ["-q"]]
    assert [one.code for one in shown] == [0, 3, 0, 0, 0] and "Usage" in shown[4].printed
    assert sorted(shown[0].printed.split()) == ["err", "oxt"]  # two processes print
    assert [one.printed for one in shown[1:4]] == ["out\n", "out\n0\n", "out\n3\n"]


def test_the_readme_at_160_columns() -> None:
    if (ROOT / "README.md").exists():
        assert wrong_at(ROOT / "README.md", 160) == []


def test_commands_of_the_readme_work() -> None:
    """Those of its sh blocks, in their order."""
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("README.md is not in this source tree")
    blocks = re.findall(r"^```sh\n(.*?)^```$", readme.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert sum(line.startswith("kbsim ") for block in blocks for line in block.splitlines()) > 6
    shown = run_text("".join(f"```sh\n{one}```\n" for one in blocks), Place(hidden=extra_modules(), shell=True))
    assert len(shown) > 6 and [one.printed for one in shown if not one.agrees()] == []


def test_an_sh_block_is_compared_with_the_text_below_it_or_must_exit_with_0() -> None:
    text = "```sh\nkbsim --version\n```\n```text\nkernbench [...]\n...\n```\n```sh\nkbsim run nothing\n```\n"
    shown = run_text(text, Place(shell=True))
    assert [one.agrees() for one in shown] == [True, False] and [one.code for one in shown] == [0, 2]
    assert run_text(text) == []


def test_modules_of_extras_are_hidden_and_those_of_a_plain_install_are_not() -> None:
    hidden = set(extra_modules())
    assert {"pytest", "hypothesis"} <= hidden
    assert not hidden & {"kernbench", "kernbench_core", "numpy", "matplotlib", "rich", "typer", "yaml", "pydantic_core"}


def test_the_pages_have_examples() -> None:
    if not (ROOT / "docs" / "index.md").exists():
        pytest.skip("the documentation is not in this source tree")
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert {"README.md", "docs/model/by_example.md", "docs/tutorials/first_program.md", "docs/reference/python.md"} <= names
