"""Energy of random programs on random machines with random prices: the groups of every grouping add up exactly to the run."""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kernbench as kb
from kernbench.common.errors import InputError
from kernbench.trace.energy import GROUPINGS, ledger
from kernbench.trace.reader import open_trace
from tests.combined_strategies import combined_systems, combined_systems_of_pes
from tests.hard_strategies import changed
from tests.property.test_flit_machines import flit_systems
from tests.strategies import systems

RATES = st.fractions(0, 100, max_denominator=97).map(str)
PRICES = st.fixed_dictionaries(
    {
        "dram_pj_per_byte": RATES, "noc_pj_per_byte_hop": RATES, "spm_pj_per_byte": RATES, "ve_op_pj": RATES,
        "static_mw": RATES,
        "mac_pj": st.dictionaries(st.sampled_from([2, 4, 8, 16]), RATES, min_size=1),
    }
)  # fmt: skip
RELAXED: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def check_sums(system: tuple[dict[str, Any], dict[str, Any]], prices: dict[str, Any]) -> None:
    program, machine = sorted(system, key=lambda one: "cmdq" not in one)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "t.jsonl"
        config = kb.load_config({**machine, "energy": {**prices, "by_cause": True}})
        result = kb.run(kb.load_program(program), config, trace=file, trace_level="full").result
        said = result.metrics["energy_pj"]
        try:
            found, each = (ledger(open_trace(file), each=one) for one in (False, True))
        except InputError as error:  # accesses that are under way when a run stops are counted, but not in the trace
            assert result.status != "done" and "the run stopped while accesses were under way" in str(error)
            return
    assert float(found.total) == pytest.approx(said["total"], rel=1e-12)
    for grouping in GROUPINGS:
        shares = found.by(grouping)
        assert sum((share.pj for share in shares), Fraction(0)) == found.total, grouping
        assert all(sum(share.parts.values()) == share.pj for share in shares), grouping
        assert each.by(grouping) == shares


@settings(max_examples=15, **RELAXED)
@given(systems(), PRICES)
def test_groups_add_up_to_the_energy_of_the_run(
    system: tuple[dict[str, Any], dict[str, Any]], prices: dict[str, Any]
) -> None:
    check_sums(system, prices)


@settings(max_examples=10, **RELAXED)
@given(st.one_of(combined_systems(changed(None)), flit_systems(), combined_systems_of_pes()), PRICES)
def test_groups_add_up_with_caches_codecs_jobs_and_routers(
    system: tuple[dict[str, Any], dict[str, Any]], prices: dict[str, Any]
) -> None:
    check_sums(system, prices)


@pytest.mark.nightly
@settings(max_examples=2000, **RELAXED)
@given(systems(), PRICES)
def test_groups_add_up_in_many_programs(system: tuple[dict[str, Any], dict[str, Any]], prices: dict[str, Any]) -> None:
    check_sums(system, prices)
