"""The suite `collectives`: its algorithm is right in every bit, turns by hand, and planted errors are noticed."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

import pytest

from kernbench.ccl.call import Call, Queues, run_call
from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.contract import Algorithm, Shape
from kernbench.ccl.group import group_of
from kernbench.config import SystemConfig, load_config
from kernbench.validate import channels
from kernbench.validate.interleaved_messages import phases, taken
from kernbench.validate.run import Options, Runner
from kernbench.validate.suite import read_suite_data
from kernbench.validate.suites.collectives import Line, rows

DATA = read_suite_data("collectives")


@pytest.mark.parametrize(
    ("ranks", "count", "slot_bytes"),
    [
        (4, 1, 4096),  # of four ranks, three have no element of their own
        (3, 1000, 4096),
        (4, 30_000, 2048),  # eight messages of a segment, four at a time
        (2, 2 * 3 * 24 * 1024 // 2, 4096),  # three channels
    ],
)
def test_channels_are_right_in_every_bit(ranks: int, count: int, slot_bytes: int) -> None:
    config = load_config(DATA.fact("machine"), {"system.sips": str(ranks)}, kind=SystemConfig)
    group = group_of(config, Shape(ranks, 1, 1))
    call = Call("all_reduce_channels", cast(Algorithm, channels), group, count, "f16", slot_bytes)
    found = run_call(config, call, COLLECTIVES["all_reduce"], Queues(channels.SLOTS, slot_bytes), check=True)
    assert (found.status, found.wrong) == ("done", 0)


def test_lanes_in_turn_by_hand() -> None:
    """A latency of 100, 10 on the link, and a cycle from use to send: all messages begin at 1, or the next lane's two later."""
    none = Fraction(0)
    assert taken(1, 3, 100, Fraction(10), none, 1) == 3 * (1 + 10 + 100)
    # Two lanes: sends at 1 and 3; 2 cycles alone, 16 of both, 2 alone: left at 19 and 21; used at 119 and 121.
    assert taken(2, 1, 100, Fraction(10), none, 1) == 121
    # The first lane's next is sent at 122 and used at 232; the second's, which waits for that, at 233 and used at 343.
    assert taken(2, 2, 100, Fraction(10), none, 1) == 343
    assert taken(1, 1, 100, Fraction(10), Fraction(5), 1) == 116


@pytest.mark.parametrize(
    ("lanes", "found"), [(1, [1, 2, 3, 4, 5]), (2, [1, 3, 5, 7, 9]), (3, [1, 3, 4, 6, 7]), (4, [1, 3, 4, 5, 7])]
)
def test_latencies_that_follow_each_other(lanes: int, found: list[int]) -> None:
    """Of messages that take no time on the link, the time is that many latencies."""
    assert [phases(lanes, steps) for steps in range(1, 6)] == found
    for steps, number in enumerate(found, 1):
        assert round(taken(lanes, steps, 10_000, Fraction(1, 1000), Fraction(0), 0) / 10_000) == number


def test_links_that_are_a_little_slower_are_outside() -> None:
    """A twentieth: of all rows in turns, latencies and bytes are nearly all of the time."""
    found = rows(DATA, Runner(Options(quick=True), plant={"noc": Fraction(21, 20)}))
    verdicts = [row.verdict for row in found if row.source == "turns"]
    assert len(verdicts) == 24 and set(verdicts) == {"fail"}


def test_planted_errors_show() -> None:
    """8 B are latency, 1 MiB is adding for two thirds of its time; both are fitted to less than one percent."""
    tenth = Fraction(11, 10)
    right, links, adding = (Line(DATA, Runner(plant=plant)) for plant in ({}, {"noc": tenth}, {"ve": tenth}))
    assert links.us(8) > right.us(8) * Fraction(109, 100) and adding.us(8) == right.us(8)
    assert adding.us(1 << 20) > right.us(1 << 20) * Fraction(105, 100)
