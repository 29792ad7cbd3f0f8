"""The stubs of compiled classes declare all that the classes have. `make types` also compares functions and signatures."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterable

import pytest

from tests.meta.source import ROOT, needs_source

pytestmark = needs_source
MODULES = ["kernbench_core.core", "kernbench_core.trace.events", "kernbench_core.trace.format", "kernbench_core.trace.samples"]


def public(names: Iterable[str]) -> set[str]:
    return {one for one in names if not one.startswith("_")}


@pytest.mark.parametrize("module", MODULES)
def test_a_stub_declares_what_its_classes_have(module: str) -> None:
    stub = (ROOT / module.replace(".", "/")).with_suffix(".pyi").read_text(encoding="utf-8")
    for declared in (one for one in ast.parse(stub).body if isinstance(one, ast.ClassDef)):
        members = [one.name for one in declared.body if isinstance(one, ast.FunctionDef)]
        for one in declared.body:
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                members.append(one.target.id)
        assert public(members) == public(vars(getattr(importlib.import_module(module), declared.name))), declared.name
