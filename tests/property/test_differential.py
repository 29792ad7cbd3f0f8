"""The core, plain and fast, against the reference written from docs/model alone, and the laws of docs/model/counters.md."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from kernbench import Machine, load_config, load_program
from kernbench.sim_engine.run.stops import WALKS
from tests.oracles import reference
from tests.strategies import systems

System = tuple[dict[str, Any], dict[str, Any]]
RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))


def outcome(machine: Machine) -> dict[str, Any]:
    """What the reference also says of a run."""
    result = machine.result().to_dict()
    return {key: result[key] for key in ("status", "cycles", "entries", "counters")}


def assert_same(got: dict[str, Any], want: dict[str, Any]) -> None:
    assert (got["status"], got["cycles"]) == (want["status"], want["cycles"])
    for ours, theirs in zip(got["entries"], want["entries"], strict=True):
        assert ours == theirs
    assert list(got["counters"]) == list(want["counters"])
    for name in want["counters"]:
        assert got["counters"][name] == want["counters"][name], name


def check_system(system: System, data: st.DataObject) -> None:
    machine, program = system
    config, parsed = load_config(machine), load_program(program)
    want = reference.simulate(machine, program)

    plain = Machine(config, parsed, walk="plain")
    plain.run()
    assert_same(outcome(plain), want)

    stepped = Machine(config, parsed)
    stepped.run(skip=False)
    assert_same(outcome(stepped), want)

    skipped = Machine(config, parsed)
    skipped.run()
    assert_same(outcome(skipped), want)
    assert plain.snapshot() == stepped.snapshot() == skipped.snapshot()

    looked = [Machine(config, parsed, walk=walk) for walk in WALKS]
    cycle = data.draw(st.integers(1, max(1, want["cycles"])), label="looked at in cycle")
    for one, skip in zip(looked, (False, data.draw(st.booleans(), label="skip")), strict=True):
        one.step(cycle, skip=skip)
    assert looked[0].peek() == looked[1].peek()

    # Any cutting into pieces, with snapshots taken up by other machines on the way, is the same run.
    walks = st.sampled_from(WALKS)
    mixed = Machine(config, parsed, walk=data.draw(walks))
    for _ in range(data.draw(st.integers(1, 4), label="pieces")):
        mixed.step(data.draw(st.integers(1, max(1, want["cycles"])), label="cycles"), skip=data.draw(st.booleans()))
        fresh = Machine(config, parsed, walk=data.draw(walks))
        fresh.restore(mixed.snapshot())
        assert fresh.snapshot() == mixed.snapshot()
        mixed.peek()
        mixed = fresh
    mixed.run(skip=data.draw(st.booleans()))
    assert_same(outcome(mixed), want)
    check_laws(machine, want)


def check_laws(machine: dict[str, Any], result: dict[str, Any]) -> None:
    """Conservation, from the result alone."""
    cycles = result["cycles"]
    moved = channels = 0
    for name, c in result["counters"].items():
        if name == "spm":
            for requests, grants, denials in zip(c["requests"], c["grants"], c["denials"], strict=True):
                assert requests == grants + denials
        elif "idle" in c:
            assert c["busy"] + sum(c["stalled"].values()) + c["idle"] == cycles
            moved += c.get("bytes", 0)
        else:
            assert 0 <= c["busy"] <= min(cycles, c["member_cycles"]) or c["busy"] == c["member_cycles"] == 0
            channels += c["bytes"] if name.startswith("dram") else 0
    cache = result["counters"].get("llc")
    if cache is None:
        assert moved == channels or (machine["dma"].get("codecs") and channels <= moved)
    else:  # what is written back is of no engine, and what hits is on no channel
        assert cache["bytes"] >= moved and cache["bytes"] >= channels
        assert cache["hit_bytes"] + cache["miss_bytes"] >= moved
    for entry in result["entries"]:
        times = [entry[key] for key in ("issue", "start", "end")]
        known = [t for t in times if t is not None]
        assert known == sorted(known) and times[: len(known)] == known
    if result["status"] == "done":
        assert cycles == max((entry["end"] for entry in result["entries"]), default=0)


@settings(RELAXED, max_examples=24)
@given(systems(), st.data())
def test_core_equals_reference(system: System, data: st.DataObject) -> None:
    """Issue, start and end of every entry and every counter, by stepping, by skipping and by any mixture."""
    check_system(system, data)


@pytest.mark.nightly
@settings(RELAXED, max_examples=5000)
@given(systems(), st.data())
def test_core_equals_reference_for_long(system: System, data: st.DataObject) -> None:
    check_system(system, data)


@settings(RELAXED, max_examples=20)
@given(systems())
def test_lower_bounds_hold(system: System) -> None:
    """No run that is done ends before its bound."""
    machine, program = system
    run = Machine(load_config(machine), load_program(program))
    run.run()
    result = run.result()
    note(str(result.metrics["bounds"]))
    if result.status == "done":
        assert result.cycles >= result.metrics["bounds"]["cycles"]
