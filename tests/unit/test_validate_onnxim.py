"""`kbsim validate onnxim`: the product of ONNXim's mapping, and that a wrong array or a wrong DRAM is seen."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

from kernbench.validate.run import Options, Runner
from kernbench.validate.suite import read_suite_data
from kernbench.validate.suites import onnxim

DATA = read_suite_data("onnxim")


def rows(sizes: set[int], plant: dict[str, float]) -> dict[int, onnxim.Row]:
    cases = [case for case in DATA.cases if case["m"] == case["k"] == case["n"] and case["m"] in sizes]
    slower = {engine: Fraction(str(factor)) for engine, factor in plant.items()}
    found = onnxim.rows(replace(DATA, cases=tuple(cases)), Runner(Options(), slower))
    return {case["m"]: row for case, row in zip(cases, found, strict=True)}


@pytest.mark.parametrize(("size", "plant"), [(1024, {"te": 1.2}), (1024, {"dram": 1.3}), (512, {"te": 1.1})])
def test_a_product_takes_what_onnxim_says_and_a_slower_part_is_seen(size: int, plant: dict[str, float]) -> None:
    assert rows({size}, {})[size].verdict == "pass"
    assert rows({size}, plant)[size].verdict == "fail"


def test_the_overlap_of_products_matters() -> None:
    """Without it, 16 products of 128 x 128 x 512 fill and drain the array one by one."""
    exposed = {**DATA.fact("machine"), "te": {**DATA.fact("machine")["te"], "drain": "exposed"}}
    (case,) = [case for case in DATA.cases if case["m"] == case["k"] == case["n"] == 512]
    (row,) = onnxim.rows(replace(DATA, cases=(case,), facts={**(DATA.facts or {}), "machine": exposed}), Runner(Options(), {}))
    assert row.error > Fraction(1, 3)


@pytest.mark.parametrize(
    ("shape", "cores", "tiles"),
    [((512, 512, 512), 1, 1), ((1024, 1024, 1024), 4, 4), ((512, 512, 4096), 4, 11), ((100, 70, 100), 1, 1)],
)
def test_a_product_has_the_cores_tiles_and_multiply_adds_of_the_mapping(
    shape: tuple[int, int, int], cores: int, tiles: int
) -> None:
    m, k, n = shape
    entries = onnxim.product_program(m, k, n, DATA).to_dict()["cmdq"]
    jobs = [entry for entry in entries if "m" in entry]
    assert {job.get("te_id", 0) for job in jobs} == set(range(cores))
    assert sum(job["m"] * job["n"] * job["k"] for job in jobs) == m * k * n
    stores = [entry for entry in entries if entry["opcode"] == "DMA_STORE_TILE"]
    assert sum(store["rows"] * store["row_elements"] for store in stores) == m * n
    assert len(stores) == len(jobs)
    height, width = onnxim._Mapping(m, k, n, DATA).tile()
    assert Counter(True for _ in range(0, m, height) for _ in range(0, n, width)) == {True: tiles}
