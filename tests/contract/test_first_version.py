"""What users wrote by the first version's reference runs, prints the same, and names that moved are warned of."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kernbench.moved import MODULES
from tests.contract.compiled import SOURCE, built, engines
from tests.contract.runs import gemm, machine, new, outcome, program
from tests.docs.examples import run_page

HERE = Path(__file__).parent / "first_version"
#: By page: the names that it imports and that stand elsewhere now.
MOVED = {
    "benches": {"kernbench.runtime_api.parameters"},
    "ccl": set[str](),
    "components": {"kernbench.sim_engine.tracing"},
    "kernels": set[str](),
    "memory_store": set[str](),
    "op_log": set[str](),
    "python": set[str](),
    "queues": {"kernbench.sim_engine.deadlock"},
    "result": set[str](),
}


@pytest.mark.parametrize("page", sorted(MOVED))
def test_a_page_of_the_first_version(page: str) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        shown = run_page(HERE / f"{page}.md")
    assert [one for one in shown if not one.agrees()] == []
    told = {str(one.message).partition(" is now ")[0] for one in said if issubclass(one.category, DeprecationWarning)}
    assert {name for name in told if name in MODULES} == MOVED[page]


@pytest.mark.parametrize("latency", [0, 7])
def test_an_engine_that_was_built_against_the_first_header_runs(latency: int) -> None:
    """The header only grew: new functions of `kb_core_api` are behind the old ones."""
    old, today = built(SOURCE, str(HERE)), engines()
    if old is None or today is None:
        pytest.skip("there is no C compiler")
    first, second = (new(machine(), program(gemm(), gemm(te_id=1)), partial(_te0, made, latency)) for made in (old, today))
    for run in (first, second):
        run.run()
    assert outcome(first) == outcome(second)


def _te0(made: ModuleType, latency: int) -> dict[str, Any]:
    return {"te0": made.fixed(latency)}


def test_all_pages_are_run() -> None:
    assert {path.stem for path in HERE.glob("*.md")} == set(MOVED)
