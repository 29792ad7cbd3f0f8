"""The arbiters of docs/how-to/add_a_rule.md, in Python and in C: what the page says is what the tests run."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kernbench import Arbiter
from tests.contract.compiled import built

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "add_a_rule.md"
BLOCK = re.compile(r"^<!-- (?P<mark>\w+): (?P<name>\S+) -->\n```\w+\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str, str]]:
    """`(mark, name, text)` of each block of the page under `<!-- mark: name -->`."""
    if not PAGE.exists():
        pytest.skip("the documentation is not in this source tree")
    return [(found["mark"], found["name"], found["body"]) for found in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]


def text_of(name: str) -> str:
    """The block of a file."""
    (body,) = (body for _, called, body in blocks() if called == name)
    return body


@cache
def in_python() -> type[Arbiter]:
    """The class `fair:RoundRobin`."""
    names: dict[str, Any] = {"__name__": "fair"}
    exec(compile(text_of("fair.py"), "fair.py", "exec", dont_inherit=True), names)
    made: type[Arbiter] = names["RoundRobin"]
    return made


@cache
def in_c() -> ModuleType | None:
    """The module `fair_c`, or None where there is no compiler."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "fair_c.c"
        source.write_text(text_of("fair_c.c"), encoding="utf-8")
        return built(source)
