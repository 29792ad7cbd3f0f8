"""Axes, ranges, samples and conditions: which values a sweep has."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kernbench.sweep.axes import MAX_DIMENSIONS, Axis, Span, drawn, grid, random_points, sobol_points
from kernbench.sweep.conditions import RULE, Condition


@pytest.mark.parametrize(
    ("span", "levels"),
    [
        (Span(1, 4), [1, 2, 3, 4]),
        (Span(8, 32, step=8), [8, 16, 24, 32]),
        (Span(8, 33, step=8), [8, 16, 24, 32]),
        (Span(256, 4096, "log", count=5), [256, 512, 1024, 2048, 4096]),
        (Span(1, 2, step=Fraction(1, 4)), [1, 1.25, 1.5, 1.75, 2]),
        (Span(1, 2, count=4), [1, 2]),  # integers between 1 and 2: each once
        (Span(Fraction(1), Fraction(2), count=4), [1, 1.33333, 1.66667, 2]),
        (Span(Fraction(1, 10), 10, "log", count=3), [0.1, 1, 10]),
        (Span(100, 1000, "log", count=4, multiple_of=64), [128, 192, 448, 1024]),  # 100, 215.4, 464.2 and 1000
        (Span(7, 7, count=1), [7]),
        (Span(0, 64, multiple_of=16), [0, 16, 32, 48, 64]),
    ],
)
def test_a_range_has_its_levels(span: Span, levels: list[float]) -> None:
    assert span.levels() == levels


def test_levels_that_are_lists_are_drawn_once_each() -> None:
    places = Axis(("noc.dma_at",), (([[0, 0]],), ([[1, 1]],)), None)
    parts = [[Fraction(1, 4)], [Fraction(3, 4)], [Fraction(1, 3)]]
    assert drawn([places], parts) == [(([[0, 0]],),), (([[1, 1]],),)]


def test_a_range_without_a_step_is_no_grid() -> None:
    span = Span(Fraction(1), Fraction(2))
    assert not span.is_grid
    with pytest.raises(ValueError, match="it must say its count or its step"):
        span.levels()
    with pytest.raises(ValueError, match="it has 2000001 values, and an axis has at most 1000000"):
        Span(0, 2_000_000).levels()


def test_the_last_axis_varies_fastest() -> None:
    axes = (Axis(("a",), ((1,), (2,))), Axis(("b", "c"), ((3, 4), (5, 6))))
    assert grid(axes) == [((1,), (3, 4)), ((1,), (5, 6)), ((2,), (3, 4)), ((2,), (5, 6))]
    assert grid(()) == [()]


def test_drawn_levels_have_equal_shares_and_each_combination_once() -> None:
    axes = (Axis(("a",), (("x",), ("y",), ("z",))),)
    parts = [(Fraction(i, 9),) for i in range(9)]
    assert [axes[0].at(part[0]) for part in parts] == [("x",)] * 3 + [("y",)] * 3 + [("z",)] * 3
    assert drawn(axes, parts) == [(("x",),), (("y",),), (("z",),)]


def test_the_first_sobol_points_are_those_of_the_paper() -> None:
    """Joe and Kuo's table, in Gray code order: 0, 1/2, 3/4, 1/4, ... in the first dimension."""
    points = sobol_points(8, 3)
    assert [float(point[0]) for point in points] == [0, 0.5, 0.75, 0.25, 0.375, 0.875, 0.625, 0.125]
    assert [float(point[1]) for point in points] == [0, 0.5, 0.25, 0.75, 0.375, 0.875, 0.125, 0.625]
    assert [float(point[2]) for point in points] == [0, 0.5, 0.25, 0.75, 0.625, 0.125, 0.875, 0.375]


@pytest.mark.parametrize("seed", [0, 1, 12345])
@pytest.mark.parametrize("power", [3, 6, 9])
def test_sobol_points_fill_every_interval_of_every_axis(seed: int, power: int) -> None:
    """The property that makes them Sobol's: each of 2^k equal parts of an axis holds one of the first 2^k points."""
    points = sobol_points(1 << power, MAX_DIMENSIONS, seed)
    for axis in range(MAX_DIMENSIONS):
        assert sorted(int(point[axis] * (1 << power)) for point in points) == list(range(1 << power))


def test_the_first_pair_of_axes_is_a_net() -> None:
    """Dimensions 1 and 2 are a (0, 2)-sequence: every box of 2^a by 2^b parts with a + b = 6 holds one of 64 points."""
    points = sobol_points(64, 2, seed=7)
    for a in range(7):
        boxes = {(int(x * (1 << a)), int(y * (1 << (6 - a)))) for x, y in points}
        assert len(boxes) == 64


#: Of Python's Mersenne Twister, seeded with 1; the same on every machine and in every version.
RANDOM = ["0.134364", "0.569204", "0.847434", "0.802265"]


def test_samples_are_those_of_their_seed() -> None:
    assert sobol_points(20, 4, 3) == sobol_points(20, 4, 3) != sobol_points(20, 4, 4)
    assert sobol_points(20, 4, 3)[:10] == sobol_points(10, 4, 3)
    assert random_points(5, 2, 1) == random_points(5, 2, 1) != random_points(5, 2, 2)
    assert [f"{float(x):.6f}" for point in random_points(2, 2, 1) for x in point] == RANDOM
    with pytest.raises(ValueError, match="at most 21 axes here, and this sweep varies 22"):
        sobol_points(1, 22)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("dram.channels <= 2 * te.engines", True),
        ("dram.channels > te.engines + 1", True),
        ("dram.channels // 3 == 1 and dram.channels % 3 == 1", True),
        ("not (dram.channels == 4 or te.engines == 9)", False),
        ("te.engines in (1, 2, 3)", True),
        ("kv_layouts[0].bits == 4", True),
        ("target == 'gemm'", True),
        ("target not in ['gemm']", False),
        ("1 < te.engines < 3", True),
        ("rate * 3 == 1", True),  # exactly, though 1/3 is no float
        ("-te.engines < 0", True),
    ],
)
def test_a_condition_holds_for_values(text: str, holds: bool) -> None:
    values = {"dram.channels": 4, "te.engines": 2, "kv_layouts[0].bits": 4, "target": "gemm", "rate": "1/3"}
    assert Condition(text).holds(values) is holds


NONE = ["", "a(", "f(a) > 1", "a if b else c", "lambda: 1", "a ** 2 > 1", "[x for x in a]", "a[b] > 1", "a[1:2] > 0", "a := 1"]


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_condition(text: str) -> None:
    with pytest.raises(ValueError, match=RULE.split(",")[0].replace("+", r"\+")):
        Condition(text)


def test_values_that_do_not_fit_together() -> None:
    with pytest.raises(ValueError, match="it combines values of different kinds"):
        Condition("a < 1").holds({"a": "text"})
    with pytest.raises(ValueError, match="it divides by zero"):
        Condition("a / b < 1").holds({"a": 1, "b": 0})
