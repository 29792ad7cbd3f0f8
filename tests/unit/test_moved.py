"""Names of modules before 0.2 work, with a warning that says the new one."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings

import pytest

from kernbench.moved import MODULES, new_name

SCRIPT = """
import warnings, importlib, sys
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    old = importlib.import_module(sys.argv[1])
assert old is importlib.import_module(sys.argv[2]) and old.__spec__.name == sys.argv[2]
(one,) = [one for one in told if one.category is DeprecationWarning]
print(one.message)
"""


@pytest.mark.parametrize("old", MODULES)
def test_an_old_name_is_the_new_module(old: str) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, old, MODULES[old]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{old} is now {MODULES[old]}; the old name goes with the next version\n"


def test_modules_of_a_package_that_moved() -> None:
    assert new_name("kernbench.sim_engine.tracing.options") == "kernbench.sim_engine.recording.options"
    assert new_name("kernbench.sim_engine.machine") is None and new_name("numpy") is None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        sys.modules.pop("kernbench.sim_engine.tracing.options", None)
        from kernbench.sim_engine.tracing.options import TraceOptions  # type: ignore[import-not-found]
    assert "recording.options" in str(told[-1].message)
    assert TraceOptions is importlib.import_module("kernbench.sim_engine.recording").TraceOptions


def test_a_warning_stands_at_the_line_that_imports() -> None:
    script = "\nimport kernbench.sweep.load\n"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert 'File "<string>", line 2' in done.stderr and done.stderr.rstrip().endswith("goes with the next version")


def test_names_of_programs_that_moved() -> None:
    cmdq = importlib.import_module("kernbench.cmdq")
    with pytest.warns(DeprecationWarning, match=r"kernbench\.bounds\.lower_bounds"):
        assert cmdq.lower_bounds is importlib.import_module("kernbench.bounds").lower_bounds
    with pytest.raises(AttributeError, match="lower_bound"), warnings.catch_warnings():
        cmdq.lower_bound  # noqa: B018
