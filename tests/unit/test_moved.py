"""Names of modules before 0.2 work, with a warning that says the new one."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings

import pytest

from kernbench.moved import MODULES, new_name

#: Imports the old names of each package in a forked child of a process that has imported no module but the table.
SCRIPT = """
import importlib, os, sys, warnings
import numpy, yaml, pydantic  # others' modules, which take the time
from kernbench.moved import MODULES
of_kernbench = {name for name in sys.modules if name.startswith("kernbench.")}
assert of_kernbench <= {"kernbench.moved", "kernbench.version"}, of_kernbench
packages = {}
for name in MODULES:
    packages.setdefault(name.split(".")[1], []).append(name)
for names in packages.values():
    child = os.fork()
    if child == 0:
        for name in names:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                old = importlib.import_module(name)
            assert old is importlib.import_module(MODULES[name]) and old.__spec__.name == MODULES[name], name
            (one,) = [one for one in told if one.category is DeprecationWarning]
            print(one.message, flush=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, names
"""


def test_an_old_name_is_the_new_module() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = [f"{old} is now {new}; the old name goes with the next version" for old, new in MODULES.items()]
    assert sorted(done.stdout.splitlines()) == sorted(said)


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
