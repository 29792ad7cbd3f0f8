"""The examples of a test are the same in each run of `make test`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn() -> list[int]:
    seen: list[int] = []

    @settings(derandomize=True, database=None, max_examples=200)
    @given(st.integers(0, 10**6))
    def draw(number: int) -> None:
        seen.append(number)

    draw()
    return seen


def test_examples_do_not_depend_on_the_modules_that_are_imported(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--nightly"):
        pytest.skip("`make nightly` also draws the constants of modules")
    before = drawn()
    module = tmp_path / "constants.py"
    module.write_text("\n".join(f"X{i} = {i}" for i in range(2000, 90_000, 700)), encoding="ascii")
    spec = importlib.util.spec_from_file_location("kernbench_test_constants", module)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "kernbench_test_constants", loaded)
        spec.loader.exec_module(loaded)
        assert drawn() == before
