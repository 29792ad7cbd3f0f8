"""Exact numbers: sizes, decimals, JSON forms, nanoseconds; and the form of error lines."""

from __future__ import annotations

import pickle
from decimal import Decimal
from fractions import Fraction
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench.common import naming
from kernbench.common.errors import ABSENT, InputError, InternalError, KernbenchError, Problem, shown
from kernbench.common.units import (
    ceil_div,
    cycles_to_ns,
    parse_decimal,
    parse_rational,
    parse_size,
    parse_size_text,
    plain_number,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5", Fraction(3, 2)),
        ("0.1", Fraction(1, 10)),
        ("17.066", Fraction(8533, 500)),
        ("1.0e+3", Fraction(1000)),
        ("1e3", Fraction(1000)),
        ("2.5E-1", Fraction(1, 4)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("-2", Fraction(-2)),
    ],
)
def test_decimal_is_the_rational_its_text_says(text: str, value: Fraction) -> None:
    assert parse_decimal(text) == value


@pytest.mark.parametrize("text", ["", ".", "1.5.2", "1_0", "0x10", "nan", "inf", "1e", "1e+99", "9" * 61, "1e99999999999", "٣"])
def test_what_is_no_decimal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it must"):
        parse_decimal(text)


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (3, Fraction(3)),
        (0.1, Fraction(1, 10)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.int64(7), Fraction(7)),
        (Decimal("1.25"), Fraction(5, 4)),
        ("3/2", Fraction(3, 2)),
        ("1.5", Fraction(3, 2)),
        (Fraction(2, 3), Fraction(2, 3)),
    ],
)
def test_rational_from_what_python_has(value: object, exact: Fraction) -> None:
    assert parse_rational(value) == exact


@pytest.mark.parametrize("value", [True, None, "x", "1/0", float("nan"), float("inf"), Decimal("NaN"), [1], "1/2/3"])
def test_what_is_no_rational_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="it must"):
        parse_rational(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 GiB", 2**30),
        ("64 KiB", 65536),
        ("64KiB", 65536),
        ("256 B", 256),
        ("1.5 MiB", 3 * 2**19),
        ("2 kB", 2000),
        ("3 MB", 3_000_000),
        ("1 GB", 10**9),
        ("2 TB", 2 * 10**12),
        ("1 TiB", 2**40),
        ("4KiB", 4096),
        ("8k", 8192),
        ("8 K", 8192),
        ("1M", 2**20),
        ("1.5G", 3 * 2**29),
        ("2T", 2**41),
        (4096, 4096),
    ],
)
def test_a_size_is_read_with_its_unit(text: object, value: int) -> None:
    assert parse_size(text) == value


@pytest.mark.parametrize(
    "text", ["1 KB", "1 kb", "4Q", "1 m", "1.5 B", "KiB", "1 GiB2", "-1 KiB", "1..5 KiB", "1 gib", "", True, 1.5, None, "12"]
)
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"must be|is not one of|can mean"):
        parse_size(text)


def test_digits_alone_are_bytes_on_a_command_line() -> None:
    assert [parse_size_text(text) for text in ("4096", " 12 ", "4KiB", "1M")] == [4096, 12, 4096, 2**20]
    for text in ("", "-1", "1_000", "9" * 61):
        with pytest.raises(ValueError, match="it must be a whole number of bytes"):
            parse_size_text(text)


@given(st.fractions(min_value=0, max_denominator=10**6))
def test_plain_number_reads_back_exactly(value: Fraction) -> None:
    assert parse_rational(plain_number(value)) == value


def test_plain_number_prefers_what_people_write() -> None:
    assert plain_number(Fraction(4)) == 4
    assert plain_number(Fraction(3, 2)) == 1.5
    assert plain_number(Fraction(1, 3)) == "1/3"
    assert plain_number(Fraction(10**400 + 1, 2)) == f"{10**400 + 1}/2"


def test_cycles_to_ns_is_exact() -> None:
    assert cycles_to_ns(354, Fraction(3, 2)) == 236
    assert cycles_to_ns(1, Fraction(3)) == Fraction(1, 3)


@given(st.integers(-100, 100), st.fractions(min_value=Fraction(1, 50), max_value=50))
def test_ceil_div_is_the_smallest_integer_not_below(numerator: int, denominator: Fraction) -> None:
    result = ceil_div(numerator, denominator)
    assert result >= numerator / denominator > result - 1


@given(st.integers(-(10**9), 10**9), st.lists(st.fractions(Fraction(1, 1000), 1000), min_size=1, max_size=4))
def test_ceil_div_by_several_divides_by_their_product(numerator: int, factors: list[Fraction]) -> None:
    assert ceil_div(numerator, *factors) == ceil_div(numerator, prod(factors, start=Fraction(1)))


def test_engines_channels_and_links_are_named_by_number() -> None:
    assert [naming.engine("dma", 0), naming.engine("te", 1), naming.dram_channel(3)] == ["dma0", "te1", "dram.ch3"]
    assert naming.mesh_link((1, 0), (0, 0)) == "noc.r1c0-r0c0"


def test_problem_lines() -> None:
    where = "prog.json:57:5: cmdq[12] (id 12, TE_GEMM_TILE)"
    full = Problem(where, "the machine has 2 tensor engines", "te_id", 3, "use 0 or 1")
    assert str(full) == f"{where}: te_id = 3, but the machine has 2 tensor engines; use 0 or 1"
    assert str(Problem("a.yaml", "it is missing", "cmdq")) == "a.yaml: cmdq: it is missing"
    assert str(Problem("a.yaml", "the file is empty")) == "a.yaml: the file is empty"


def test_an_error_line_is_one_line_whatever_the_value() -> None:
    line = str(Problem("a\nb.yaml", "it must be short", "k\r", "x\ny" + "z" * 1000))
    assert line.isprintable()
    assert len(line) < 200


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (None, "null"),
        (7, "7"),
        pytest.param(10**5000, "an integer of 16610 bits", id="huge integer"),
        ("a", '"a"'),
        ([1, "a"], '[1, "a"]'),
        ([[1]], "a list of 1 items"),
        ([1] * 9, "a list of 9 items"),
        ({"a": 1}, "a mapping of 1 key"),
        ({}, "an empty mapping"),
        (Fraction(1, 3), "1/3"),
        pytest.param(Fraction(10**5000, 3), "a Fraction of too many digits", id="huge fraction"),
        (ABSENT, "ABSENT"),
    ],
)
def test_a_value_is_shown_short(value: object, text: str) -> None:
    assert shown(value) == text


def test_input_error_shows_twenty_and_keeps_all() -> None:
    error = InputError([Problem(f"cmdq[{i}]", "it is wrong") for i in range(25)])
    lines = str(error).splitlines()
    assert len(error.problems) == 25
    assert lines[19] == "cmdq[19]: it is wrong"
    assert lines[20:] == ["and 5 more"]
    assert str(InputError(error.problems[:21])).splitlines()[20:] == ["and 1 more"]
    assert len(str(InputError(error.problems[:20])).splitlines()) == 20
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_exit_codes_and_kinds() -> None:
    assert (InputError.exit_code, InternalError.exit_code) == (2, 70)
    assert issubclass(InputError, KernbenchError)
    assert not issubclass(InternalError, InputError)
    with pytest.raises(InternalError):
        InputError([])
