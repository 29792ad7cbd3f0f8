"""What is shown of random runs: it fits schema and terminal, is the same by stepping and skipping, and adds up."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from kernbench import Machine, load_config, load_program
from kernbench.bounds import lower_bounds, summarise
from kernbench.cli.program import program_summary
from kernbench.cli.step import machine_state
from kernbench.cli.summary import run_summary
from kernbench.cmdq.dependencies import dependency_graph, dot_text, mermaid_text
from kernbench.sim_engine.json_schema import result_json_schema
from kernbench.sim_engine.result_look import result_html
from kernbench.sim_engine.summary import summarise_run
from tests.strategies import systems

SCHEMA = jsonschema.Draft202012Validator(result_json_schema())
System = tuple[dict[str, Any], dict[str, Any]]


def made(system: System) -> Machine:
    return Machine(load_config(system[0]), load_program(system[1]))


def lines_of(renderables: Any, width: int) -> list[str]:
    """The lines that come out on a terminal of this width."""
    page = StringIO()
    console = Console(file=page, width=width, highlight=False, markup=False, emoji=False)
    for renderable in renderables:
        console.print(renderable)
    return page.getvalue().split("\n")


@settings(max_examples=30, deadline=None)
@given(systems(), st.integers(0, 2500), st.sampled_from([80, 120]))
def test_states_are_the_same_by_stepping_and_skipping_and_fit(system: System, cycles: int, width: int) -> None:
    stepped, skipped, resumed = made(system), made(system), made(system)
    stepped.step(cycles)
    skipped.step(cycles, skip=True)
    half = made(system)
    half.step(cycles // 2, skip=True)
    resumed.restore(half.snapshot())
    resumed.step(cycles - cycles // 2)
    states = [json.dumps({**m.result().to_dict(), "engines": m.peek().to_dict()}) for m in (stepped, skipped, resumed)]
    assert states[0] == states[1] == states[2]
    SCHEMA.validate(json.loads(states[0]))
    assert all(len(line) <= width for line in lines_of(machine_state(stepped.peek(), "drawn", "machine"), width))


@settings(max_examples=30, deadline=None)
@given(systems(), st.sampled_from([80, 120]))
def test_summaries_fit_and_add_up(system: System, width: int) -> None:
    machine = made(system)
    machine.run()
    result = machine.result()
    SCHEMA.validate(result.to_dict())
    summary = summarise_run(result, machine.program, machine.plan)
    assert all(len(line) <= width for line in lines_of(run_summary(summary, width), width))
    assert all(engine.cycles == result.cycles for engine in summary.engines)
    assert result.status != "done" or summary.bound.cycles <= result.cycles
    lengths = [wait.cycles for wait in summary.waits]
    assert lengths == sorted(lengths, reverse=True) and all(0 < n <= result.cycles for n in lengths)
    for wait in summary.waits:
        assert wait.cycles == (result.cycles if wait.until is None else wait.until) - wait.since
    assert result_html(result).count("<table>") == 2


@settings(max_examples=30, deadline=None)
@given(systems())
def test_the_graph_agrees_with_the_bounds(system: System) -> None:
    machine = made(system)
    entries = machine.program.entries
    graph, bounds = dependency_graph(entries), lower_bounds(machine.program, machine.config)
    assert graph.depth == bounds.depth
    assert [entry.id for entry, level in zip(entries, graph.levels, strict=True) if level is None] == list(bounds.stuck)
    assert dot_text(entries, graph).count(" -> ") == mermaid_text(entries, graph).count("->") == len(graph.edges)
    summary = summarise(machine.program, machine.config)
    assert all(len(line) <= 80 for line in lines_of(program_summary(summary, graph, "machine", 80), 80))


@settings(max_examples=30, deadline=None)
@given(systems(), st.data())
def test_until_stops_where_a_stepped_run_first_sees_it(system: System, data: st.DataObject) -> None:
    stepped, skipped = made(system), made(system)
    number = data.draw(st.sampled_from(stepped.program.entries)).id
    until = data.draw(st.sampled_from(["stall", "conflict", f"start:{number}", f"end:{number}", "cycle:100"]))
    came = skipped.run(until)
    assert stepped.run(until, skip=False) == came
    assert (stepped.cycle, stepped.status) == (skipped.cycle, skipped.status)
    if until.startswith(("start", "end")):
        at = getattr(skipped.result().entry(number), until.partition(":")[0])
        assert came == (at is not None)
        if at is not None and until.startswith("start"):
            assert skipped.cycle == min(at + 1, skipped.result().cycles)
