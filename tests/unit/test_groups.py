"""Scratchpads that share no resource go ahead by themselves (docs/adr/0035-groups.md): no result shows it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from kernbench_core import Core, Status
from tests.speed.workloads import GROUP, LOADS, Jobs, core_tables

END = 1 << 40
Tables = tuple[dict[str, Any], dict[str, Any]]


FEW = Jobs(6, 2, 2)


def tables(load: str = "compute", jobs: Jobs = FEW) -> Tables:
    """Three groups of eight PEs, with different jobs and nothing that waits for another job."""
    return core_tables(LOADS[load], 3 * GROUP, jobs)


def seen(core: Core) -> tuple[Any, ...]:
    times = [column.tolist() for column in core.entries()]
    numbers = [core.number_of(k) for k, issue in enumerate(times[0]) if issue >= 0]
    return core.status, core.cycle, times, numbers, core.counters(), core.waiting()[0].tolist()


def by_cycles(of: Tables, skip: bool) -> Core:
    """A run in which nobody goes ahead: it is cut after every cycle."""
    core = Core(*of)
    while core.status == Status.RUNNING:
        core.step(1, skip=skip)
    return core


def with_dependents(of: Tables, pairs: list[tuple[int, int]]) -> Tables:
    """The same program, where of each pair the second entry waits for the first."""
    machine, program = of
    n = len(program["op"])
    of_entry: list[list[int]] = [[] for _ in range(n)]
    waits = program["waits"].copy()
    for first, second in pairs:
        of_entry[first].append(second)
        waits[second] += 1
    after = np.cumsum([0, *map(len, of_entry)])
    dependents = np.array([k for some in of_entry for k in some], dtype=np.int64)
    return machine, program | {"waits": waits, "after": after, "dependents": dependents}


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("load", list(LOADS))
def test_a_run_in_one_is_a_run_by_cycles(load: str, skip: bool) -> None:
    """To the cycle in which the last job of the slowest group ends, and no further."""
    of = tables(load)
    core = Core(*of)
    core.run(END, skip=skip)
    ends = core.entries()[2]
    assert core.status == Status.DONE and core.cycle == max(ends)
    assert len({max(part) for part in np.split(ends, 3)}) == 3
    assert seen(core) == seen(by_cycles(of, skip))


def check_cuts(of: Tables, skip: bool, cuts: tuple[int, ...]) -> None:
    """Groups that go ahead up to a cut stand there, to the byte, as those that all go from cycle to cycle do."""
    ahead, together, by_one = Core(*of), Core(*of), Core(*of)
    ahead.run(END)
    last = int(np.argmax(ahead.entries()[2]))  # a stop that is not reached keeps groups together
    ahead = Core(*of)
    for cut in cuts:
        ahead.run(cut, skip=skip)
        together.run(cut, skip=skip, end_of=last)
        while by_one.cycle < cut and by_one.status == Status.RUNNING:
            by_one.step(1)
        assert seen(ahead) == seen(together) == seen(by_one)
        if ahead.status == Status.RUNNING and not skip:  # skipping may keep a state in other words
            assert ahead.snapshot() == together.snapshot()
        fresh = Core(*of)
        fresh.restore(ahead.snapshot())
        assert fresh.snapshot() == ahead.snapshot()
        ahead = fresh


@pytest.mark.parametrize("load", list(LOADS))
@pytest.mark.parametrize("skip", [False, True])
def test_cuts_are_not_seen(load: str, skip: bool) -> None:
    check_cuts(tables(load), skip, (1, 21, 22, 150, 400, 401, 700))


def drawn_pairs(of: Tables, draw: random.Random, apart: bool) -> list[tuple[int, int]]:
    """Entries that wait for earlier ones, nearly all for one of their group; `apart`: all of them."""
    n = len(of[1]["op"])
    third = n // 3
    pairs = set()
    for second in range(1, n):
        lowest = second // third * third if apart or draw.random() < 0.97 else 0
        if lowest < second and draw.random() < 0.5:
            pairs |= {(draw.randrange(lowest, second), second) for _ in range(draw.choice((1, 1, 2)))}
    return sorted(pairs)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("skip", [False, True])
def test_groups_issue_their_jobs_by_themselves(seed: int, skip: bool) -> None:
    """Jobs that wait for others of their group, and here and there of another one."""
    draw = random.Random(seed)
    of = tables(draw.choice(list(LOADS)), Jobs(4, 2, 2))
    check_cuts(with_dependents(of, drawn_pairs(of, draw, apart=seed < 2)), skip, (1, 150, 400, 401, 900, 1_500, END))


def test_the_order_of_lists_is_not_seen() -> None:
    of = tables()
    shuffled, plain = Core(*of), Core(*of)
    shuffled.shuffle_lists(5)
    shuffled.run(END, skip=False)
    plain.run(END, skip=False)
    assert seen(shuffled) == seen(plain)


@pytest.mark.parametrize("skip", [False, True])
def test_a_job_of_one_group_starts_one_of_another(skip: bool) -> None:
    """In the cycle after its last, whatever group is ahead; the rest goes on apart."""
    of = tables()
    n = len(of[1]["op"]) // 3
    pairs = [(0, 2 * n - 1), (2 * n - 2, 0 + 3), (n + 1, 2 * n + 1)]
    of = with_dependents(of, pairs)
    core = Core(*of)
    core.run(END, skip=skip)
    issue, _, end = core.entries()
    assert all(issue[second] == end[first] for first, second in pairs)
    assert seen(core) == seen(by_cycles(of, skip))


@pytest.mark.parametrize("skip", [False, True])
def test_a_deadlock_is_found_in_its_cycle(skip: bool) -> None:
    """Two jobs of one group wait for each other; those of the others go on to their ends."""
    of = tables()
    of = with_dependents(of, [(0, 5), (5, 7), (7, 5)])
    core = Core(*of)
    core.run(END, skip=skip)
    assert core.status == Status.DEADLOCK and core.cycle == max(core.entries()[2])
    assert seen(core) == seen(by_cycles(of, skip))


@pytest.mark.parametrize("width", [1, 3])
def test_an_issue_width_is_for_all_groups(width: int) -> None:
    machine, program = tables()
    of = with_dependents((machine | {"issue_width": width}, program), [(k, k + 1) for k in range(0, 20, 3)])
    core = Core(*of)
    core.run(END, skip=False)
    assert seen(core) == seen(by_cycles(of, False))


def test_stops_end_a_run_in_their_cycle() -> None:
    of = tables()
    last = len(of[1]["op"]) - 1
    core = Core(*of)
    assert core.run(END, skip=False, end_of=last)
    assert core.cycle == core.entries()[2][last]
    stall = Core(*tables("conflict"))
    assert stall.run(END, skip=False, conflict=True)
    slow = Core(*tables("conflict"))
    while sum(sum(spm["denials"]) for spm in slow.counters()["spm"]) == 0:
        slow.step(1)
    assert seen(stall) == seen(slow)
