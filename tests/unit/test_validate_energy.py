"""The validation of energy: what is fitted, what is not, and that wrong prices are seen."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import pytest

from kernbench.validate.run import Runner
from kernbench.validate.suite import SuiteData, read_suite_data
from kernbench.validate.suites.energy import fitted, rows


@pytest.fixture(scope="module")
def data() -> SuiteData:
    return read_suite_data("energy")


def test_shares_of_each_network_add_up_and_only_two_rows_are_fitted(data: SuiteData) -> None:
    found = list(rows(data, Runner()))
    for net, layers in (("alexnet", 5), ("vgg16", 13)):
        of = [row for row in found if row.source == net]
        assert len(of) == layers and sum(F(row.expected) for row in of) == 100 == sum(F(row.ours) for row in of)  # type: ignore[arg-type]
    assert [row.case for row in found if row.allowed is None] == ["alexnet CONV1", "alexnet CONV5"]
    assert all(row.verdict != "fail" for row in found)


def test_the_fit_gives_the_energy_of_the_fitted_layers(data: SuiteData) -> None:
    mac_pj, static_mw = fitted(data)
    assert (float(mac_pj), float(static_mw)) == pytest.approx((1.49977, 177.337), rel=1e-5)
    macs, buffer = F("0.42") * (1 - F("0.0001")) * 1000, F("18.5") / 2
    assert static_mw * F("20.9") + mac_pj * (5 * macs + 6 * buffer) == 332 * F("20.9")


def test_prices_without_registers_are_outside(data: SuiteData) -> None:
    wrong = replace(data, facts={**(data.facts or {}), "register_accesses": 0})
    assert any(row.verdict == "fail" for row in rows(wrong, Runner()))
