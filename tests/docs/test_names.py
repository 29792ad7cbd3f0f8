"""What pages name in code font is there: files, folders, Python names, commands and options of `kbsim`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from kernbench.cli.command_tree import CommandNode, command_tree
from tests.docs.code_names import words_of_the_code
from tests.docs.examples import pages
from tests.meta.source import GENERATED, ROOT

GUIDE = ROOT / "CONTRIBUTING.md"
pytestmark = pytest.mark.skipif(not GUIDE.exists(), reason="this is not a checkout of the repository")
PAGES = [*pages(), GUIDE] if GUIDE.exists() else []
TOPS = ("kernbench", "kernbench_core", "configs", "benches", "tests", "docs", ".github", ".ci")
ROOMS = {path.name for top in ("kernbench", "kernbench_core") for path in (ROOT / top).glob("*/")} - {"fast"}
SCHEMAS = ("kernbench/npu/1", "kernbench/system/1")  #: names of formats, which only look like paths
NEW = re.compile(r"NAME|[*{}<>]")  #: what somebody who follows a list makes, and patterns

#: Pages on other programs, whose names and options they have: those programs' own, or both.
OTHER_PROGRAMS = ("coming_from/", "how-to/import_collectives.md", "reference/triton_peers.md", "reference/triton.md")
#: Options in code font that other programs have, and scripts of tests.
OTHER_OPTIONS = {
    "--strip-all": "strip", "--bases": "tests/search.py", "--keep": "tests/search.py", "--datatype": "nccl-tests",
    "--minbytes": "nccl-tests", "--maxbytes": "nccl-tests", "--stepfactor": "nccl-tests", "--stepbytes": "nccl-tests",
    "--cpus-per-task": "sbatch", "--kbsim-update": "kernbench/testing/plugin.py", "-p": "pytest", "-x": "a value",
    "-fno-asynchronous-unwind-tables": "gcc",
}  # fmt: skip
#: Names that are the reader's, another program's, the operating system's, or a mathematical sign of the page.
OTHER_NAMES = {
    "maxBytes", "minBytes", "bl", "columnN", "n_earlier", "_r", "_wr", "auto_map", "PYTEST_DISABLE_PLUGIN_AUTOLOAD",
    "NCCL_ALGO", "target_clones", "PyInit_", "kernbench_redop", "kernbench_slot_bytes", "_backward",
    "PR_SET_PDEATHSIG", "kernbench_protocol", "hwLat", "NCCL_MAX_NCHANNELS", "multimem", "multimem.red",
    "multimem.ld_reduce", "qr",
}  # fmt: skip
#: Names that the code had before: decisions explain it as it was, and the glossary has names that were replaced.
OLD_NAMES = {"wide_cycle", "walk_traced", "road_add", "doubt", "scratchpad_clear", "Ghost"}


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def spans(page: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of each span in code font outside blocks."""
    text = re.sub(r"^( *)```.*?^ *```", lambda block: "\n" * block[0].count("\n"), page.read_text("utf-8"), flags=re.M | re.S)
    for number, line in enumerate(text.split("\n"), 1):
        for span in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", line):
            yield number, span


@cache
def found() -> list[tuple[Path, int, str]]:
    """(page, line, text) of each span of each page."""
    return [(page, line, span) for page in PAGES for line, span in spans(page)]


def own_names(page: Path) -> bool:
    """Whether a page has no names of other programs."""
    return not any(part in _name(page) for part in OTHER_PROGRAMS)


def blocks(page: Path) -> str:
    """What stands in the blocks of a page."""
    return "\n".join(re.findall(r"^ *```.*?^ *```", page.read_text("utf-8"), re.M | re.S))


@cache
def tracked() -> frozenset[str]:
    """Every file of the project, and every folder."""
    found = set()
    for top in TOPS:
        for path in (ROOT / top).rglob("*"):
            if not GENERATED & set(path.parts):
                found.add(path.relative_to(ROOT).as_posix())
    return frozenset(found)


def is_file(path: str) -> bool:
    """Whether a path, from the root, from a package or from a room, with or without its suffix, is a file or a folder."""
    named = path.rstrip("/")
    inside = [f"{top}{named}" for top in ("", "kernbench/", "kernbench_core/", "docs/", "configs/", "tests/")]
    return any(one + suffix in tracked() for one in inside for suffix in ("", ".py", ".pyx", ".pxd"))


def test_files_of_a_page_are_there() -> None:
    wrong = []
    for page, line, span in found():
        head = span.split("/")[0]
        if not re.fullmatch(r"[\w.-]+(?:/[\w.-]+)+/?", span) or NEW.search(span) or span in SCHEMAS:
            continue
        if (head in TOPS or head in ROOMS) and not GENERATED & set(span.split("/")) and not is_file(span):
            wrong.append(f"{_name(page)}:{line}: {span}")
    assert not wrong, "\n".join(wrong)


@cache
def is_importable(name: str) -> bool:
    """Whether a dotted name is a module, or what a module has."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            there = importlib.import_module(".".join(parts[:end]))
            for part in parts[end:]:
                there = getattr(there, part, None) if part in getattr(there, "__annotations__", ()) else getattr(there, part)
        except ModuleNotFoundError:
            continue
        except AttributeError:
            return False
        except ImportError:  # it says which extra is not installed
            return True
        return True
    return False


#: Names in the form of a module: the group of entry points, and attributes of spans of OpenTelemetry.
NO_MODULES = {
    "kernbench.plugins", "kernbench_core.kb_engine", "kernbench.level", "kernbench.start_cycle", "kernbench.end_cycle",
}  # fmt: skip


def test_python_names_of_a_page_are_there() -> None:
    wrong = []
    for page, line, span in found():
        match = re.fullmatch(r"((?:kernbench|kernbench_core|kb)(?:\.[A-Za-z_]\w*)+)(?:\(.*\))?", span)
        if match is not None and match[1] not in NO_MODULES and not is_importable(re.sub(r"^kb\.", "kernbench.", match[1])):
            wrong.append(f"{_name(page)}:{line}: {span}")
    assert not wrong, "\n".join(wrong)


@cache
def words() -> frozenset[str]:
    """Every word of sources, tests and scripts."""
    folders = words_of_the_code("kernbench", "kernbench_core", "configs", "benches", "tests", "docs")
    files = [ROOT / name for name in ("setup.py", "pyproject.toml", "Makefile", "kernbench_libraries.py")]
    more = {word for path in files for word in re.findall(r"\w+", path.read_text("utf-8"))}
    scripts = [path for path in (ROOT / "kernbench").rglob("*") if path.suffix in (".js", ".css", ".json")]
    return frozenset(folders | more | {word for path in scripts for word in re.findall(r"\w+", path.read_text("utf-8"))})


def test_words_in_code_font_are_words_of_the_code() -> None:
    """A renamed function, key or class leaves a page whose word no source has."""
    own = {page: set(re.findall(r"\w+", blocks(page))) for page in PAGES}
    wrong = []
    for page, line, span in found():
        if not own_names(page) or not re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(.*\))?", span):
            continue
        parts = set(span.partition("(")[0].split("."))
        missing = parts - words() - own[page] - OTHER_NAMES - OLD_NAMES
        if missing and span.rpartition(".")[2] not in ("py", "json", "yaml", "md"):  # the reader's own files
            wrong.append(f"{_name(page)}:{line}: {span}")
    assert not wrong, "\n".join(wrong)


@cache
def commands() -> dict[str, CommandNode]:
    """The commands of `kbsim` by their path."""
    return {node.path: node for node in command_tree().walk()}


def options_of(path: str) -> set[str]:
    """The options that a command takes. `serve` alone is `serve run`."""
    own = {name for one in commands()[path].options for name in one.names} | {"--help", "-h"}
    return own if path != "serve" else own | options_of("serve run")


def problems(line: str) -> Iterator[str]:
    """What a command line, without `kbsim`, names that is not there."""
    words, path = re.split(r" \||[#;>&)`]| -- ", line)[0].split(), ""
    while words and f"{path} {words[0]}".strip() in commands():
        path = f"{path} {words.pop(0)}".strip()
    rest = [word.partition("=")[0].rstrip(".,") for word in words]
    if commands()[path].children and path != "serve" and rest and re.fullmatch(r"[a-z][a-z_-]*", rest[0]):
        yield f"no command {path} {rest[0]}"
    options = [word for word in rest if re.fullmatch(r"--[a-z][a-z-]*", word)]
    yield from (f"{path} has no {word}" for word in options if word not in options_of(path))


def test_commands_and_options_of_a_page_are_there() -> None:
    wrong = []
    for page, line, span in found():
        if span.startswith("kbsim "):
            wrong += [f"{_name(page)}:{line}: {one}" for one in problems(span.removeprefix("kbsim "))]
    for page in PAGES:
        for one in re.findall(r"^\$? ?kbsim (.*)$", blocks(page), re.M):
            wrong += [f"{_name(page)}: {problem}" for problem in problems(one)]
    assert not wrong, "\n".join(wrong)


def test_options_in_code_font_are_there() -> None:
    known = {name for node in commands().values() for one in node.options for name in one.names} | set(OTHER_OPTIONS)
    options = [(page, line, re.match(r"--?[a-z][a-z-]*", span)) for page, line, span in found() if own_names(page)]
    assert len(options) > 300
    wrong = [f"{_name(page)}:{line}: {one[0]}" for page, line, one in options if one is not None and one[0] not in known]
    assert not wrong, "\n".join(wrong)


def test_what_is_not_there_is_found(tmp_path: Path) -> None:
    assert list(problems("run gemm --no-such-option")) == ["run has no --no-such-option"]
    assert list(problems("trace fly a.jsonl")) == ["no command trace fly"]
    assert not list(problems("run gemm -c npu_server --trace t.jsonl")) and not list(problems("serve --model llama3-8b"))
    assert is_file("kernbench/cmdq/plan.py") and is_file("model/bank") and is_file("tests/docs/")
    assert not is_file("kernbench/cmdq/plans.py")
    assert is_importable("kernbench.load_config") and is_importable("kernbench.config.NpuConfig.digest")
    assert not is_importable("kernbench.load_configuration") and not is_importable("kernbench.nothing.here")
    page = tmp_path / "page.md"
    page.write_text("`one` and\n```sh\nkbsim `no`\n```\n`two`\n", encoding="utf-8")
    assert list(spans(page)) == [(1, "one"), (5, "two")] and "kbsim" in blocks(page)
