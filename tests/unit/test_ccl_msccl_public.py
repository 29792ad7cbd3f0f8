"""Public MSCCL algorithms: the programs of microsoft/msccl-tools write their XML, which runs and is verified here.

Nothing of that repository is copied. `git clone https://github.com/microsoft/msccl-tools`, and set `KERNBENCH_MSCCL_TOOLS`
to the folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernbench.cli.main import exit_code

#: By program of `examples/mscclang`: its arguments, and the collective.
PROGRAMS = {
    "allgather_allpairs.py": ("8 1", "all_gather"),
    "allgather_recursive_doubling.py": ("8 1", "all_gather"),
    "allgather_ring.py": ("8 1 1", "all_gather"),
    "allreduce_1step.py": ("4 1", "all_reduce"),
    "allreduce_a100_allpairs.py": ("8 1", "all_reduce"),
    "allreduce_a100_allpairs_v2.py": ("8 1", "all_reduce"),
    "allreduce_a100_ring.py": ("8 2 2", "all_reduce"),
    "allreduce_recursive_doubling_halving.py": ("8 1", "all_reduce"),
    "hierarchical_allreduce.py": ("4 2 1", "all_reduce"),
    "alltoall_allpairs.py": ("8 1", "all_to_all"),
    "alltoall_a100_two_step.py": ("2 4", "all_to_all"),
    "alltoall_a100_three_step.py": ("2 4 1", "all_to_all"),
}
#: The language needs no solver and no graphs: stand-ins for these packages are enough, with the XML library of Python.
WRITER = """
import runpy, sys, types
from unittest.mock import MagicMock
from xml.etree import ElementTree
for name in ("z3", "humanfriendly", "igraph", "tabulate", "lxml"):
    made = sys.modules[name] = types.ModuleType(name)
    made.__all__ = []
    made.__getattr__ = lambda _: MagicMock()
sys.modules["lxml"].etree = ElementTree
folder, *sys.argv = sys.argv[1:]
sys.path.insert(0, folder)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.nightly
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_public_algorithm_runs_and_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str], program: str) -> None:
    tools = os.environ.get("KERNBENCH_MSCCL_TOOLS")
    if not tools:
        pytest.skip("KERNBENCH_MSCCL_TOOLS is not set to a clone of microsoft/msccl-tools")
    arguments, collective = PROGRAMS[program]
    script = Path(tools) / "examples" / "mscclang" / program
    command = [sys.executable, "-c", WRITER, tools, str(script), *arguments.split()]
    made = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    path = tmp_path / "algo.xml"
    path.write_text(made.stdout, encoding="utf-8")
    assert exit_code(["ccl", "run", collective, "--msccl", str(path), "-b", "64K", "-d", "f16,i32"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    assert len(rows) == 2 and all(row[-1] == "0" for row in rows)
