"""docs/walks.md follows commands through the code: its functions exist and call what it says, and its counts hold."""

from __future__ import annotations

import re
import sys
from io import BytesIO
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from kernbench import Machine, load_config, load_program
from kernbench.sim_engine.recording.options import TraceOptions
from tests.meta.source import ROOT, needs_source

PAGE = ROOT / "docs" / "walks.md"
pytestmark = needs_source

#: Files, changes of package and shapes of a walk, at most.
LIMITS = {
    "An entry of a command queue": {"shapes": 5},
    "A load of a kernel": {"files": 15, "changes of package": 5, "shapes": 5},
    "A send of a kernel": {"files": 15, "changes of package": 5, "shapes": 5},
}
#: Calls through a table of functions, by name: what stands there is another function.
THROUGH = {"submit": "api_submit", "Columns": "_fill_tiles", "Core": "lay_out_dma_jobs"}
#: Steps that no step before them calls: what the user, or the core when it is time, calls first.
FIRST = {"load_program", "__init__", "enqueue_lines", "_times", "load", "send", "notify", "advance"}

Walk = tuple[list[tuple[str, str, list[str]]], list[tuple[str, str]], str]


def walks() -> dict[str, Walk]:
    """By title: its steps (file, function, calls), its shapes (name, file), and the sentence of its counts."""
    found: dict[str, Walk] = {}
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.split("\n") if line.startswith("| `")]
        steps = [(a.strip("`"), b.strip("`"), re.findall(r"`([\w.]+)`", calls)) for a, b, calls in rows if "/" in a]
        shapes = [(name.strip("`"), path.strip("`")) for name, path, _ in rows if "/" not in name]
        counts = re.search(r"^Result: (.*?)\.", text, re.MULTILINE)
        assert counts is not None
        found[title] = steps, shapes, counts[1]
    return found


WALKS = walks() if PAGE.exists() else dict.fromkeys(LIMITS, ([], [], ""))


def body_of(path: str, function: str) -> str:
    """The lines of a function or method, in Python or Cython: of several all."""
    lines = (ROOT / path).read_text(encoding="utf-8").split("\n")
    found: list[str] = []
    head = re.compile(rf"^(\s*)(?:async )?(?:def|cpdef|cdef)\b[^=]*\b{re.escape(function)}\(")
    for at, line in enumerate(lines):
        match = head.match(line)
        if match is None:
            continue
        depth = len(match[1])
        found.append(line)
        for after in lines[at + 1 :]:
            if after.strip() and len(after) - len(after.lstrip()) <= depth and not after.lstrip().startswith(")"):
                break
            found.append(after)
    return "\n".join(found)


def package_of(path: str) -> str:
    """A room of the package, or the core."""
    parts = path.split("/")
    return parts[0] if parts[0] == "kernbench_core" else "/".join(parts[:2])


def changes_of(steps: list[tuple[str, str, list[str]]]) -> int:
    """Calls from one package to another; what the core calls by itself comes from there."""
    changes = 0
    for at, (path, function, _) in enumerate(steps):
        callers = [there for there, _, calls in steps[:at] if function in {_name(call) for call in calls}]
        home = package_of(path)
        if function in FIRST and not callers:
            continue
        changes += home not in {package_of(there) for there in callers}
    return changes


def _name(call: str) -> str:
    """The function that a call comes to."""
    last = call.rpartition(".")[2]
    return THROUGH.get(last, last)


@pytest.mark.parametrize("title", LIMITS)
def test_each_function_calls_what_the_page_says(title: str) -> None:
    steps, _, _ = WALKS[title]
    assert len(steps) > 10
    wrong = []
    for path, function, calls in steps:
        body = body_of(path, function)
        if not body:
            wrong.append(f"{path} has no {function}")
        absent = [call for call in calls if not re.search(rf"(?<!\w){re.escape(call)}\(", body)]
        wrong += [f"{function} of {path} does not call {call}" for call in absent]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("title", LIMITS)
def test_each_step_is_called_by_one_before_it(title: str) -> None:
    steps, _, _ = WALKS[title]
    for at, (path, function, _) in enumerate(steps):
        called = {_name(call) for _, _, calls in steps[:at] for call in calls}
        assert function in called | FIRST, f"nothing before it calls {function} of {path}"


@pytest.mark.parametrize("title", LIMITS)
def test_shapes_are_where_the_page_says(title: str) -> None:
    for name, path in WALKS[title][1]:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"\b(?:class|struct)\s+{name}\b|^}}\s*{name};", text, re.MULTILINE), f"{path} has no {name}"


@pytest.mark.parametrize("title", LIMITS)
def test_counts_are_those_of_the_tables_and_within_the_limits(title: str) -> None:
    steps, shapes, said = WALKS[title]
    counts = {"files": len({path for path, _, _ in steps}), "changes of package": changes_of(steps), "shapes": len(shapes)}
    told = {name: int(number) for number, name in re.findall(r"(\d+) ([a-z ]+)", said)}
    assert told == {name: counts[name] for name in told}
    assert all(counts[name] <= most for name, most in LIMITS[title].items()), counts


def test_an_entry_takes_the_walk(tmp_path: Path) -> None:
    """Each Python step of the first walk is called for a program of one entry."""
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, arg: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            seen.add((path.relative_to(ROOT).as_posix(), frame.f_code.co_name))

    where = {"spm_bank": 0, "spm_offset": 0, "dram_addr": 0}
    entry = {"opcode": "DMA_LOAD_TILE", "id": 0, "dma_id": 0, "tensor_role": "weight", "qbits": 8, "num_elements": 64, **where}
    file = tmp_path / "one.yaml"
    file.write_text(f'{{metadata: {{version: "1.0", name: one}}, cmdq: [{entry}]}}', encoding="utf-8")
    config = load_config("npu_mobile")
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        machine = Machine(config, load_program(file))
        tracing = machine.trace(BytesIO(), TraceOptions())
        machine.run()
        tracing.close()
        machine.result()
    finally:
        sys.setprofile(before)
    steps = {(path, function) for path, function, _ in WALKS["An entry of a command queue"][0] if path.endswith(".py")}
    assert not steps - seen
