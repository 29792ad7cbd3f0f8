"""Lanes of schedules that follow each other step by step: how many begin, and that their messages have slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import replace

import pytest

from kernbench.ccl.contract import WIDTH, Shape
from kernbench.ccl.measure import row
from kernbench.ccl.patterns import from_root, recursive_doubling, torus_all_reduce, tree_all_reduce
from kernbench.ccl.pipeline import Slice, in_turn
from kernbench.ccl.registry import read_registry
from kernbench.ccl.rings import RING
from kernbench.ccl.schedule import Schedule
from tests.ccl_grid import Point
from tests.unit.test_ccl_algorithms import ENTRIES, check

SCHEDULED = {
    name: entry.load().schedule for name, entry in ENTRIES.items() if hasattr(entry.load(), "schedule")  # type: ignore[attr-defined]
}
SHAPES = Shape(1, 1, 2), Shape(1, 1, 7), Shape(1, 1, 16), Shape(2, 3, 2), Shape(8, 2, 1)


def half_steps(schedule: Schedule, slots: int) -> Iterator[tuple[bool, int, int]]:
    """What each rank does in turn: whether it sends or uses, the lane, and the step."""
    each, running = schedule.pace(slots)
    done: list[tuple[bool, int, int]] = []

    def lane(number: int) -> Slice:
        for step in range(len(schedule.steps)):
            for sends in (True, False):
                done.append((sends, number, step))
                yield True

    for _ in in_turn(map(lane, range(3 * running + 1)), running, each=each):
        yield from done
        done.clear()
    yield from done


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 8, 12])
@pytest.mark.parametrize("name", SCHEDULED)
def test_every_message_of_lanes_in_different_steps_has_a_slot_when_it_is_sent(name: str, slots: int) -> None:
    for shape in SHAPES:
        schedule: Schedule = SCHEDULED[name](RING, shape)
        each, running = schedule.pace(slots)
        if each == running:  # in lockstep
            continue
        waiting: Counter[Hashable] = Counter()  # messages in slots, by queue
        for sends, _, step in half_steps(schedule, slots):
            for one in schedule.steps[step]:
                waiting[one.queue] += 1 if sends else -1
                assert waiting[one.queue] <= slots, (shape, one)


def test_lanes_begin_in_each_step_and_several_steps_run_at_a_time() -> None:
    doubling = recursive_doubling(8, far=True)
    assert doubling.pace(slots=12) == (WIDTH, 3 * WIDTH)
    assert doubling.pace(slots=2) == (2, 6)
    steps = [{step for _, _, step in turns} for turns in _rounds(doubling, 12)]
    assert {0, 1, 2} in steps


def _rounds(schedule: Schedule, slots: int) -> Iterator[list[tuple[bool, int, int]]]:
    whole, running = list(half_steps(schedule, slots)), schedule.pace(slots)[1]
    for first in range(0, len(whole), running):
        yield whole[first : first + running]


def test_lanes_are_in_lockstep_if_a_queue_has_too_few_slots_for_a_message_of_each_step() -> None:
    torus = torus_all_reduce(16, far=False)
    assert torus.reused > 2
    assert torus.pace(slots=2) == (2, 2)


def test_lanes_of_one_step_begin_when_others_have_ended() -> None:
    assert from_root("binomial", Shape(1, 1, 2)).pace(slots=4) == (4, 4)


@pytest.mark.parametrize("slots", [1, 2, 3, 8])
@pytest.mark.parametrize("name", SCHEDULED)
def test_long_elements_over_few_slots_give_what_the_reference_says(name: str, slots: int) -> None:
    for shape in (Shape(1, 1, 7), Shape(2, 2, 2)):
        check(ENTRIES[name], shape, RING, 700, slots=slots, slot_bytes=32)


def test_lanes_that_follow_each_other_take_less_time_than_lanes_in_lockstep(monkeypatch: pytest.MonkeyPatch) -> None:
    switch = Point("switch", "pod_8sip", ("system.kind=switch",), Shape(8, 4, 1), 1_000_000, "broadcast")
    entry = read_registry().find("broadcast", "tree")
    found, outcome = row(switch.request(entry), switch.count)
    monkeypatch.setattr(Schedule, "pace", lambda self, slots: (slots, slots))
    before, _ = row(switch.request(entry), switch.count)
    assert found is not None and before is not None, outcome.status
    assert found.cycles < 0.8 * before.cycles


def test_lanes_beside_each_other_fit_into_a_small_scratchpad() -> None:
    for banks, collective, name in ((32, "all_reduce", "tree"), (16, "all_gather", "bruck"), (16, "all_gather", "pat")):
        sizes = (f"pe.spm.num_banks={banks}", "pe.spm.bank_size_bytes=32768")
        small = Point("cube", "single_cube", sizes, Shape(1, 1, 8), 300_000, collective)
        entry = read_registry().find(collective, name)
        found, outcome = row(replace(small.request(entry), check=True), small.count)
        assert found is not None, outcome.status
        assert found.wrong == 0


def test_a_lane_sends_messages_of_both_trees_over_one_queue() -> None:
    assert {tree_all_reduce(ranks, far=False).reused for ranks in (4, 8, 16)} <= {1, 2}
