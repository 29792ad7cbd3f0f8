"""The same kernels under Triton's interpreter and here.

Where the triton package and torch are installed (the extra `triton`), both run. Where they are not, what Triton's interpreter
gave is in `recorded_triton.json`: a digest of the bits of each exact case, and types. `KERNBENCH_RECORD=1` writes it again.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.property.triton_cases import CASES, LATER, generated
from tests.property.triton_harness import (
    KINDS,
    OPS,
    OURS,
    THEIRS,
    digest,
    elements,
    module_text,
    run_all,
    run_types,
    types_text,
)

BOTH = all(importlib.util.find_spec(name) is not None for name in ("triton", "torch"))
RECORDED = Path(__file__).parent / "recorded_triton.json"
SHORT = {**CASES, **generated(1, 40), **LATER}
LONG = {**CASES, **{name: case for seed in range(1, 6) for name, case in generated(seed, 40).items()}, **LATER}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Results and types here; where Triton is not installed, fewer."""
    folder, cases, ops = tmp_path_factory.mktemp("ours"), LONG if BOTH else SHORT, OPS if BOTH else OPS[:4]
    (folder / "cases_ours.py").write_text(module_text(OURS, cases), encoding="utf-8")
    (folder / "types_ours.py").write_text(types_text(OURS, ops), encoding="utf-8")
    return run_all(folder / "cases_ours.py", list(cases), np.asarray), run_types(folder / "types_ours.py")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """The same of Triton's interpreter, which runs in a process of its own."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "cases_theirs.py").write_text(module_text(THEIRS, LONG), encoding="utf-8")
    (folder / "types_theirs.py").write_text(types_text(THEIRS, OPS), encoding="utf-8")
    (folder / "cases.names").write_text("\n".join(LONG), encoding="utf-8")
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("triton_harness.py")), str(folder)]
    subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, check=True)
    found = pickle.loads((folder / "theirs.pickle").read_bytes())
    if os.environ.get("KERNBENCH_RECORD"):
        record(*found)
    return found  # type: ignore[no-any-return]


def record(cases: Mapping[str, Any], types: Mapping[str, list[str]]) -> None:
    """Keep the digests of the cases that are exact in every bit, and the types."""
    exact = {name: digest(*cases[name]) for name, (_, tolerance) in SHORT.items() if not tolerance}
    text = {"triton": version("triton"), "cases": exact, "types": {row: " ".join(found) for row, found in types.items()}}
    RECORDED.write_text(json.dumps(text, indent=0) + "\n", encoding="utf-8")


def test_every_bit_is_as_recorded_from_triton(ours: Any) -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))["cases"]
    assert set(recorded) == {name for name, (_, tolerance) in SHORT.items() if not tolerance}
    found = {name: one if isinstance(one := ours[0][name], str) else digest(*one) for name in recorded}
    assert found == recorded


def test_types_are_as_recorded_from_triton(ours: Any) -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))["types"]
    assert len(recorded) == len(KINDS) * len(OPS)
    assert {row: " ".join(found) for row, found in ours[1].items()} == {row: recorded[row] for row in ours[1]}


def test_every_case_runs_here(ours: Any) -> None:
    assert {name: one for name, one in ours[0].items() if isinstance(one, str)} == {}


@pytest.mark.skipif(not BOTH, reason="triton and torch are not both installed")
def test_kernels_agree_with_the_interpreter(ours: Any, theirs: Any) -> None:
    wrong = {}
    for name, (_, tolerance) in LONG.items():
        there, here = theirs[0][name], ours[0][name]
        assert not isinstance(there, str), f"{name} in Triton: {there}"
        if isinstance(here, str) or there[:2] != here[:2]:
            wrong[name] = there[:2], here[:2]
            continue
        a, b = elements(*there), elements(*here)
        same = np.allclose(b, a, rtol=tolerance, atol=tolerance, equal_nan=True) if tolerance else a.tobytes() == b.tobytes()
        if not same:
            wrong[name] = a.tolist(), b.tolist()
    assert wrong == {}


@pytest.mark.skipif(not BOTH, reason="triton and torch are not both installed")
def test_types_agree_with_the_interpreter(ours: Any, theirs: Any) -> None:
    assert ours[1] == theirs[1]
