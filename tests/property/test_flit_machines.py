"""Machines whose transfers move over routers: the core against a reference written from docs/model/flit_transfers.md."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench import Machine, load_config, load_program
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.reader import open_trace
from kernbench.trace.validate import validate
from kernbench.trace.why import explain
from tests.machine_strategies import Draw, drawn_routers, machines
from tests.oracles.ref_flit_transfers import FlitSimulation, FlitSystem, Routed, simulate_flits
from tests.oracles.ref_machine import completed
from tests.property.test_differential import assert_same, outcome
from tests.property.test_system_differential import assert_same as assert_same_system
from tests.property.test_why import check_commands, check_path
from tests.strategies import programs
from tests.system_roads import PlainRoads, mesh_of
from tests.systems_of_pes import systems_of_pes

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
System = tuple[dict[str, Any], dict[str, Any]]


@st.composite
def flit_systems(draw: Draw) -> System:
    """A machine with a mesh of routers, and a program."""
    machine = draw(machines().filter(lambda one: "noc" in one))
    noc, spm = machine["noc"], machine.get("spm", {})
    noc |= {"model": "flit", "flit": drawn_routers(draw, spm.get("bank_width_bytes", 16), noc.get("link_bytes_per_cycle", 64))}
    return machine, draw(programs(machine))


def check(system: System) -> None:
    machine, program = system
    config, parsed = load_config(machine), load_program(program)
    want = simulate_flits(machine, program)
    whole, stepped = Machine(config, parsed), Machine(config, parsed)
    whole.run()
    assert_same(outcome(whole), want)
    while stepped.status == "running":
        stepped.step(7)
        stepped.peek()
    assert_same(outcome(stepped), want)


@settings(RELAXED, max_examples=6)
@given(flit_systems())
def test_core_equals_reference(system: System) -> None:
    check(system)


@pytest.mark.nightly
@settings(RELAXED, max_examples=2000)
@given(flit_systems())
def test_core_equals_reference_for_long(system: System) -> None:
    check(system)


@st.composite
def flit_systems_of_pes(draw: Draw) -> System:
    """A system of cubes with routers, and a program."""
    system, program = draw(systems_of_pes())
    system["max_cycles"] = min(system.get("max_cycles", 3000), 3000)
    mesh = system["cube"]["mesh"]
    width, link = system["pe"].get("spm", {}).get("bank_width_bytes", 16), mesh["link"].get("bytes_per_cycle", 128)
    mesh |= {"model": "flit", "flit": drawn_routers(draw, width, link, 2)}
    return system, program


def check_of_pes(system: System) -> None:
    machine, program = system
    config, parsed = load_config(machine), load_program(program)
    reference = FlitSystem(machine, program, PlainRoads(config), *mesh_of(config))
    want = {**reference.run(), "overlaps": sorted(reference.overlaps)}
    whole = Machine(config, parsed)
    whole.run()
    assert_same_system(whole, want)
    everything = Machine(config, parsed, whole=True)  # with the routes of every PE
    everything.shuffle_lists(7)
    everything.run()
    assert (everything.status, everything.result().cycles) == (want["status"], want["cycles"])


@settings(RELAXED, max_examples=2)
@given(flit_systems_of_pes())
def test_systems_equal_reference(system: System) -> None:
    check_of_pes(system)


@pytest.mark.nightly
@settings(RELAXED, max_examples=1000)
@given(flit_systems_of_pes())
def test_systems_equal_reference_for_long(system: System) -> None:
    check_of_pes(system)


@settings(RELAXED, max_examples=10)
@given(st.one_of(flit_systems(), flit_systems_of_pes()), st.sampled_from([4, 64]))
def test_traces_keep_the_laws_and_every_wait_has_a_cause(
    tmp_path_factory: pytest.TempPathFactory, system: System, window: int
) -> None:
    file = tmp_path_factory.mktemp("flits") / "t.jsonl"
    made = Machine(load_config(system[0]), load_program(system[1]))
    with file.open("wb") as sink:
        tracing = made.trace(sink, TraceOptions("full", window))
        made.run()
        tracing.close()
    report = validate(open_trace(file))
    assert report.valid, report.violations
    why = explain(open_trace(file))
    check_path(why)
    check_commands(why.history, routers=True)


WINDOW = 8


def traced_depths(machine: dict[str, Any], program: dict[str, Any]) -> list[tuple[Any, ...]]:
    """(last cycle, unit, depth, flit-cycles, packets) of each sample of a router's buffer."""
    made, sink = Machine(load_config(machine), load_program(program)), io.BytesIO()
    tracing = made.trace(sink, TraceOptions(level="full", window=WINDOW))
    made.run()
    tracing.close()
    events = [json.loads(line) for line in sink.getvalue().splitlines()]
    found = [event for event in events if event["event_type"] == "NOC_QUEUE_DEPTH"]
    return sorted((e["t_cycle"], e["unit"], e["depth"], e["flit_cycles"], e.get("packets", 0)) for e in found)


def depths_of(reference: Routed, fillers: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The same, from the state of the reference after each cycle. `fillers`: by unit, the input that it fills."""
    reference.run()
    found, cycles = [], len(reference.depths)
    for begin in range(0, cycles, WINDOW):
        window = reference.depths[begin : begin + WINDOW]
        held, queues = window[-1]
        for unit, at in fillers.items():
            passed, waiting = sum(sum(one[at]) for one, _ in window), queues.get(at, 0)
            if passed or waiting:
                found.append((begin + len(window) - 1, unit, held[at], passed, waiting))
    return sorted(found)


@settings(RELAXED, max_examples=3)
@given(flit_systems())
def test_depths_of_buffers_in_traces_equal_the_reference(system: System) -> None:
    machine, program = system
    reference = FlitSimulation(completed(machine), program)
    links = {name: wire.behind for at, name in reference.names.items() if (wire := reference.net.wires[at]).behind}
    assert traced_depths(machine, program) == depths_of(reference, links | reference.port)


@settings(RELAXED, max_examples=2)
@given(flit_systems_of_pes())
def test_depths_of_buffers_of_systems_equal_the_reference(system: System) -> None:
    machine, program = system
    reference = FlitSystem(machine, program, PlainRoads(load_config(machine)), *mesh_of(load_config(machine)))
    links = {name: reference.net.wires[at].behind for name, at in reference.side.items()}
    terminals = {f"{name}-{router}": (router, port) for (router, name), port in reference.port.items()}
    assert traced_depths(machine, program) == depths_of(reference, links | terminals)
