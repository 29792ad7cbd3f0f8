"""A script of torch.distributed with gloo, run by torch in processes, and with other import lines on a simulated machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).with_name("gloo_script.py")
#: What is changed: the two import lines.
IMPORTS = {
    "import torch.distributed as dist\n": "from kernbench.ccl import dist\n",
    "import torch.multiprocessing as mp\n": "mp = dist\n",
}


@pytest.mark.nightly
def test_a_script_of_gloo_has_the_same_results_here(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    text = SCRIPT.read_text(encoding="utf-8")
    for theirs, ours in IMPORTS.items():
        assert text.count(theirs) == 1
        text = text.replace(theirs, ours)
    here = tmp_path / "here.py"
    here.write_text(text, encoding="utf-8")
    folders = []
    for script in (SCRIPT, here):
        folders.append(tmp_path / f"of_{script.stem}")
        folders[-1].mkdir()
        path = os.pathsep.join(one for one in sys.path if one)
        done = subprocess.run(
            [sys.executable, script, folders[-1]],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
    for rank in range(4):
        theirs, ours = (np.load(folder / f"{rank}.npz") for folder in folders)
        assert sorted(theirs) == sorted(ours)
        assert len(theirs) >= 16
        for name in theirs:
            assert theirs[name].dtype == ours[name].dtype, name
            assert np.array_equal(theirs[name], ours[name]), (name, rank)
