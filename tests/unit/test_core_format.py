"""The core's lines of records: stored lines that repeat are equal to lines that are made one by one."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench_core import Core, Format
from kernbench_core.numbers import (
    ALWAYS,
    COLUMN,
    CYCLE,
    NO_UNIT,
    NOTHING,
    TEXT,
    TEXT_OF_COLUMN,
    TEXT_OF_VALUE,
    UNIT_OF_ENTRY,
    VALUE,
)
from tests.unit.test_core_trace import long_load

EVENT = struct.Struct("qQiIii8q")  #: cycle, order, job, detail, kind, entry, values: events.pxd
UNITS = [b"dma0", b"a unit with a long name, which takes more than one piece"]
FLAGS = [b"false", b"true"]
FOREVER = 2**62

Part = tuple[int, int, int, int, bytes]
#: Two lines of a record. Values 0 and 3 are shared, the others are numbers; value 2 is in both lines, and so is the cycle.
FIRST: list[Part] = [
    (CYCLE, 0, 0, 0, b"at "), (TEXT_OF_COLUMN, 1, 0, 0, b", unit "), (VALUE, 1, 0, 0, b", a "),
    (TEXT_OF_VALUE, 3, 1, 0, b", flag "), (VALUE, 2, 0, 0, b", b "), (TEXT, 0, 0, 0, b"."),
]  # fmt: skip
SECOND: list[Part] = [
    (CYCLE, 0, 0, 0, b"and at "), (VALUE, 2, 0, 0, b", b "), (VALUE, 0, 0, 0, b", job "), (COLUMN, 0, 0, 0, b", command "),
    (VALUE, 4, 0, 0, b", c "), (TEXT, 0, 0, 0, b"!"),
]  # fmt: skip

SIZES = st.integers(0, 16).map(lambda n: 10**n)
NUMBERS = SIZES.flatmap(lambda n: st.sampled_from([n - 1, n, 9 * n])) | st.sampled_from([NOTHING, -1, -(10**7), 2**63 - 1])
#: An entry, a shared value, a flag, and the numbers of records; few different ones, so that records repeat.
RECORDS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 1), NUMBERS, NUMBERS, NUMBERS), max_size=60)


def lines(records: list[Any], shared: tuple[int, ...], *, kept: bytes = b"\1\1", first: list[Part] = FIRST) -> bytes:
    """Lines of records, one in each cycle."""
    core: Core = long_load()
    trace = core.tracer(2)
    columns = [np.array([7, 80, 900]), np.array([0, 1, 0]), np.full(3, NOTHING)]
    made = [(ALWAYS, UNIT_OF_ENTRY, -1, shared, first), (0, NO_UNIT, -1, shared, SECOND)]
    form = Format(columns, [UNITS, FLAGS], [made], kept, 1, 2, [], [], 0, FOREVER)
    events = [
        EVENT.pack(cycle * 7, 0, 0, 0, 0, entry, job, a, b, flag, c, 0, 0, 0)
        for cycle, (entry, job, flag, a, b, c) in enumerate(records)
    ]
    trace.load(b"".join(events))
    out = []
    while text := form.text(trace, FOREVER, None):
        out.append(text)
    assert form.lines == sum(text.count(b"\n") for text in out)
    return b"".join(out)


@given(RECORDS, st.sampled_from([b"\1\1", b"\0\1", b"\1\0"]))
def test_stored_lines_are_those_that_are_made_one_by_one(records: list[Any], kept: bytes) -> None:
    assert lines(records, (0, 3), kept=kept) == lines(records, (), kept=kept)


def test_records_that_need_the_same_place_replace_each_other() -> None:
    records = [(entry, job, 0, 1, 10 ** (job % 9), job) for job in range(20_000) for entry in (0, 1)] * 2
    assert lines(records, (0, 3)) == lines(records, ())


def test_a_text_of_a_value_is_shared() -> None:
    with pytest.raises(ValueError, match=r"^the text of value 3 must be shared by records that repeat$"):
        lines([], (0,))


def test_lines_that_repeat_begin_with_the_cycle() -> None:
    with pytest.raises(ValueError, match=r"^lines that repeat begin with their cycle, and have the unit of their entry$"):
        lines([], (0, 3), first=FIRST[1:])


def test_lines_that_repeat_have_few_numbers() -> None:
    more = [(VALUE, k, 0, 0, b"") for k in range(5, 8)]
    with pytest.raises(ValueError, match=r"^records that repeat have 2 lines with 2 shared and 6 other values$"):
        lines([], (0, 3), first=FIRST + more)
