"""Plain, fast and the reference agree on hard distributions: whole, in pieces, traced, with all SIMD instructions.

What each distribution is for is counted as well: a distribution whose draws no longer reach it proves nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from kernbench_core.fast.choices import PATHS
from kernbench_core.fast.paths import leave_out
from tests import search
from tests.all_walks import Drawn, OtherIsa, cases, check, other_isas
from tests.hard_strategies import DISTRIBUTIONS
from tests.reached import watched

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
COUNTED = settings(RELAXED, phases=[Phase.generate], derandomize=True, database=None)
DRAWS = 100
# Their runs are long, most of it in the reference: `make nightly` runs them, as the searches do.
SLOW = {"rows", "cached_rows"}
#: Counts change only with the strategies and the reference: the suite counts one distribution, `make nightly` all.
DAILY = ("overlap_error",)
COUNTED_NAMES = [name if name in DAILY else pytest.param(name, marks=pytest.mark.nightly) for name in DISTRIBUTIONS]


@pytest.fixture(scope="module")
def others() -> Iterator[list[OtherIsa]]:
    """A process for each other set of instructions that this processor has."""
    with ExitStack() as stack:
        yield [stack.enter_context(OtherIsa(name)) for name in other_isas()]


@pytest.mark.parametrize("name", [name for name in DISTRIBUTIONS if name not in SLOW])
@settings(RELAXED, max_examples=3)
@given(data=st.data())
def test_all_walks_say_what_the_reference_says(name: str, others: list[OtherIsa], data: st.DataObject) -> None:
    drawn = data.draw(cases(DISTRIBUTIONS[name].systems))
    event(drawn.want["status"])
    check(drawn, others)


@contextmanager
def without(*paths: str) -> Iterator[None]:
    """Runs of this process use no such fast path."""
    leave_out(*paths)
    try:
        yield
    finally:
        leave_out()


@pytest.mark.parametrize("paths", [*((path,) for path in PATHS), PATHS], ids=[*PATHS, "all"])
@settings(RELAXED, max_examples=3)
@given(data=st.data())
def test_a_fast_path_can_be_left_out(paths: tuple[str, ...], data: st.DataObject) -> None:
    """As if its line in the table were deleted: other paths or the model run its cycles, and results are the same."""
    check_without(paths, data)


@pytest.mark.nightly
@pytest.mark.parametrize("paths", [*((path,) for path in PATHS), PATHS], ids=[*PATHS, "all"])
@settings(RELAXED, max_examples=100)
@given(data=st.data())
def test_a_fast_path_can_be_left_out_long(paths: tuple[str, ...], data: st.DataObject) -> None:
    check_without(paths, data)


def check_without(paths: tuple[str, ...], data: st.DataObject) -> None:
    """All walks agree on a drawn case where these paths are left out."""
    name = data.draw(st.sampled_from([name for name in DISTRIBUTIONS if name not in SLOW]))
    drawn = data.draw(cases(DISTRIBUTIONS[name].systems))
    with without(*paths):
        check(drawn, ())


def test_only_fast_paths_can_be_left_out() -> None:
    with pytest.raises(ValueError, match="'blocks' is no fast path: there are uncontended, "):
        leave_out("blocks")
    wrong = subprocess.run(
        [sys.executable, "-c", "import kernbench_core"], env={**os.environ, "KERNBENCH_WITHOUT": "block,jump"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert wrong.returncode == 1
    assert "KERNBENCH_WITHOUT: 'jump' is no fast path" in wrong.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("name", DISTRIBUTIONS)
@settings(RELAXED, max_examples=1000)
@given(data=st.data())
def test_all_walks_say_what_the_reference_says_long(name: str, others: list[OtherIsa], data: st.DataObject) -> None:
    check(data.draw(cases(DISTRIBUTIONS[name].systems)), others)


@pytest.mark.nightly
def test_the_search_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m tests.search`, which prints its seed and what it ran."""
    with capsys.disabled():
        search.main(["--programs", "2000"])


@pytest.mark.parametrize("name", COUNTED_NAMES)
def test_a_distribution_reaches_what_it_is_named_for(name: str) -> None:
    """A request that reads and writes one bank, a denial on a machine of one bank, a weight that matters, and so on."""
    distribution, reached = DISTRIBUTIONS[name], []

    @settings(COUNTED, max_examples=DRAWS)
    @given(distribution.systems)
    def draw(system: Any) -> None:
        reached.append(distribution.reaches(watched(system)[1]))

    draw()
    assert 100 * sum(reached) >= distribution.percent * len(reached), f"{sum(reached)} of {len(reached)}"


def test_cuts_fall_on_ends_of_entries() -> None:
    """Many runs are cut in the first cycle after an entry's last, with others in flight, and many before that last cycle."""
    at_end: list[bool] = []
    before: list[bool] = []

    @settings(COUNTED, max_examples=DRAWS)
    @given(cases(DISTRIBUTIONS["split_ports"].systems))
    def draw(drawn: Drawn) -> None:
        times = [(entry["start"], entry["end"]) for entry in drawn.want["entries"] if entry["end"] is not None]
        ends = {end for _, end in times if any(start is not None and start < end < other for start, other in times)}
        at_end.append(any(cut in ends for cut in drawn.case.cuts))
        before.append(any(cut + 1 in ends for cut in drawn.case.cuts))

    draw()
    assert 100 * sum(at_end) >= 20 * len(at_end) and 100 * sum(before) >= 10 * len(before), (sum(at_end), sum(before))
