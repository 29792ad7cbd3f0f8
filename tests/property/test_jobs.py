"""A micro-scheduler divides commands into jobs: cycles, counters and traces against the reference (docs/model/jobs.md)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench import Machine, load_config, load_program
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.reader import open_trace
from kernbench.trace.validate import validate
from kernbench.trace.why import explain
from tests.combined_strategies import give_jobs
from tests.oracles import ref_jobs
from tests.property.test_differential import RELAXED, System, assert_same, outcome
from tests.property.test_trace import trace_of
from tests.property.test_why import check_commands, check_path
from tests.strategies import systems

ONCE = ("CMD_ENQUEUE", "CMD_START", "CMD_END", "IRQ_EMIT", "TOKEN_COMPLETE", "MARKER")


@st.composite
def systems_with_jobs(draw: Any) -> System:
    """A machine with a micro-scheduler of small tiles and chunks, and a program."""
    machine, program = draw(systems())
    give_jobs(draw, machine, program)
    return machine, program


def check(system: System, data: st.DataObject) -> None:
    machine, program = system
    want = ref_jobs.simulate(machine, program)
    config, parsed = load_config(machine), load_program(program)
    for walk, skip in (("plain", True), ("fast", True), ("fast", False)):
        run = Machine(config, parsed, walk=walk)
        run.run(skip=skip)
        assert_same(outcome(run), want)
    assert run.bounds.cycles <= want["cycles"] or want["status"] != "done"
    again = Machine(config, parsed)
    again.step(data.draw(st.integers(1, max(1, want["cycles"])), label="cycles"), skip=True)
    fresh = Machine(config, parsed)
    fresh.restore(again.snapshot())
    fresh.peek()
    fresh.run()
    assert_same(outcome(fresh), want)


@settings(RELAXED, max_examples=15)
@given(systems_with_jobs(), st.data())
def test_jobs_are_those_of_the_reference(system: System, data: st.DataObject) -> None:
    check(system, data)


@pytest.mark.nightly
@settings(RELAXED, max_examples=3000)
@given(systems_with_jobs(), st.data())
def test_jobs_are_those_of_the_reference_for_long(system: System, data: st.DataObject) -> None:
    check(system, data)


@settings(RELAXED, max_examples=15)
@given(systems_with_jobs(), st.sampled_from(["summary", "full", "access"]))
def test_traces_are_those_of_a_program_of_jobs(tmp_path_factory: pytest.TempPathFactory, system: System, level: str) -> None:
    """Each event of a job names the command, events of commands are there once, and the trace keeps all laws."""
    machine, program = system
    machine["spm"] = {**machine.get("spm", {}), "check_overlap": "none"}
    for entry in program["cmdq"]:
        entry.pop("tile_id", None)
    of_jobs, spans = ref_jobs.divided(machine, program)
    options = TraceOptions(level, 64)
    lines = trace_of(system, options)
    got = [json.loads(line) for line in lines]
    if got[-1]["status"] == "done":  # what is open at the end is told by command
        plain = {**of_jobs, "cmdq": [{k: v for k, v in one.items() if k != "partial"} for one in of_jobs["cmdq"]]}
        partial = any(one.get("partial") for one in of_jobs["cmdq"])
        if not partial:  # a program cannot say that a job has no output
            want = [json.loads(line) for line in trace_of((ref_jobs.without(machine), plain), options)]
            assert _of_jobs(got) == _of_commands(want, program, of_jobs, spans)
    file = tmp_path_factory.mktemp("jobs") / "run.jsonl"
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    report = validate(open_trace(file))
    assert report.valid, report.violations
    if level != "summary":
        why = explain(open_trace(file))
        check_path(why)
        check_commands(why.history)


def _of_jobs(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what a program of jobs does not have."""
    left_out = {"m", "n", "k", "tile_id", "vec_chunk_id"}
    some = [event for event in events[1:-1] if event["event_type"] != "CMD_ENQUEUE"]
    return [{name: value for name, value in event.items() if name not in left_out} for event in some]


def _of_commands(
    events: list[dict[str, Any]], program: dict[str, Any], of_jobs: dict[str, Any], spans: list[list[int]]
) -> list[dict[str, Any]]:
    """The events of a program of jobs, as those of its commands."""
    command = {of_jobs["cmdq"][at]["id"]: (k, at) for k, span in enumerate(spans) for at in span}
    found = []
    for event in _of_jobs(events):
        k, at = command.get(event.get("cmd_id", -1), (-1, -1))
        kind = event["event_type"]
        if k >= 0 and kind in ONCE and at != spans[k][0 if kind == "CMD_START" else -1]:
            continue
        found.append(event | ({"cmd_id": program["cmdq"][k].get("id", k)} if k >= 0 else {}))
    return found
