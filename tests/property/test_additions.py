"""Machines with many additions to the model at once: the core against the references, by every walk."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests import addition_search
from tests.addition_strategies import ADDITIONS, additions, npus_with_every_addition, systems_with_every_addition
from tests.all_walks import Drawn, cases, check
from tests.row_strategies import System

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
ROUNDS = 14  # of draws: those of one seed are often variations of each other
BOTH = {"npu": npus_with_every_addition, "system": systems_with_every_addition}


@pytest.mark.parametrize("kind", BOTH)
@settings(RELAXED, max_examples=12)
@given(data=st.data())
def test_every_addition_at_once(kind: str, data: st.DataObject) -> None:
    drawn: Drawn = data.draw(cases(BOTH[kind]()))
    check(drawn)


@pytest.mark.parametrize("kind", BOTH)
def test_draws_combine_additions(kind: str) -> None:
    """Each machine has several of them, and each of them is drawn with each other that it does not refuse."""
    found: list[set[str]] = []

    for number in range(ROUNDS):

        @seed(number)
        @settings(RELAXED, max_examples=10, phases=[Phase.generate], derandomize=False, database=None)
        @given(BOTH[kind]())
        def draw(system: System) -> None:
            found.append(additions(system[0]))

        draw()
    assert min(map(len, found)) >= 4
    pairs: Counter[Any] = Counter(frozenset((a, b)) for one in found for a in one for b in one)
    own = ADDITIONS if kind == "npu" else ADDITIONS - {"codecs"}
    missing = {frozenset((a, b)) for a in own for b in own} - pairs.keys()
    assert all(any(pair <= alone for alone in REFUSED) for pair in missing), sorted(map(sorted, missing))


#: Of each set, a machine has one at most: what refuses each other, and two timings of a tensor engine.
REFUSED = (
    {"row_buffer_v1", "row_buffer_v2", "routers", "codecs"},
    {"llc", "routers"},
    {"llc", "codecs"},
    {"host", "micro_scheduler"},
    *({"mma", one} for one in ("overlapped fill", "overlapped drain", "operand stalls")),
)


@pytest.mark.nightly
def test_every_addition_for_long(capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m tests.addition_search`, which prints its seed and what it ran."""
    with capsys.disabled():
        addition_search.main([])
