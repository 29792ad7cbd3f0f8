"""Runs the examples of a page and says what they print; with `--write`, puts what they print into the pages.

    python -m tests.docs.examples --write [PAGE...]
    python tests/docs/examples.py [--plain] [PAGE...]    # also where this file and the pages were copied to

With `--plain` the commands of `sh` blocks run too, and all commands run at 80 and at 160 columns. At 160 columns their output
is not compared, but exit codes and the lengths of lines are.

What is an example:

- a `json`, `yaml` or `xml` block under `<!-- file: NAME -->` is written to that file;
- a `python` block is run; all of a page share one namespace; under `<!-- save: NAME -->` it is written to that file instead;
  under `<!-- in: NAME -->` it is an excerpt of a source file, and is not run;
- a `text` block under `<!-- output -->` is what the last python block printed;
- in a `console` block each line `$ kbsim ...` is run by the shell; the lines below it are what it prints on stdout and stderr;
- in an `sh` block each line is a command of the reader: `kbsim`, `pytest` or `pip install`. A `text` block directly below it is
  what the last command prints; without one the exit code must be 0.

A page's examples run in order in one empty directory.
An output line `...` stands for any number of lines, `[...]` for any text in its line.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?```(?P<kind>json|yaml|xml|python|text|console|sh)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
ANYTHING = "..."
#: A command that starts `kbsim`, and what the shell does with its output.
STARTS = re.compile(r"""kbsim((?: +(?!\d>)(?:[\w.,:/=@%+-]|"[^"$`\\]*"|'[^']*')+)*) *((?:[|>;]|2>&1 ).*)?""", re.DOTALL)
NOT_RUN = ("make ", "kbsim validate")  #: what needs the source tree, and what takes minutes and has tests of its own


@dataclass(frozen=True)
class Shown:
    """What a page says that an example prints, and what it printed."""

    line: int  #: in the page
    said: str
    printed: str
    span: tuple[int, int]  #: of `said` in the page's text
    code: int = 0  #: exit code of a command
    command: bool = False  #: it is one, so its output depends on the width
    compared: bool = True  #: whether the page shows its output

    def agrees(self) -> bool:
        """Whether the page is right; a line `...` stands for any number of lines, `[...]` for any text in its line."""
        if not self.compared:
            return self.code == 0
        parts = [re.escape(part) for part in re.split(r"^\.\.\.\n", self.said, flags=re.MULTILINE)]
        parts = [part.replace(re.escape("[...]"), ".*") for part in parts]
        return re.fullmatch(r"(?:.*\n)*?".join(parts), self.printed) is not None


@functools.cache  # it takes 0.1 s: the folders hold what was built from them, too
def pages() -> tuple[Path, ...]:
    """README and every page that is written by hand."""
    found = sorted(path for path in (ROOT / "docs").rglob("*.md") if not {"_build", "_generated"} & set(path.parts))
    return (ROOT / "README.md", *found)


@functools.cache
def first_pages() -> tuple[Path, ...]:
    """README and the tutorials: what they show works on a plain install."""
    return tuple(page for page in pages() if page.name == "README.md" or page.parent.name == "tutorials")


#: Runs `kbsim` with these arguments in this environment: what it prints on stdout and on stderr, and its exit code. The last
#: argument says whether stderr goes where stdout goes.
Kbsim = Callable[[Sequence[str], Mapping[str, str], bool], tuple[str, str, int]]


@dataclass(frozen=True)
class Place:
    """Where commands run."""

    columns: int = 80
    hidden: Sequence[str] = ()  #: modules that cannot be imported
    shell: bool = False  #: whether commands of `sh` blocks run
    kbsim: Kbsim | None = None  #: runs those that the shell would only start, in its stead; `hidden` is its own matter


def run_page(page: Path, place: Place = Place()) -> list[Shown]:
    """Run a page's examples in an empty directory."""
    return run_text(page.read_text(encoding="utf-8"), place)


def run_text(text: str, place: Place = Place()) -> list[Shown]:
    """Run the examples of a text in an empty directory."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), _without(place.hidden), _forgetting(folder):
        return list(_run(text, {"__name__": "__example__"}, place))


@functools.cache  # it takes 0.4 s: it reads what every installed package says of itself
def extra_modules() -> tuple[str, ...]:
    """Top-level modules of what is installed here and is no dependency of a plain `pip install kernbench`."""
    from packaging.requirements import Requirement  # of matplotlib

    plain, asked = set(), ["kernbench"]
    while asked:
        name = _plain_name(asked.pop())
        if name in plain:
            continue
        plain.add(name)
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            wanted = [Requirement(text) for text in importlib.metadata.requires(name) or ()]
            asked += [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    owners = importlib.metadata.packages_distributions()
    return tuple(sorted(module for module, of in owners.items() if not plain & {_plain_name(name) for name in of}))


def _plain_name(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


@contextlib.contextmanager
def _without(modules: Sequence[str]) -> Iterator[None]:
    """Python blocks cannot import these. `_pytest` stays: under pytest it imports the modules of kernbench."""
    modules = [name for name in modules if name != "_pytest"]
    before = {name: sys.modules[name] for name in modules if name in sys.modules}
    sys.modules.update(dict.fromkeys(modules))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in modules:
            del sys.modules[name]
        sys.modules.update(before)


@contextlib.contextmanager
def _forgetting(folder: str) -> Iterator[None]:
    """Modules that a page imports from its directory are gone with it, so that another page may have one of the same name.

    So is what the page adds to the search path, and what Python keeps of it: for ".", Python keeps the directory of the page.
    """
    before, path = set(sys.modules), list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = path
        sys.path_importer_cache.pop(".", None)
        here = Path(folder).resolve()
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and here in Path(file).resolve().parents:
                del sys.modules[name]


def _run(text: str, names: dict[str, Any], place: Place) -> Iterator[Shown]:
    printed = ""
    blocks = list(BLOCK.finditer(text))
    for block, below in zip(blocks, [*blocks[1:], None], strict=False):  # a page may have no block
        kind, body, mark = block["kind"], block["body"], block["mark"] or ""
        if kind in ("json", "yaml", "xml", "python") and mark.startswith("file: "):
            Path(mark.removeprefix("file: ")).write_text(body, encoding="utf-8")
        if kind == "python" and mark.startswith("save: "):
            Path(mark.removeprefix("save: ")).write_text(body, encoding="utf-8")
        elif kind == "python" and not mark.startswith("in: "):
            printed = _python(body, names)
        elif kind == "text" and mark == "output":
            yield _shown(text, block.start("body"), body, printed)
        elif kind == "sh" and place.shell:
            shown = below if below and below["kind"] == "text" and text[block.end() : below.start()] == "\n" else None
            yield from _commands(text, block, shown, place)
        elif kind == "console":
            yield from _console(text, block.start("body"), body, place)


def _shown(text: str, start: int, said: str, printed: str, code: int = 0, *, command: bool = False) -> Shown:
    return Shown(text.count("\n", 0, start) + 1, said, printed, (start, start + len(said)), code, command)


def _python(code: str, names: dict[str, Any]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "example", "exec", dont_inherit=True), names)
    return out.getvalue()


def _console(text: str, start: int, body: str, place: Place) -> Iterator[Shown]:
    commands = list(re.finditer(r"^\$ (.*)\n", body, re.MULTILINE))
    for command, after in zip(commands, [*commands[1:], None], strict=True):
        if not command[1].startswith("kbsim "):
            raise AssertionError(f"a console block runs kbsim only, and not: {command[1]}")
        said = body[command.end() : after.start() if after else len(body)]
        yield _shown(text, start + command.end(), said, *_shell(command[1], place), command=True)


def _commands(text: str, block: re.Match[str], below: re.Match[str] | None, place: Place) -> Iterator[Shown]:
    """The commands of an `sh` block; what the last one prints is in the block below, where there is one."""
    lines = [line for line in block["body"].splitlines() if line.strip() and not line.startswith(("#", *NOT_RUN))]
    for line in lines:
        if not line.startswith(("kbsim ", "pytest ", "pip install ")):
            raise AssertionError(f"an sh block runs kbsim, pytest and pip install only, and not: {line}")
        start, said = (below.start("body"), below["body"]) if below and line == lines[-1] else (block.start("body"), "")
        made = _shown(text, start, said, *_shell(line, place), command=True)
        yield made if said else replace(made, compared=False)


def _shell(command: str, place: Place) -> tuple[str, int]:
    """What a command prints, and its exit code."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    keep = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "KBSIM_DEBUG")}
    environment = {**keep, "PATH": path, "COLUMNS": str(place.columns), "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    with tempfile.TemporaryDirectory() as folder:
        starts = STARTS.fullmatch(command)
        if place.kbsim is not None and starts is not None:
            further = starts[2] or ""
            out, err, code = place.kbsim(shlex.split(starts[1]), environment, not further.startswith(("|", ">")))
            if not further:
                return out, code
            command = _told_again(out, err, code, Path(folder)) + further
        if place.hidden:
            environment |= hiding(place.hidden, Path(folder))
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(command, shell=True, env=environment, timeout=300, check=False, **both)
    return done.stdout.decode("utf-8"), done.returncode


def _told_again(out: str, err: str, code: int, folder: Path) -> str:
    """The begin of a command that prints this and ends so, as `kbsim` has."""
    for name, text in (("out", out), ("err", err)):
        (folder / name).write_text(text, encoding="utf-8")
    return f"said() {{ cat {folder}/out; cat {folder}/err >&2; return {code}; }}\nsaid "


def hiding(modules: Sequence[str], folder: Path) -> dict[str, str]:
    """Environment of processes that cannot import these; a file for it is written into the folder."""
    hides = f"import sys\nsys.modules.update(dict.fromkeys({list(modules)!r}))\n"
    (folder / "sitecustomize.py").write_text(hides, encoding="utf-8")
    return {"PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)}


def wrong_at(page: Path, wide: int, *, shell: bool = False) -> list[str]:
    """The differences of a page's examples at 80 columns from the page, and at `wide` columns in exit codes and long lines."""
    found = []
    for narrow, shown in zip(run_page(page, Place(shell=shell)), run_page(page, Place(wide, shell=shell)), strict=True):
        if shown.code != narrow.code:
            found.append(f"line {shown.line}: exit code {shown.code} at {wide} columns, and {narrow.code} at 80")
        if shown.command and (long := _longest(shown.printed)) > max(wide, _longest(narrow.printed)):
            found.append(f"line {shown.line}: a line of {long} characters at {wide} columns")
        if not narrow.agrees() or not (shown.command or shown.agrees()):
            found.append(f"line {shown.line}: differs from the page, exit code {narrow.code}: {narrow.printed[-600:]}")
    return found


def _longest(text: str) -> int:
    return max(map(len, text.split("\n")))


def rewrite(page: Path) -> bool:
    """Put what the examples print into a page; whether that changed it. What agrees, `...` and all, is left."""
    text = page.read_text(encoding="utf-8")
    changed = text
    for shown in reversed(run_page(page)):
        if not shown.agrees():
            changed = changed[: shown.span[0]] + _shortened(shown) + changed[shown.span[1] :]
    if changed != text:
        page.write_text(changed, encoding="utf-8")
    return changed != text


def _shortened(shown: Shown) -> str:
    """The new output; where the page cut it at its end, it is cut again after as many lines."""
    said, printed = shown.said.splitlines(keepends=True), shown.printed.splitlines(keepends=True)
    if said[-1:] == [ANYTHING + "\n"] and len(printed) > len(said):
        return "".join(printed[: len(said) - 1]) + ANYTHING + "\n"
    return shown.printed


def main(arguments: Sequence[str]) -> int:
    """Look at pages, or rewrite them; 1 where one is wrong."""
    named = [Path(name).resolve() for name in arguments if not name.startswith("--")]
    wanted = named or (first_pages() if "--plain" in arguments else pages())
    code = 0
    for one in wanted:
        name = one.relative_to(ROOT)
        if "--write" in arguments:
            print(f"{name}: {'rewritten' if rewrite(one) else 'as it was'}")
            continue
        if "--plain" in arguments:
            said = "; ".join(wrong_at(one, 160, shell=True))
        else:
            lines = [shown.line for shown in run_page(one) if not shown.agrees()]
            said = f"differs at lines {lines}" if lines else ""
        print(f"{name}: {said or 'agrees'}", flush=True)
        code |= bool(said)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
