"""Every public object of Python is documented, has an example that runs, and is typed."""

from __future__ import annotations

import doctest
import enum
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kernbench.testing.evaluate import evaluate
from kernbench.triton_emu.tl.context import Limits, TLContext
from tests.cli.samples import write_samples

MODULES = (
    "kernbench", "kernbench.cmdq", "kernbench.config", "kernbench.pytest", "kernbench.runtime_api", "kernbench.components.base",
    "kernbench.testing.evaluate", "kernbench_core",
)  # fmt: skip
RESULTS = (
    "kernbench.common.errors.Problem",
    "kernbench.runtime_api.bench.Param",
    "kernbench.runtime_api.report.BenchReport",
    "kernbench.runtime_api.triton.run.KernelRun",
    "kernbench.sim_engine.engine.TimingResult",
    "kernbench.sim_engine.memory_store.MemoryStore",
    "kernbench.sim_engine.op_log.OpLogger",
    "kernbench.sim_engine.op_log.OpRecord",
    "kernbench.sim_engine.result.EntryTimes",
    "kernbench.sim_engine.verify.Verification",
    "kernbench.triton_emu.handle.KernelTensor",
    "kernbench.triton_emu.tl.memory.Completion",
)
# What kernbench itself builds its runs of: tables go in, arrays come out (kernbench_core/core.pyi).
INNER = {"Core", "CoreMemory", "Format", "Samples", "Trace", "HasCommands", "OpLog", "Typed", "Clock"}
# Methods of `tl` that other modules of kernbench call.
CALLED_INSIDE = {
    "binary", "issue_for", "line_of", "multiplied", "new_tile", "operand", "operand_tile", "place_of",
    "placed_tile", "product", "result_tile", "size_of", "store_at", "swap", "unary", "wait_for_data",
}  # fmt: skip


def _functions_of_tl() -> dict[str, Any]:
    names = [name for name, _ in inspect.getmembers_static(TLContext) if not name.startswith("_")]
    return {f"tl.{name}": inspect.getattr_static(TLContext, name) for name in names if name not in CALLED_INSIDE}


def public_objects() -> dict[str, Any]:
    """By name; of a package that can be called, its function. Numbers are documented where they are listed."""
    found: dict[str, Any] = {}
    for name in MODULES:
        module = import_module(name)
        public = getattr(module, "__all__", [name.rpartition(".")[2]])
        found |= {f"{name}.{one}": getattr(module, one) for one in public if one not in INNER}
    for path in RESULTS:
        module_name, _, name = path.rpartition(".")
        found[path] = getattr(import_module(module_name), name)
    found |= {"tl": TLContext, "tl.limits()": Limits, **_functions_of_tl()}
    return {name: inspect.unwrap(one) for name, one in found.items() if not _is_number(one)}


def _is_number(thing: Any) -> bool:
    return isinstance(thing, (int, str)) or (inspect.isclass(thing) and issubclass(thing, enum.Enum))


OBJECTS = public_objects()
# C methods of compiled modules cannot be called from Python. In a build without these modules, they look like public ones.
pytestmark = pytest.mark.skipif(inspect.isfunction(TLContext.load), reason="modules with a .pxd file are not compiled")
ALL_OF_A_KIND = {id(one): (name, one) for name, one in OBJECTS.items()}.values()


@pytest.fixture(autouse=True)
def _in_a_folder_with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    write_samples(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield
    pyplot = import_module("matplotlib.pyplot")
    pyplot.close("all")


@pytest.mark.parametrize(("name", "thing"), ALL_OF_A_KIND, ids=lambda one: one if isinstance(one, str) else "")
def test_a_public_object_has_a_docstring_and_its_example_runs(name: str, thing: Any) -> None:
    text = inspect.getdoc(thing)
    assert text, f"{name} has no docstring"
    names = {"kb": kb, "np": np, "evaluate": evaluate, "Path": Path}
    example = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert example.examples, f"{name} has no example"
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(example, out=told.append).failed == 0, "".join(told)


@pytest.mark.parametrize(("name", "thing"), ALL_OF_A_KIND, ids=lambda one: one if isinstance(one, str) else "")
def test_methods_and_properties_of_a_public_class_are_documented(name: str, thing: Any) -> None:
    if not inspect.isclass(thing) or issubclass(thing, TLContext):
        return
    for member, value in inspect.getmembers_static(thing):
        own = any(member in vars(base) for base in thing.__mro__ if base.__module__.startswith("kernbench"))
        if own and not member.startswith("_") and (inspect.isroutine(value) or isinstance(value, property)):
            assert inspect.getdoc(getattr(thing, member)), f"{name}.{member}"


@pytest.mark.parametrize(("name", "thing"), ALL_OF_A_KIND, ids=lambda one: one if isinstance(one, str) else "")
def test_a_public_function_has_the_types_of_all_its_arguments(name: str, thing: Any) -> None:
    if not inspect.isfunction(thing):
        return
    signature = inspect.signature(thing)
    untyped = [one.name for one in signature.parameters.values() if one.annotation is one.empty and one.name != "self"]
    assert not untyped and signature.return_annotation is not signature.empty, f"{name}: {untyped}"


@pytest.mark.parametrize(("name", "thing"), ALL_OF_A_KIND, ids=lambda one: one if isinstance(one, str) else "")
def test_a_public_function_describes_every_parameter(name: str, thing: Any) -> None:
    if inspect.isclass(thing) or not callable(thing):
        return
    described = set(re.findall(r"`(\w+)(?:\([^`]*\))?`", inspect.getdoc(thing) or ""))
    undescribed = set(inspect.signature(thing).parameters) - described - {"self", "request"}  # `request` is of fixtures
    assert not undescribed, f"{name}: {undescribed}"


def test_the_numbers_of_the_abi_are_in_the_docstring_of_the_package() -> None:
    for name in ("BANKS", "BUSY", "FLOW", "JOB", "NEVER"):
        assert f"`{name}`" in (kb.__doc__ or ""), name


def test_evaluate_returns_what_is_no_tensor_and_refuses_a_tensor_without_elements() -> None:
    assert evaluate(lambda tl: 3) == 3
    with pytest.raises(kb.InputError, match="without elements"):
        evaluate(lambda tl: tl.arange(0))
    with pytest.raises(kb.KernbenchError, match="ZeroDivisionError"):
        evaluate(lambda tl: 1 // 0)
