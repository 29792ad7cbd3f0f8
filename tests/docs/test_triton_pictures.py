"""`docs/triton_pictures.py`: the cycles that are kept are those that the kernels of the guide take."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.docs.test_build import DOCS, part

pytestmark = pytest.mark.skipif(not (DOCS / "triton_pictures.py").exists(), reason="the documentation is not in this tree")


@pytest.fixture(scope="module")
def pictures() -> Any:
    return part("triton_pictures")


def test_points_that_are_kept_are_those_of_the_kernels(pictures: Any) -> None:
    kept = pictures.measured()
    assert {name: tuple(rows) for name, rows in kept.items()} == pictures.SIZES
    for name, size in (("softmax", 128), ("matmul", 128)):
        assert pictures.cycles_of(name, size) == kept[name][size], f"python docs/triton_pictures.py measures {name} again"


def test_the_guide_prints_points_of_the_picture(pictures: Any) -> None:
    lines = re.findall(r"^(\w+) +((?:\d+: +[\d,]+ ?)+)$", pictures.PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name, _ in lines] == list(pictures.SIZES)
    for name, points in lines:
        for size, cycles in re.findall(r"(\d+): +([\d,]+)", points):
            assert pictures.measured()[name][int(size)] == int(cycles.replace(",", ""))


def test_a_picture_has_a_line_for_each_kernel(pictures: Any) -> None:
    drawn = pictures.triton_pictures()
    assert set(drawn) == {"triton_cycles_light.svg", "triton_cycles_dark.svg"} and len(set(drawn.values())) == 2
    for text in drawn.values():
        assert all(f">{name}</text>" in text for name in pictures.SIZES)
