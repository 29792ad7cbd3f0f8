"""What Triton's compiler refuses is refused under `portable`, and what it takes runs."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import kernbench
import kernbench.triton as triton
from tests.property.triton_harness import OURS, THEIRS
from tests.property.triton_rules import RULES, module_text

BOTH = all(importlib.util.find_spec(name) is not None for name in ("triton", "torch"))
COMPILE = """
import json
import rules
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

found = {}
for name in NAMES:
    kernel = getattr(rules, f"{name}_kernel")
    source = ASTSource(kernel, {"o": "*fp32", "n": "i32", "M": "constexpr"}, {"M": 3})
    try:
        triton.compile(source, target=GPUTarget("cuda", 80, 32))
        found[name] = ""
    except Exception as error:
        found[name] = repr(error)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path = tmp_path_factory.mktemp("rules") / "rules.py"
    path.write_text(module_text(OURS), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("rules", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", RULES)
def test_portable_takes_and_refuses_what_triton_s_compiler_does(ours: ModuleType, name: str) -> None:
    kernel, text = getattr(ours, f"{name}_kernel"), RULES[name][1]
    with kernbench.machine("npu_mobile", portable=True):
        if not text:
            kernel[(1,)](np.zeros(64, np.float32), 3, M=3)
            return
        with pytest.raises(triton.TritonError) as caught:
            kernel[(1,)](np.zeros(64, np.float32), 3, M=3)
    assert text in str(caught.value) and str(caught.value).startswith("rules.py:")


@pytest.mark.skipif(not BOTH, reason="needs the packages triton and torch")
def test_the_list_is_what_triton_s_compiler_does(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(module_text(THEIRS), encoding="utf-8")
    script = tmp_path / "compile_rules.py"
    script.write_text(COMPILE.replace("NAMES", repr(list(RULES))), encoding="utf-8")
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-W", "ignore", str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert {name: bool(text) for name, text in found.items()} == {name: bool(text) for name, (_, text) in RULES.items()}, found
