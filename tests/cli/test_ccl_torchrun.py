"""`kbsim ccl torchrun`: scripts that torchrun starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kernbench.ccl import dist
from kernbench.common.errors import InputError
from tests.cli.conftest import Kbsim

SCRIPT = """\
import os, sys
import numpy as np
from kernbench.ccl import dist

if __name__ == "__main__":
    dist.init_process_group("gloo")
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    before = [int(os.environ[name]) for name in names]
    x = dist.from_numpy(np.full(int(sys.argv[1]), before[0], np.int32))
    dist.all_reduce(x)
    assert before == [int(os.environ[name]) for name in names], "another rank has changed the environment"
    if dist.get_rank() == 2:
        print(before, dist.to_numpy(x).tolist())
    sys.exit(0)
"""

RAISES = """\
from kernbench.ccl import dist
dist.init_process_group()
assert dist.get_rank() != 1, 'no'
dist.barrier()
"""


def test_a_script_runs_as_under_torchrun(kbsim: Kbsim, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    before = os.environ.get("RANK"), list(sys.argv)
    done = kbsim("ccl", "torchrun", "--nproc-per-node=2", "--nnodes", "2", str(script), "3")
    lines = done.out.splitlines()
    assert lines[0] == "[2, 0, 4, 2, 1] [6, 6, 6]" and lines[1].startswith("# 4 ranks on single_cube.yaml: "), done
    assert before == (os.environ.get("RANK"), sys.argv)


def test_a_script_that_raises_is_told_with_its_line_and_rank(kbsim: Kbsim, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(RAISES)
    done = kbsim("ccl", "torchrun", "--nproc_per_node", "2", str(script))
    assert done.code == 5 and "rank 1 raised AssertionError: no" in done.err and 'train.py", line 3' in done.err
    with pytest.raises(dist.ProcessRaisedException) as told:
        dist.run_script(script, nproc_per_node=2)
    assert told.value.error_index == 1
    with pytest.raises(InputError, match="nnodes = 0, but it must be an integer of at least 1"):
        dist.run_script(script, nnodes=0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "train.py: the file does not exist"),
        (b"x = 1\ndef f(:\n", "train.py:2: this is not valid Python: invalid syntax"),
        (b"x = 1\n\xff\n", "this is not valid Python: (unicode error)"),
        (b"x = 1\n\0", "null bytes"),
    ],
)
def test_a_script_that_is_not_python_is_refused(kbsim: Kbsim, tmp_path: Path, content: bytes | None, said: str) -> None:
    script = tmp_path / "train.py"
    if content is not None:
        script.write_bytes(content)
    done = kbsim("ccl", "torchrun", "--nproc-per-node", "2", str(script))
    assert done.code == 2 and said in done.err and "rank" not in done.err and "Traceback" not in done.err
