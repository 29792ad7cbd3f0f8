"""Decision 60 lists each file that asks whether a machine is an NPU or a system, and only those."""

from __future__ import annotations

import ast
import re

import pytest

from tests.meta.source import ROOT, files, name, needs_source

PAGE = ROOT / "docs" / "adr" / "0060-rooms-of-the-package.md"
pytestmark = [needs_source, pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not in this source tree")]
KINDS = {"NpuConfig", "SystemConfig"}


def asks(text: str) -> bool:
    """Whether code looks at the class of a machine."""
    if not any(kind in text for kind in KINDS):  # to parse all files takes seconds
        return False
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return any(
        isinstance(call.func, ast.Name)
        and call.func.id == "isinstance"
        and KINDS & {one.id for one in ast.walk(call.args[1]) if isinstance(one, ast.Name)}
        for call in calls
    )


def test_the_kind_of_a_machine_is_asked_where_the_decision_says() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("\n## Where the kind of a machine is tested\n")[2].partition("\n## ")[0]
    listed = {path for row in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE) for path in re.findall("`([^`]+)`", row)}
    found = {name(path) for path in files("kernbench", suffixes=(".py",)) if asks(path.read_text(encoding="utf-8"))}
    assert len(listed) > 5
    assert not {path for path in found if not any(path == one or path.startswith(f"{one}/") for one in listed)}
    assert not {one for one in listed if not any(path == one or path.startswith(f"{one}/") for path in found)}


def test_a_question_is_seen() -> None:
    assert asks("if isinstance(config, NpuConfig):\n    pass\n") and asks("isinstance(one.machine, (int, SystemConfig))\n")
    assert not asks("isinstance(config, MachineConfig)\n") and not asks('"""isinstance(config, NpuConfig)"""\n')
