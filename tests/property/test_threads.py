"""Groups of scratchpads that run ahead in threads: every number of threads gives what one thread gives, at every stop."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench import InputError, Machine, load_config, load_program
from kernbench.common.threads import VARIABLE
from kernbench_core import Core
from tests.property.test_differential import outcome
from tests.property.test_skipping import seen
from tests.speed.workloads import GROUP, LOADS, Jobs, core_tables
from tests.systems_of_pes import System, systems_of_pes

END = 1 << 40
DRAWN = settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
Tables = tuple[dict[str, Any], dict[str, Any]]


def with_dependencies(tables: Tables, pairs: list[tuple[int, int]]) -> Tables:
    """The same program, in which the later entry of each pair waits for the earlier one."""
    machine, program = tables
    n = len(program["op"])
    edges = sorted({(min(a % n, b % n), max(a % n, b % n)) for a, b in pairs if a % n != b % n})
    first, second = (np.array([edge[k] for edge in edges], dtype=np.int64) for k in (0, 1))
    after = np.concatenate([[0], np.cumsum(np.bincount(first, minlength=n))])
    waits = np.bincount(second, minlength=n)
    return machine, program | {"after": after.astype(np.int64), "dependents": second, "waits": waits.astype(np.int64)}


@st.composite
def grouped(draw: st.DrawFn) -> Tables:
    """Three or five groups of PEs; dependencies lead from group to group rarely, or never."""
    groups = draw(st.sampled_from([3, 5]))
    jobs = Jobs(draw(st.integers(1, 5)), draw(st.integers(0, 2)), draw(st.integers(0, 2)))
    tables = core_tables(LOADS[draw(st.sampled_from(sorted(LOADS)))], groups * GROUP, jobs)
    size = len(tables[1]["op"]) // groups
    within = st.tuples(st.integers(0, groups - 1), st.integers(0, size - 1), st.integers(0, size - 1))
    pairs = [(g * size + a, g * size + b) for g, a, b in draw(st.lists(within, max_size=40))]
    across = st.tuples(st.integers(0, groups * size - 1), st.integers(0, groups * size - 1))
    pairs += draw(st.one_of(st.just([]), st.lists(across, max_size=3)))
    return with_dependencies(tables, pairs)


@given(grouped(), st.integers(2, 6), st.lists(st.integers(1, 6000), max_size=3), st.booleans())
@DRAWN
def test_threads_give_what_one_thread_gives(tables: Tables, threads: int, cuts: list[int], skip: bool) -> None:
    one, many = Core(*tables), Core(*tables, threads=threads)
    for cut in [*sorted(cuts), END]:
        one.run(cut, skip=skip)
        many.run(cut, skip=skip)
        assert seen(many) == seen(one)
        assert many.snapshot() == one.snapshot()
    assert [one.number_of(k) for k in range(len(tables[1]["op"]))] == [many.number_of(k) for k in range(len(tables[1]["op"]))]


@given(systems_of_pes(), st.integers(2, 4))
@DRAWN
def test_systems_give_the_same_with_threads(system: System, threads: int) -> None:
    config, program = load_config(system[0]), load_program(system[1])
    one, many = Machine(config, program), Machine(config, program, threads=threads)
    one.run()
    many.run()
    assert outcome(many) == outcome(one)
    assert many.snapshot() == one.snapshot()


def test_a_run_goes_on_with_other_threads_from_a_snapshot() -> None:
    tables = core_tables(LOADS["conflict"], 4 * GROUP, Jobs(4, 1, 1))
    whole, cut = Core(*tables), Core(*tables, threads=4)
    whole.run(END)
    cut.run(700)
    for threads in (1, 3):
        later = Core(*tables, threads=threads)
        later.restore(cut.snapshot())
        later.run(END)
        assert seen(later) == seen(whole)


def test_no_more_threads_than_groups_are_used() -> None:
    used = {groups: Core(*core_tables(LOADS["dram"], groups * GROUP, Jobs(1, 0, 0)), threads=3).threads for groups in (1, 2, 4)}
    assert used == {1: 1, 2: 2, 4: 3}
    assert Core(*core_tables(LOADS["dram"], 4 * GROUP, Jobs(1, 0, 0)), plain=True, threads=3).threads == 1


@pytest.mark.parametrize("value", ["0", "-1", "two", "1025", "3.5", "99999999999"])
def test_a_wrong_number_of_threads_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, VARIABLE, value)
    with pytest.raises(InputError, match=rf"KERNBENCH_THREADS.*{value}.*must be a number from 1 to 1024"):
        Machine("npu_mobile", load_program({"metadata": {"version": "1.0", "name": "none"}, "cmdq": []}))
