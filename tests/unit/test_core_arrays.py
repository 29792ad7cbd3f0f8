"""Arrays that the core reads by pointers: those of another type, shape or order are refused before anything is read."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pytest

from kernbench_core import Core, Samples
from tests.speed.workloads import LOADS, Jobs, core_tables

ROWS = np.ones((2, 2), dtype=np.int64)


def lines(numbers: Any) -> bytes:
    return Samples(b"at ", [b" of A", b" of B"], [b", in ", b": ", b" + ", b".\n"], b"\1\1").windows([0], [1], numbers)[0][0]


@pytest.mark.parametrize(
    ("numbers", "kind", "message"),
    [
        (ROWS.astype(np.float64), ValueError, "Buffer dtype mismatch, expected 'int64_t' but got items of 8 bytes, format 'd'"),
        (ROWS.astype(np.int32), ValueError, "Buffer dtype mismatch, expected 'int64_t' but got items of 4 bytes, format 'i'"),
        (ROWS.astype(np.uint64), ValueError, "Buffer dtype mismatch, expected 'int64_t' but got items of 8 bytes, format 'L'"),
        (ROWS.astype(">i8"), ValueError, "Buffer dtype mismatch, expected 'int64_t' but got items of 8 bytes, format '>q'"),
        (ROWS.ravel(), ValueError, "Buffer has wrong number of dimensions (expected 2, got 1)"),
        (np.ones((2, 4), dtype=np.int64)[:, ::2], ValueError, "ndarray is not C-contiguous"),
        ([[1, 1], [1, 1]], TypeError, "a bytes-like object is required, not 'list'"),
        (None, TypeError, "Argument 'numbers' must not be None"),
    ],
)
def test_what_is_no_array_of_int64_in_order(numbers: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        lines(numbers)
    assert str(caught.value) == message


def test_any_exporter_of_such_a_buffer_will_do() -> None:
    view = memoryview(array("q", [1, 2, 3, 4])).cast("B").cast("q", (2, 2))
    assert lines(view) == b"at 0 of A, in 1: 1 + 2.\nat 0 of B, in 1: 3 + 4.\n"


JOBS = [("dma", "channel"), ("dma", "t_start"), ("compute", "work"), ("compute", "region_bytes")]


@pytest.mark.parametrize(("table", "name"), JOBS)
def test_columns_of_jobs_that_are_too_short(table: str, name: str) -> None:
    machine, program = core_tables(LOADS["compute"], 1, Jobs(2, 2, 2))
    Core(machine, program)
    columns = program[table]
    count = len(columns[name])
    with pytest.raises(ValueError, match=rf"^Buffer has wrong length \(expected {count}, got {count - 1}\)$"):
        Core(machine, {**program, table: {**columns, name: columns[name][:-1]}})


def test_a_column_of_entries_that_is_too_short() -> None:
    machine, program = core_tables(LOADS["compute"], 1, Jobs(2, 2, 2))
    count = len(program["after"])
    with pytest.raises(ValueError, match=rf"^Buffer has wrong length \(expected {count}, got {count - 1}\)$"):
        Core(machine, {**program, "after": program["after"][:-1]})
