"""The same kernels under Triton's interpreter and here, where the triton package and torch are installed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BOTH = all(importlib.util.find_spec(name) is not None for name in ("triton", "torch"))
OPS = {
    "add": ("a + b", 0.0), "mul": ("a * b", 0.0), "exp": ("tl.exp(a)", 1e-5), "max": ("tl.maximum(a, b)", 0.0),
    "where": ("tl.where(a > b, a, -b)", 0.0), "sum": ("a + tl.sum(b, 0)", 1e-4), "cumsum": ("tl.cumsum(a, 0)", 1e-4),
    "sort": ("tl.sort(a)", 0.0), "rand": ("tl.rand(11, places) + a * 0", 0.0),
    "half": ("(a.to(tl.float16) * b).to(tl.float32)", 1e-3),
    "int": ("((a * 100).to(tl.int32) // 7 + (b * 100).to(tl.int32) % -3).to(tl.float32)", 0.0),
}  # fmt: skip
KERNEL = """
import json, sys
import numpy as np
{imports}

@triton.jit
def kernel(a_ptr, b_ptr, out_ptr, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(a_ptr + places), tl.load(b_ptr + places)
    tl.store(out_ptr + places, {expression})

rng = np.random.default_rng(5)
a, b = rng.standard_normal(64).astype(np.float32), rng.standard_normal(64).astype(np.float32)
out = np.zeros(64, np.float32)
given = [{wrap}(one) for one in (a, b, out)]
kernel[(2,)](*given, BLOCK=32)
json.dump(out.tolist(), sys.stdout)
"""
OURS = "import kernbench.triton as triton\nimport kernbench.triton.language as tl"
THEIRS = "import torch\nimport triton\nimport triton.language as tl"


def ran(path: Path, imports: str, expression: str, wrap: str) -> np.ndarray:
    path.write_text(KERNEL.format(imports=imports, expression=expression, wrap=wrap), encoding="utf-8")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, check=True)
    return np.array(json.loads(done.stdout), np.float32)


@pytest.mark.parametrize("name", OPS)
def test_kernels_run_here(name: str, tmp_path: Path) -> None:
    assert np.isfinite(ran(tmp_path / "ours.py", OURS, OPS[name][0], "np.asarray")).all()


@pytest.mark.skipif(not BOTH, reason="triton and torch are not both installed")
@pytest.mark.parametrize("name", OPS)
def test_kernels_agree_with_the_interpreter(name: str, tmp_path: Path) -> None:
    expression, tolerance = OPS[name]
    ours = ran(tmp_path / "ours.py", OURS, expression, "np.asarray")
    theirs = ran(tmp_path / "theirs.py", THEIRS, expression, "torch.from_numpy")
    if tolerance:
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(ours.view(np.int32), theirs.view(np.int32))
