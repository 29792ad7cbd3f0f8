"""`kbsim validate onnxim`: the product of ONNXim's mapping, and that a wrong array or a wrong DRAM is seen."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kernbench.validate.run import Options, Runner
from kernbench.validate.suite import read_suite_data
from kernbench.validate.suites import onnxim

DATA = read_suite_data("onnxim")


@pytest.mark.parametrize(("plant", "verdict"), [({}, "pass"), ({"te": 1.2}, "fail"), ({"dram": 1.3}, "fail")])
def test_the_product_takes_what_onnxim_says(plant: dict[str, float], verdict: str) -> None:
    slower = {engine: Fraction(str(factor)) for engine, factor in plant.items()}
    (row,) = onnxim.rows(DATA, Runner(Options(), slower))
    assert row.verdict == verdict


@pytest.mark.parametrize(("size", "cores"), [(512, 1), (1024, 4)])
def test_a_product_has_the_cores_and_the_multiply_adds_of_the_mapping(size: int, cores: int) -> None:
    jobs = [entry for entry in onnxim.product_program(size, DATA).to_dict()["cmdq"] if "m" in entry]
    assert {job.get("te_id", 0) for job in jobs} == set(range(cores))
    assert sum(job["m"] * job["n"] * job["k"] for job in jobs) == size**3
