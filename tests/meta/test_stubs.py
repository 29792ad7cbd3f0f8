"""The stubs of compiled classes declare all that the classes have. `make types` also compares functions and signatures."""

from __future__ import annotations

import ast
import importlib

import pytest

from tests.meta.source import ROOT, needs_source

pytestmark = needs_source
MODULES = ["kernbench_core.core", "kernbench_core.trace.events", "kernbench_core.trace.format", "kernbench_core.trace.samples"]


@pytest.mark.parametrize("module", MODULES)
def test_a_stub_declares_what_its_classes_have(module: str) -> None:
    stub = (ROOT / module.replace(".", "/")).with_suffix(".pyi").read_text(encoding="utf-8")
    for declared in (one for one in ast.parse(stub).body if isinstance(one, ast.ClassDef)):
        members = {one.name for one in declared.body if isinstance(one, ast.FunctionDef)}
        members |= {one.target.id for one in declared.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}
        has = vars(getattr(importlib.import_module(module), declared.name))
        assert {key for key in members if not key.startswith("_")} == {key for key in has if not key.startswith("_")}, declared.name
