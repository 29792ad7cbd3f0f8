"""Perturbed runs of programs against a reference written from docs/model/perturbed_runs.md, in both walks."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench import Machine, load_config, load_program
from kernbench.sim_engine.perturbation import Perturbed, Ranges, SeededDraws, perturbed
from tests.addition_strategies import npus_with_every_addition, systems_with_every_addition
from tests.machine_strategies import Draw
from tests.oracles.ref_perturbed import Draws, simulate_perturbed, simulate_perturbed_system
from tests.property.test_differential import assert_same, outcome
from tests.property.test_system_differential import assert_same as assert_same_system
from tests.reached import has_routers
from tests.sampled import sampled_from
from tests.strategies import systems
from tests.system_roads import PlainRoads, mesh_of
from tests.systems_of_pes import systems_of_pes

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
Case = tuple[dict[str, Any], dict[str, Any], Draws]
DRAWS = st.builds(
    Draws,
    st.integers(0, 2**64 - 1),
    sampled_from([0, 7, 60]),
    sampled_from([0, 5, 100]),
    sampled_from([Fraction(1, 4), Fraction(1, 3)]),
)


@st.composite
def npu_cases(draw: Draw) -> Case:
    machine, program = draw(st.one_of(systems(), npus_with_every_addition()))
    return machine, program, draw(DRAWS)


@st.composite
def system_cases(draw: Draw) -> Case:
    system, program = draw(st.one_of(systems_of_pes(), systems_with_every_addition()))
    return system, program, draw(DRAWS)


def runs(case: Case) -> list[Machine]:
    """Plain, stepped and skipped."""
    machine, program, draws = case
    config, parsed = load_config(machine), load_program(program)
    ranges = Ranges(draws.latency, draws.start, draws.slowest)
    found = []
    for how, skip in ((None, False), ("fast", False), ("fast", True)):
        with perturbed(Perturbed(SeededDraws(draws.seed, ranges), ranges)):
            made = Machine(config, parsed, walk=how or "plain")
        made.run(skip=skip)
        found.append(made)
    return found


def check_npu(case: Case) -> None:
    want = simulate_perturbed(*case)
    for made in runs(case):
        assert_same(outcome(made), want)


def check_of_system(case: Case) -> None:
    system, program, draws = case
    config = load_config(system)
    mesh = mesh_of(config) if has_routers(system) else ()
    want = simulate_perturbed_system(system, program, PlainRoads(config), draws, mesh)
    for made in runs(case):
        assert_same_system(made, want)


@settings(RELAXED, max_examples=40)
@given(npu_cases())
def test_perturbed_programs_take_the_cycles_of_the_reference(case: Case) -> None:
    check_npu(case)


@settings(RELAXED, max_examples=20)
@given(system_cases())
def test_perturbed_programs_of_systems_take_the_cycles_of_the_reference(case: Case) -> None:
    check_of_system(case)


@pytest.mark.nightly
@settings(RELAXED, max_examples=3000)
@given(st.one_of(npu_cases()))
def test_perturbed_programs_take_the_cycles_of_the_reference_for_long(case: Case) -> None:
    check_npu(case)


@pytest.mark.nightly
@settings(RELAXED, max_examples=2000)
@given(system_cases())
def test_perturbed_programs_of_systems_take_the_cycles_of_the_reference_for_long(case: Case) -> None:
    check_of_system(case)
