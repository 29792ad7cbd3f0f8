"""The suite `collectives`: its algorithm is right in every bit, its closed forms by hand, and planted errors are noticed."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

import pytest

from kernbench.ccl.call import Call, Queues
from kernbench.ccl.contract import Algorithm, Shape
from kernbench.ccl.group import group_of
from kernbench.ccl.single import run_call
from kernbench.config import SystemConfig, load_config
from kernbench.validate import channels
from kernbench.validate.data_files import read_suite_data
from kernbench.validate.stand import Stand
from kernbench.validate.suites.collectives import FORMS, Line

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
    found = run_call(config, call, (count, count), Queues(channels.SLOTS, slot_bytes), check=True)
    assert (found.status, found.wrong) == ("done", 0)


def test_forms_by_hand() -> None:
    """Eight ranks: 14 steps; seven eighths of the bytes leave a rank twice, half of them each way round."""
    assert FORMS["all_reduce", "ring"](8) == (14, Fraction(7, 4))
    assert FORMS["all_reduce", "bidirectional"](8) == (14, Fraction(7, 8))
    assert FORMS["all_reduce", "bidirectional"](2) == FORMS["all_reduce", "ring"](2) == (2, Fraction(1))
    assert FORMS["all_gather", "ring"](8) == FORMS["reduce_scatter", "ring"](8) == (7, Fraction(7, 8))


def test_planted_errors_show() -> None:
    """8 B are latency, 1 MiB is adding for two thirds of its time; both are fitted to less than one percent."""
    tenth = Fraction(11, 10)
    right, links, adding = (Line(DATA, Stand(plant=plant)) for plant in ({}, {"noc": tenth}, {"ve": tenth}))
    assert links.us(8) > right.us(8) * Fraction(109, 100) and adding.us(8) == right.us(8)
    assert adding.us(1 << 20) > right.us(1 << 20) * Fraction(105, 100)
