"""Imports point down one list, and the core has two doors."""

from __future__ import annotations

import ast
import re
import sys
import tomllib

import pytest

from kernbench_core.numbers import CHANNELS, DMA_STATES, STALLS, STATUSES, TRANSFER_CHANNELS
from tests.meta.source import ROOT, cython_code, files, imports, name, needs_source
from tests.meta.test_circles import cython_graph

pytestmark = needs_source
#: From the lowest to the highest. A module may import its own layer and those before it.
LAYERS = (
    "common",
    "config",
    "trace.schema",
    "trace.writer",
    "topology",
    "policy",
    "noc",
    "components",
    "cmdq",
    "bounds",
    "sim_engine",
    "triton_emu",
    "triton",
    "runtime_api",
    "ccl",
    "workloads",
    "trace",
    "analysis",
    "sweep",
    "validate",
    "api",
    "debug",
    "cli",
    "testing",
)
#: Who runs the core, and the class that components derive from (docs/adr/0018-kernels.md).
DOORS = {"kernbench/sim_engine/machine.py", "kernbench/components/base.py"}
#: What anybody may import of it: the numbers that it shares, and nothing that runs.
NUMBERS = "kernbench_core.numbers."
#: Phase 2 and what it stands on: packages and modules of sim_engine.
DATA_HALF = ("ops", "op_log", "memory", "memory_store", "replay", "data_executor", "verify")


def layer(module: str) -> int | None:
    """The position of a module's layer, the longest name that fits; None outside `kernbench` and for its root modules."""
    inside = module.removeprefix("kernbench.")
    if inside == module:
        return None
    fits = [i for i, top in enumerate(LAYERS) if inside == top or inside.startswith(f"{top}.")]
    return max(fits, key=lambda i: len(LAYERS[i]), default=None)


def test_layer_takes_the_longest_name() -> None:
    assert layer("kernbench.trace.schema") == LAYERS.index("trace.schema")
    assert layer("kernbench.trace.metrics") == LAYERS.index("trace")
    assert layer("kernbench.triton_emu.x") == LAYERS.index("triton_emu")
    assert layer("kernbench.version") is None and layer("numpy") is None


def test_every_package_has_a_place_in_the_order() -> None:
    packages = {path.parent.name for path in (ROOT / "kernbench").glob("*/__init__.py")}
    assert packages <= {top.partition(".")[0] for top in LAYERS}


def test_imports_point_down() -> None:
    wrong = []
    for path in files("kernbench", suffixes=(".py",)):
        own = layer(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
        if own is None:
            continue
        for line, module in imports(path):
            other = layer(module)
            if other is not None and other > own:
                wrong.append(f"{name(path)}:{line}: {LAYERS[own]} imports {module}")
            if module == "kernbench":
                wrong.append(f"{name(path)}:{line}: a module takes names from where they are defined")
    assert not wrong, "\n".join(wrong)


def test_cimports_point_down() -> None:
    """The same of the compiled modules of the package."""
    wrong, seen = [], 0
    for module, needs in cython_graph().items():
        own = layer(module)
        for other in needs:
            there = layer(other)
            if own is None or there is None:
                continue
            seen += 1
            if there > own:
                wrong.append(f"{module} cimports {other}")
    assert seen > 50
    assert not wrong, "\n".join(wrong)


def test_root_modules_only_hand_names_on() -> None:
    for path in (ROOT / "kernbench").glob("*.py"):
        if path.name in ("pytest.py", "serving.py", "torch.py"):  # it has nothing but a docstring, imports and `__all__`
            kinds = [type(one) for one in ast.parse(path.read_text(encoding="utf-8")).body]
            assert kinds[0] is ast.Expr and set(kinds[1:-1]) == {ast.ImportFrom} and kinds[-1] is ast.Assign
            continue
        for line, module in imports(path):
            assert path.name in ("__init__.py", "__main__.py") or layer(module) is None, f"{name(path)}:{line}"


def test_the_core_has_two_doors() -> None:
    users = {
        name(path)
        for path in files("kernbench", suffixes=(".py",))
        for _, module in imports(path)
        if module.partition(".")[0] == "kernbench_core" and not f"{module}.".startswith(NUMBERS)
    }
    assert users == DOORS


def test_numbers_of_the_core_are_written_down_there_alone() -> None:
    """States, statuses, stalls and channels: names in the order of the core's numbers."""
    known = {STATUSES, CHANNELS, TRANSFER_CHANNELS, DMA_STATES, STALLS, STALLS[1:]}
    texts = ((path, path.read_text(encoding="utf-8")) for path in files("kernbench", suffixes=(".py",)))
    restated = [
        f"{name(path)}:{node.lineno}"
        for path, text in texts
        if any(all(str(word) in text for word in words) for words in known)  # to parse all files takes seconds
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Tuple, ast.List))
        and tuple(getattr(item, "value", item) for item in node.elts) in known
    ]
    assert not restated, "from kernbench_core.numbers:\n" + "\n".join(restated)


def test_phase_2_knows_no_machine() -> None:
    """The op log, memories and replay import the standard library, numpy, `kernbench.common` and each other."""
    data_half = tuple(f"kernbench.sim_engine.{one}" for one in DATA_HALF)
    wrong, seen = [], set()
    for path in files("kernbench", suffixes=(".py",)):
        own = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        home = next((one for one in data_half if own == one or own.startswith(f"{one}.")), None)
        if home is None:
            continue
        seen.add(home)
        for line, module in imports(path):
            top = module.partition(".")[0]
            inside = any(module == one or module.startswith(f"{one}.") for one in ("kernbench.common", *data_half))
            if top not in (*sys.stdlib_module_names, "numpy") and not inside:
                wrong.append(f"{name(path)}:{line}: {module}")
    assert seen == set(data_half)
    assert not wrong, "\n".join(wrong)


def test_the_core_imports_nothing_of_kernbench() -> None:
    statement = re.compile(r"^\s*(?:from|import|cimport)\s+kernbench(?!_core)\b", re.MULTILINE)
    for path in files("kernbench_core", suffixes=(".py", ".pyx", ".pxd", ".pyi")):
        assert not statement.search(cython_code(path)), name(path)


@pytest.mark.parametrize("folder", ["kernbench", "kernbench_core"])
def test_no_drawers_for_odds_and_ends(folder: str) -> None:
    for path in files(folder):
        assert path.stem not in ("utils", "util", "helpers", "helper", "misc", "common_utils"), name(path)


def test_oracles_import_nothing_that_they_check() -> None:
    """The trace's schema is a contract, a table without behaviour: reference and writer share it."""
    for path in files("tests/oracles", suffixes=(".py",)):
        for line, module in imports(path):
            if f"{module}.".startswith("kernbench.trace.schema.") or module == "kernbench.trace":
                continue
            assert module.partition(".")[0] not in ("kernbench", "kernbench_core"), f"{name(path)}:{line}: {module}"


def test_every_package_is_installed() -> None:
    """An editable install also finds packages that a wheel would leave out."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        listed = set(tomllib.load(file)["tool"]["setuptools"]["packages"])
    roots = (ROOT / "kernbench", ROOT / "kernbench_core")
    found = {".".join(path.parent.relative_to(ROOT).parts) for root in roots for path in root.rglob("__init__.py")}
    assert listed == found | {"kernbench.benches", "kernbench.configs"}
