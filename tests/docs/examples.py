"""Runs the examples of a page and says what they print; with `--write`, puts what they print into the pages.

    python -m tests.docs.examples --write

What is an example:

- a `json` or `yaml` block under `<!-- file: NAME -->` is written to that file;
- a `python` block is run; all of a page share one namespace; under `<!-- save: NAME -->` it is written to that file instead;
- a `text` block under `<!-- output -->` is what the last python block printed;
- in a `console` block each line `$ kbsim ...` is run by the shell; the lines below it are what it prints on stdout and stderr.

A page's examples run in order in one empty directory.
An output line `...` stands for any number of lines, `[...]` for any text in its line.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?```(?P<kind>json|yaml|python|text|console)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
ANYTHING = "..."


@dataclass(frozen=True)
class Shown:
    """What a page says that an example prints, and what it printed."""

    line: int  #: in the page
    said: str
    printed: str
    span: tuple[int, int]  #: of `said` in the page's text

    def agrees(self) -> bool:
        """Whether the page is right; a line `...` stands for any number of lines, `[...]` for any text in its line."""
        parts = [re.escape(part) for part in re.split(r"^\.\.\.\n", self.said, flags=re.MULTILINE)]
        parts = [part.replace(re.escape("[...]"), ".*") for part in parts]
        return re.fullmatch(r"(?:.*\n)*?".join(parts), self.printed) is not None


def pages() -> list[Path]:
    """README and every page that is written by hand."""
    found = sorted(path for path in (ROOT / "docs").rglob("*.md") if not {"_build", "_generated"} & set(path.parts))
    return [ROOT / "README.md", *found]


def run_page(page: Path) -> list[Shown]:
    """Run a page's examples in an empty directory."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return list(_run(text, {"__name__": "__example__"}))


def _run(text: str, names: dict[str, Any]) -> Iterator[Shown]:
    printed = ""
    for block in BLOCK.finditer(text):
        kind, body, mark = block["kind"], block["body"], block["mark"] or ""
        if kind in ("json", "yaml", "python") and mark.startswith("file: "):
            Path(mark.removeprefix("file: ")).write_text(body, encoding="utf-8")
        if kind == "python" and mark.startswith("save: "):
            Path(mark.removeprefix("save: ")).write_text(body, encoding="utf-8")
        elif kind == "python":
            printed = _python(body, names)
        elif kind == "text" and mark == "output":
            yield _shown(text, block.start("body"), body, printed)
        elif kind == "console":
            yield from _console(text, block.start("body"), body)


def _shown(text: str, start: int, said: str, printed: str) -> Shown:
    return Shown(text.count("\n", 0, start) + 1, said, printed, (start, start + len(said)))


def _python(code: str, names: dict[str, Any]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "example", "exec", dont_inherit=True), names)
    return out.getvalue()


def _console(text: str, start: int, body: str) -> Iterator[Shown]:
    commands = list(re.finditer(r"^\$ (.*)\n", body, re.MULTILINE))
    for command, after in zip(commands, [*commands[1:], None], strict=True):
        if not command[1].startswith("kbsim "):
            raise AssertionError(f"a console block runs kbsim only, and not: {command[1]}")
        said = body[command.end() : after.start() if after else len(body)]
        yield _shown(text, start + command.end(), said, _shell(command[1]))


def _shell(command: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    keep = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "KBSIM_DEBUG")}
    environment = {**keep, "PATH": path, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(command, shell=True, env=environment, timeout=300, check=False, **both).stdout.decode("utf-8")


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


if __name__ == "__main__":
    wanted = [Path(name).resolve() for name in sys.argv[1:] if name != "--write"] or pages()
    for one in wanted:
        if "--write" in sys.argv:
            print(f"{one.relative_to(ROOT)}: {'rewritten' if rewrite(one) else 'as it was'}")
        else:
            wrong = [shown.line for shown in run_page(one) if not shown.agrees()]
            print(f"{one.relative_to(ROOT)}: {'differs at lines ' + str(wrong) if wrong else 'agrees'}")
