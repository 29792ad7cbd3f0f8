"""The cycles of a run beyond its largest bound: each has one reason, by hand on small timelines."""

from __future__ import annotations

from collections import Counter

import pytest

from kernbench.workloads.graphs.beyond import Job, excess_causes

OPS = ["Conv", "Relu"]
ENDS = [60, 100]
#: Two vector engines. Conv: a load, two copies of which one is longer, a product. Relu: one job, after a gap of 10 cycles.
JOBS = [
    Job("dma", 0, 0, 10),
    Job("ve", 0, 10, 30, body=12, ends=6),
    Job("ve", 0, 10, 34, body=16, ends=6),
    Job("te", 0, 34, 60, body=20, ends=6),
    Job("ve", 1, 70, 100, body=24, ends=6),
]  # fmt: skip


def found(kind: str, bound: int, engines: int, needed: dict[int, int]) -> dict[str, tuple[int, str]]:
    parts = excess_causes(kind, bound, engines, JOBS, ENDS, Counter(needed), OPS)
    assert sum(part.cycles for part in parts) == ENDS[-1] - bound
    assert [part.cycles for part in parts] == sorted((part.cycles for part in parts), reverse=True)
    return {part.reason: (part.cycles, part.op) for part in parts}


def test_vector_engines() -> None:
    """Of 52 engine cycles of bodies, 40 are necessary."""
    assert found("ve", 20, 2, {0: 16, 1: 24}) == {
        "te": (26, "Conv"),  # from 34 to 60
        "uneven": (17, "Relu"),  # 4 of one engine from 30 to 34, and 30 from 70 to 100
        "dma": (10, "Conv"),
        "none": (10, "Relu"),
        "ends": (9, "Conv"),
        "work": (6, "Conv"),
        "waits": (2, "Conv"),  # 2 cycles of each copy
    }


def test_tensor_engines() -> None:
    assert found("te", 15, 1, {0: 15}) == {
        "ve": (54, "Relu"), "dma": (10, "Conv"), "none": (10, "Relu"), "ends": (6, "Conv"), "work": (5, "Conv"),
    }  # fmt: skip


def test_the_dram() -> None:
    """All transfers share the DRAM: what counts is whether one is active."""
    assert found("dma", 4, 1, {}) == {"ve": (54, "Relu"), "te": (26, "Conv"), "none": (10, "Relu"), "work": (6, "Conv")}


@pytest.mark.parametrize(("reason", "count"), [("ends", 3), ("waits", 3), ("te", 0)])
def test_reasons_inside_of_jobs_count_them(reason: str, count: int) -> None:
    parts = excess_causes("ve", 20, 2, JOBS, ENDS, Counter({0: 16, 1: 24}), OPS)
    assert next(part.jobs for part in parts if part.reason == reason) == count


def test_a_fraction_of_a_cycle_is_in_the_largest_part() -> None:
    parts = excess_causes("ve", 19, 2, JOBS, ENDS, Counter({0: 15, 1: 24}), OPS)
    assert sum(part.cycles for part in parts) == 81 and parts[0].cycles == 27
