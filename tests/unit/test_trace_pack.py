"""Packed columns: what the page unpacks is what went in, and the bytes are the same everywhere."""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.trace.columns import (
    BLOCK,
    LONGEST_CODE,
    NULL,
    SAFE,
    Collector,
    Column,
    Ints,
    Pack,
    Table,
    code_lengths,
    deflate,
)
from kernbench.trace.events import RECORDS
from kernbench.trace.schema import BY_NAME

BYTES = st.binary(max_size=700).map(lambda data: np.frombuffer(data, np.uint8))
SKEWED = st.lists(st.tuples(st.integers(0, 255), st.integers(1, 600)), max_size=8).map(
    lambda runs: np.repeat(np.array([value for value, _ in runs], np.uint8), [count for _, count in runs])
)
VALUES = st.one_of(st.integers(0, 3), st.integers(-5, 300), st.integers(-(2**40), 2**40), st.just(NULL))


def unpacked(stream: bytes, told: dict[str, Any]) -> Ints:
    """The page's `readInts`, in Python."""
    count = told["count"]
    if "constant" in told:
        return np.full(count, NULL if told["constant"] is None else told["constant"])
    plain = np.zeros(count, np.int64)
    for plane in range(told["bytes"]):
        at = told["at"] + plane * count
        plain += np.frombuffer(stream[at : at + count], np.uint8).astype(np.int64) << 8 * plane
    if told["delta"]:
        plain = np.cumsum((plain >> 1) ^ -(plain & 1))
    return np.where(plain == 0, NULL, plain + told["base"]) if told["nullable"] else plain + told["base"]


@given(st.lists(st.one_of(BYTES, SKEWED), max_size=4))
@settings(deadline=None)
def test_zlib_reads_what_deflate_writes(parts: list[Any]) -> None:
    data = b"".join(part.tobytes() for part in parts)
    reader = zlib.decompressobj(-15)
    assert reader.decompress(deflate(parts)) + reader.flush() == data
    assert reader.eof and reader.unused_data == b""


@pytest.mark.parametrize("count", [1, 258, 259, 516, 517, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_runs_and_blocks_of_every_length(count: int) -> None:
    one, mixed = np.full(count, 7, np.uint8), (np.arange(count) ** 2 % 251).astype(np.uint8)
    for part in (one, mixed):
        assert zlib.decompress(deflate([part]), -15) == part.tobytes()
    assert len(deflate([one])) < 90 + count // 500


def test_codes_are_never_too_long() -> None:
    fibonacci = [1, 1]
    while len(fibonacci) < 40:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    for longest in (LONGEST_CODE, 7):
        lengths = code_lengths(fibonacci, longest)
        assert max(lengths) <= longest and sum(2.0**-length for length in lengths) == 1
    assert code_lengths([5, 0, 5, 10], 15) == [2, 0, 2, 1]


def test_the_bytes_are_the_same_everywhere() -> None:
    values = np.array([(i * i * 7919) % 1000 for i in range(5000)])
    pack = Pack()
    told = pack.ints(values)
    assert told == {"count": 5000, "at": 0, "bytes": 2, "base": 0, "delta": False, "nullable": False}
    digest = hashlib.sha256(pack.finish()).hexdigest()
    assert digest == "837f40299043b46f30886cbf95db2f59c4080acace9726fc01fa5669e1152c2e"


@given(st.lists(st.lists(VALUES, max_size=40), min_size=1, max_size=4))
@settings(deadline=None)
def test_columns_come_back(columns: list[list[int]]) -> None:
    pack = Pack()
    given_ = [np.array(values, np.int64) for values in columns]
    told = [pack.ints(values) for values in given_]
    stream = zlib.decompress(pack.finish(), -15)
    for values, one in zip(given_, told, strict=True):
        assert unpacked(stream, one).tolist() == values.tolist()


def test_numbers_that_javascript_cannot_hold_travel_as_text() -> None:
    values = [SAFE + 1, NULL, 2**63 - 1, 5]
    pack = Pack()
    told = pack.column(Column(np.array(values)))
    places = unpacked(zlib.decompress(pack.finish(), -15), told).tolist()
    assert [None if place == NULL else told["texts"][place] for place in places] == [str(SAFE + 1), None, str(2**63 - 1), "5"]
    assert "texts" not in Pack().column(Column(np.array([SAFE, NULL])))


def test_a_collector_keeps_what_records_say() -> None:
    fields = BY_NAME["CMD_ENQUEUE"].fields
    collector = Collector(fields)
    made = RECORDS["CMD_ENQUEUE"]
    told = [
        {"cmd_id": 0, "cmd_type": "A", "unit": "te0", "deps": [3, 1], "layer_id": 2**63 - 1},
        {"cmd_id": 1, "cmd_type": "B\n", "unit": "te0"},
        {"cmd_id": 2, "cmd_type": "A", "unit": "", "deps": [], "bytes": 2**80},
        {"cmd_id": 3, "cmd_type": "", "unit": "x", "deps": [9], "bytes": -4},
    ]
    for fields_ in told:
        collector.add(made(t_cycle=0, **fields_))
    table = collector.table()
    told[2]["bytes"] = 2**63 - 1  # as much as a column holds
    assert [table.row(i) for i in range(len(table))] == told
    order = np.array([3, -1, 0, 0])
    taken = Table({name: column for name, column in table.columns.items() if name != "deps"}).take(order)
    assert [taken.row(i).get("cmd_type") for i in range(4)] == ["", None, "A", "A"]
    assert table.columns["deps"].take(np.array([3, 0, 1]))[1] == [3, 1]


def test_a_collector_without_records_makes_an_empty_table() -> None:
    table = Collector(BY_NAME["WARN"].fields).table()
    assert len(table) == 0 and table["msg"].tolist() == []
    assert len(table.take(np.array([-1, -1]))) == 2 and table.take(np.array([-1])).row(0) == {}
