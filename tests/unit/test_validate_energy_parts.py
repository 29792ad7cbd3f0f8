"""The validation of energy by component: shares of published models, what is not priced, and that wrong counts are seen."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F
from typing import Any

import pytest

from kernbench.validate.page import cells
from kernbench.validate.run import Runner
from kernbench.validate.suite import Row, SuiteData, read_suite_data
from kernbench.validate.suites.energy_parts import energies, refetched, rows, work


@pytest.fixture(scope="module")
def data() -> SuiteData:
    return read_suite_data("energy_parts")


def of_one(data: SuiteData, name: str, **facts: Any) -> list[Row]:
    """The rows of one case, by other facts."""
    cases = tuple(case for case in data.cases if case["name"] == name)
    return list(rows(replace(data, cases=cases, facts={**(data.facts or {}), **facts}), Runner()))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("eyeriss convolution", ["shared_glb, all accesses", "psum_spad, all accesses"]),
        ("tpu_v4i gpt3-175b prefill", ["GlobalBuffer"]),
        ("tpu_v4i gpt3-175b decode", ["GlobalBuffer"]),
        ("fp16 llama-2-7b decode", []),
        ("bitmod opt-1.3b decode", []),
    ],
)
def test_shares_add_up_and_are_inside(data: SuiteData, name: str, told: list[str]) -> None:
    found = of_one(data, name)
    judged = [row for row in found if row.allowed is not None]
    for values in ([row.ours for row in judged], [row.expected for row in judged]):
        assert float(sum(F(value) for value in values)) == pytest.approx(100)  # type: ignore[arg-type]
    assert {row.verdict for row in judged} == {"pass"}
    assert [row.case for row in found if row.allowed is None] == [f"{name}: {one}" for one in told]


def test_accesses_that_the_published_model_leaves_out_are_shown_but_not_judged(data: SuiteData) -> None:
    """The sums that leave a buffer: all outputs in shared_glb, a third of the sums in psum_spad."""
    found = {row.case.removeprefix("eyeriss convolution: "): row for row in of_one(data, "eyeriss convolution")}
    for name in ("shared_glb", "psum_spad"):
        counted, whole = found[name], found[f"{name}, all accesses"]
        assert whole.expected == counted.expected and whole.verdict == "info" and whole.allowed is None
        assert abs(counted.error) < 0.01 and whole.error == pytest.approx(0.19, abs=0.01)


def test_counts_of_eyeriss_are_those_of_the_published_statistics(data: SuiteData) -> None:
    """Scalar accesses of timeloop-mapper.stats.txt: with 1 pJ for each, the energy of a component is their number."""
    chip = data.fact("accelerators")["eyeriss"]
    kinds = {"inputs read": 1354752, "inputs write": 157296, "outputs write": 401408, "outputs read": 401408}
    kinds |= {"weights write": 13824}
    rules = {name: [{"part": "spm", "tensor": name.split()[0], "action": name.split()[1], "pj": 1}] for name in kinds}
    (case,) = (case for case in data.cases if case["name"] == "eyeriss convolution")
    rules |= {"macs": [{"part": "mac", "pj": 1}], "dram": [{"part": "dram", "pj": 1}]}
    counts, _ = energies(case, {**chip, "components": rules, "left_out": {}}, Runner())
    assert counts == kinds | {"macs": 10838016, "dram": 13824 + 157296 + 401408}


def test_difference_in_points_is_given_for_shares_alone(data: SuiteData) -> None:
    row = Row(case="c", source="s", expected=20, ours=25, unit="% of the energy", allowed=1, why="w")
    assert (row.error, row.points, row.to_dict()["points"]) == (F(1, 4), 5, 5.0) and cells(row)[5] == "+25% (+5.0)"
    assert replace(row, unit="cycles").points is None and "points" not in replace(row, unit="cycles").to_dict()


def test_share_is_outside_if_an_access_has_another_price(data: SuiteData) -> None:
    chips = data.fact("accelerators")
    dear = {**chips["eyeriss"], "components": {**chips["eyeriss"]["components"], "DRAM": [{"part": "dram", "pj": 128}]}}
    found = of_one(data, "eyeriss convolution", accelerators={**chips, "eyeriss": dear})
    assert "fail" in {row.verdict for row in found}


def test_every_case_names_a_chip_a_source_and_all_components(data: SuiteData) -> None:
    for case in data.cases:
        components = data.fact("accelerators")[case["chip"]]["components"]
        assert case["source"] in data.sources and components.keys() <= case["published"].keys()
    assert {case["source"] for case in data.cases} == {"eyeriss", "tpu_v4i", "bitmod"}


def test_tensor_that_costs_fewer_bytes_comes_again_if_neither_fits() -> None:
    buffers = {"inputs": 512, "weights": 512}
    assert refetched(F(512), F(10**6), buffers) == (1, 1) == refetched(F(10**6), F(10**6), None)
    assert refetched(F(1024), F(4096), buffers) == (1, 2)  # 2 * 4096 + 1024 bytes, less than 8 * 1024 + 4096
    assert refetched(F(4096), F(1024), buffers) == (2, 1)


def test_work_of_a_product_by_hand() -> None:
    product = {"mkn": [100, 10, 70], "count": 2}
    chip = {"bits": 16, "array": {"m": 64, "n": 32}}
    found = work({}, chip, product)
    assert (found.shape, found.jobs) == ((64, 32, 10), 12)
    assert (found.inputs, found.weights, found.outputs) == (2 * 2000, 2 * 1400, 2 * 14000)
    assert work({}, chip, {"mkn": [1, 10, 70]}).shape == (1, 32, 10)
    assert work({}, {**chip, "idle_lanes": True}, {"mkn": [1, 10, 70]}).shape == (64, 32, 10)
