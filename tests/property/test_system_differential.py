"""The core against the reference of systems, stepping against skipping and any mixture, and laws (docs/model/counters.md)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench import Machine, load_config, load_program
from kernbench.sim_engine.run.stops import WALKS
from tests.oracles.ref_system import simulate_system
from tests.system_rings import rings
from tests.system_roads import PlainRoads
from tests.systems_of_pes import System, systems_of_pes

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))


def assert_same(machine: Machine, want: dict[str, Any]) -> None:
    """A run is what the reference says; names of counters are in no particular order."""
    result = machine.result()
    got = result.to_dict()
    assert (got["status"], got["cycles"]) == (want["status"], want["cycles"])
    for ours, theirs in zip(got["entries"], want["entries"], strict=True):
        assert ours == theirs
    assert sorted(got["counters"]) == sorted(want["counters"])
    for name in want["counters"]:
        assert got["counters"][name] == want["counters"][name], name
    seen = [result.failure] if result.failure else [one for one in result.warnings if one["code"] == "OVERLAP"]
    assert [(one["cycle"], one["entry"], one["with"]) for one in seen] == want["overlaps"]


def check_system(system: System, data: st.DataObject) -> None:
    machine, program = system
    config, parsed = load_config(machine), load_program(program)
    want = simulate_system(machine, program, PlainRoads(config))

    plain = Machine(config, parsed, walk="plain")
    plain.run()
    assert_same(plain, want)

    stepped = Machine(config, parsed)
    stepped.run(skip=False)
    assert_same(stepped, want)

    skipped = Machine(config, parsed)
    skipped.run()
    assert_same(skipped, want)

    shuffled = Machine(config, parsed, walk=data.draw(st.sampled_from(WALKS), label="walk shuffled"))
    shuffled.shuffle_lists(data.draw(st.integers(1, 2**32 - 1), label="seed"))
    shuffled.run(skip=data.draw(st.booleans(), label="skip shuffled"))
    assert_same(shuffled, want)

    assert_same(run_in_pieces(config, parsed, want["cycles"], data), want)
    check_laws(want)


def check_rings(system: System, data: st.DataObject) -> None:
    """Too long for the reference: stepping and skipping against the plain model."""
    config, parsed = load_config(system[0]), load_program(system[1])
    plain = Machine(config, parsed, walk="plain")
    plain.run()
    want = plain.result().to_dict()

    stepped = Machine(config, parsed)
    stepped.run(skip=False)
    assert stepped.result().to_dict() == want
    assert stepped.snapshot() == plain.snapshot()

    skipped = Machine(config, parsed)
    skipped.shuffle_lists(data.draw(st.integers(0, 2**32 - 1), label="seed"))
    skipped.run()
    assert skipped.result().to_dict() == want
    assert run_in_pieces(config, parsed, want["cycles"], data).result().to_dict() == want


def run_in_pieces(config: Any, parsed: Any, cycles: int, data: st.DataObject) -> Machine:
    """Any cutting into pieces, with snapshots taken up by other machines on the way."""
    walks = st.sampled_from(WALKS)
    mixed = Machine(config, parsed, walk=data.draw(walks))
    for _ in range(data.draw(st.integers(1, 4), label="pieces")):
        mixed.step(data.draw(st.integers(1, max(1, cycles)), label="cycles"), skip=data.draw(st.booleans()))
        fresh = Machine(config, parsed, walk=data.draw(walks))
        fresh.restore(mixed.snapshot())
        assert fresh.snapshot() == mixed.snapshot()
        mixed.peek()
        mixed = fresh
    mixed.run(skip=data.draw(st.booleans()))
    return mixed


def check_laws(result: dict[str, Any]) -> None:
    """Conservation, from the result alone."""
    cycles = result["cycles"]
    moved = on_channels = 0
    for name, c in result["counters"].items():
        if name.endswith(".pe_tcm"):
            for requests, grants, denials in zip(c["requests"], c["grants"], c["denials"], strict=True):
                assert requests == grants + denials
        elif "idle" in c:
            assert c["busy"] + sum(c["stalled"].values()) + c["idle"] == cycles
            moved += c.get("bytes", 0)
        else:
            assert 0 <= c["busy"] <= min(cycles, c["member_cycles"])
            on_channels += c["bytes"] if ".hbm_ctrl.ch" in name and "-" not in name else 0
    assert on_channels <= moved  # the rest was between scratchpads, or in an SRAM
    if result["status"] == "done":
        assert cycles == max((entry["end"] for entry in result["entries"]), default=0)


@settings(RELAXED, max_examples=18)
@given(systems_of_pes(), st.data())
def test_core_equals_reference_on_systems(system: System, data: st.DataObject) -> None:
    """Issue, start and end of every entry and every counter, by stepping, by skipping, shuffled, and by any mixture."""
    check_system(system, data)


@pytest.mark.nightly
@settings(RELAXED, max_examples=2000)
@given(systems_of_pes(), st.data())
def test_core_equals_reference_on_systems_for_long(system: System, data: st.DataObject) -> None:
    check_system(system, data)


@settings(RELAXED, max_examples=42)
@given(rings(), st.data())
def test_long_transfers_between_scratchpads(system: System, data: st.DataObject) -> None:
    """Scratchpads that deny nothing for some time go over it at once, others beside them deny something."""
    check_rings(system, data)


@pytest.mark.nightly
@settings(RELAXED, max_examples=3000)
@given(rings(), st.data())
def test_long_transfers_between_scratchpads_for_long(system: System, data: st.DataObject) -> None:
    check_rings(system, data)
