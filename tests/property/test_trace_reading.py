"""Every reference trace keeps the laws, its metrics are the simulator's counters, and no damage crashes a reader."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from kernbench.cli.trace.summary import trace_summary
from kernbench.cmdq import load_program
from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace import Metrics, metrics, open_trace
from kernbench.trace.metric.figures import StageMetrics
from kernbench.trace.metric.tables import csv_text, rows, to_dict
from kernbench.trace.validate import validate
from kernbench.trace.writer import TraceFile
from tests.oracles.ref_metrics import ReferenceMetrics, reference_energy
from tests.oracles.ref_trace import reference_trace
from tests.trace_samples import lawful, lines
from tests.trace_systems import Event, named, parsed, traced_systems

System = tuple[dict[str, Any], dict[str, Any]]
RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
KINDS = ("DMA", "TE", "VE")
TABLES = ("engines", "transfers", "channels", "links", "banks", "phases", "layers", "stalls", "tokens", "roofline")
SHARES = ("utilisation", "occupancy", "conflict_rate", "denial_rate")
RUNS = (traced_systems(), st.sampled_from(["summary", "full", "access"]), st.sampled_from([1, 7, 64, 1024]))
NONSENSE = [-1, 0, 2**63 - 1, 10**40, 1.5, 1e300, "", "x", "1/3", "\x1b[2J", True, None, [], [[]], {}, {"a": 1}, [1, "x"]]
UNTIL = st.none() | st.integers(1, 400)


def check_counters(found: Metrics, end: Event) -> None:
    """Engines, channels, links, banks, waits in queues and energy are those of TRACE_END."""
    for engine in found.engines:
        said = end["counters"][engine.unit]
        split = (engine.busy, engine.bank_conflict, engine.backpressure, engine.idle, engine.jobs)
        stalled = said["stalled"]
        assert split == (
            said["busy"], stalled["bank_conflict"], stalled.get("backpressure", 0), said["idle"], said["jobs"])  # fmt: skip
        if engine.kind != "DMA" or end["status"] == "done":
            assert engine.work == said[{"DMA": "bytes", "TE": "macs", "VE": "ops"}[engine.kind]]
        for reason in ("queue_full", "priority_deferred"):
            waits = [stall.cycles for stall in found.stalls if (stall.unit, stall.reason) == (engine.unit, reason)]
            assert sum(waits) == said.get(reason, 0)
    unused = {"bytes": 0, "busy": 0, "member_cycles": 0}
    for channel in (*found.channels, *found.links):
        said = end["counters"].get(channel.unit, unused)
        assert (channel.bytes, channel.busy, channel.members) == (said["bytes"], said["busy"], said["member_cycles"])
    if found.banks.requests:
        assert (found.banks.requests, found.banks.denials) == tuple(
            end["counters"]["spm"][key] for key in ("requests", "denials"))  # fmt: skip
    assert found.energy_pj["total"] == sum(Fraction(repr(end["energy_pj"][p])) for p in end["energy_pj"] if p != "total")


def check_figures(found: Metrics, events: list[Event]) -> None:
    """Every figure is that of the oracle, which has none that we have not."""
    figures = {row[:3]: Fraction(row.exact) for row in rows(found) if row.table in TABLES and row.value is not None}
    expected = ReferenceMetrics(events).found
    wrong = {name: (figures.get(name), expected.get(name)) for name in {**figures, **expected}}
    assert {name: pair for name, pair in wrong.items() if pair[0] != pair[1]} == {}
    shares = [value for (_, _, metric), value in figures.items() if metric in SHARES]
    assert all(0 <= share <= 1 for share in shares)


def spans(events: list[Event], first: str, last: str, key: str, end: int) -> list[tuple[int, int, int]]:
    """(command, start, end) of everything that started; what is open ends with the run."""
    starts = {event[key]: event for event in named(events, first)}
    ends = {event[key]: event["t_cycle"] for event in named(events, last)}
    return [(event["cmd_id"], event["t_cycle"], ends.get(number, end)) for number, event in starts.items()]


def cycles(parts: list[tuple[int, int, int]], of: set[int]) -> int:
    """Cycles in which something of these commands went on: by counting them."""
    return len({cycle for cmd, start, end in parts if cmd in of for cycle in range(start, end)})


def check_parts(parts: tuple[StageMetrics, ...], field: str, events: list[Event]) -> None:
    """Phases and layers, from the lists of all that happened."""
    end = events[-1]["cycles"]
    commands = spans(events, "CMD_START", "CMD_END", "cmd_id", end)
    work = {kind: spans(events, f"{kind}_START", f"{kind}_END", "job_id", end) for kind in KINDS}
    names = {event["cmd_id"]: event.get(field) for event in named(events, "CMD_ENQUEUE")}
    waits: Counter[tuple[Any, str]] = Counter()
    for event in named(events, "RESUME_EVENT"):
        waits[names[event["cmd_id"]], event["reason"]] += event["duration_cycles"]
    assert [part.name for part in parts] == list(dict.fromkeys(names.values()))
    for part in parts:
        own = {cmd for cmd, name in names.items() if name == part.name}
        started = [(start, last) for cmd, start, last in commands if cmd in own]
        assert part.commands == len(own)
        assert part.latency == (max(e for _, e in started) - min(s for s, _ in started) if started else None)
        assert part.active == cycles(commands, own)
        assert (part.dma, part.te, part.ve) == tuple(cycles(work[kind], own) for kind in KINDS)
        assert part.command_cycles == sum(last - start for start, last in started)
        assert part.stalls == {reason: n for (name, reason), n in waits.items() if name == part.name}
        assert part.macs == sum(event["mac_count"] for event in named(events, "TE_END") if event["cmd_id"] in own)


def check(folder: Path, system: System, level: str, window: int, until: int | None) -> None:
    text = reference_trace(*system, level=level, window=window, until=until)
    path = folder / "t.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in text))
    report = validate(open_trace(path))
    assert report.valid, "\n".join(map(str, report.violations))
    found, events = metrics(open_trace(path)), parsed(text)
    assert (found.run.status, found.run.cycles, found.run.events) == (
        events[-1]["status"], events[-1]["cycles"], len(text) - 2)  # fmt: skip
    check_counters(found, events[-1])
    check_parts(found.phases, "phase", events)
    check_parts(found.layers, "layer_id", events)
    check_figures(found, events)
    energy = reference_energy(events, *system)
    assert {part: float(pj) for part, pj in found.energy_pj.items() if part != "total"} == {
        part: float(pj) for part, pj in energy.items()}  # fmt: skip


@settings(RELAXED, max_examples=6)
@given(*RUNS, UNTIL)
def test_traces_keep_the_laws_and_give_the_counters(
    tmp_path: Path, system: System, level: str, window: int, until: int | None
) -> None:
    check(tmp_path, system, level, window, until)


@pytest.mark.nightly
@settings(RELAXED, max_examples=1500)
@given(*RUNS, UNTIL)
def test_traces_keep_the_laws_and_give_the_counters_for_long(
    tmp_path: Path, system: System, level: str, window: int, until: int | None
) -> None:
    check(tmp_path, system, level, window, until)


@settings(RELAXED, max_examples=10)
@given(*RUNS, UNTIL, st.none() | st.tuples(st.integers(0, 300), st.integers(1, 300)))
def test_metrics_are_those_of_the_oracle_also_of_some_cycles(
    tmp_path: Path, system: System, level: str, window: int, until: int | None, cycles: tuple[int, int] | None
) -> None:
    machine, program = system
    run = Machine(load_config(machine), load_program(program))
    with TraceFile(tmp_path / "t.jsonl") as file:
        tracing = run.trace(file, TraceOptions(level, window, (), cycles and (cycles[0], sum(cycles))))
        run.step(until) if until else run.run()
        tracing.close()
    text = (tmp_path / "t.jsonl").read_bytes()
    check_figures(metrics(open_trace(tmp_path / "t.jsonl")), parsed(text.splitlines()))


@st.composite
def damaged(draw: Any) -> bytes:
    """The lawful trace with some bytes changed, or some values replaced by others that are JSON but make no sense."""
    text = bytearray(lines(lawful()))
    if draw(st.booleans()):
        for _ in range(draw(st.integers(1, 3))):
            at = draw(st.integers(0, len(text) - 1))
            text[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
        return bytes(text)
    events = [json.loads(line) for line in text.splitlines()]
    for _ in range(draw(st.integers(1, 3))):
        inside: Any = draw(st.sampled_from([events[0], events[-1], *events]))
        key: Any = draw(st.sampled_from(sorted(inside)))
        while isinstance(inside[key], dict | list) and inside[key] and draw(st.integers(0, 3)):
            inside = inside[key]
            key = draw(st.sampled_from(sorted(inside) if isinstance(inside, dict) else range(len(inside))))
        inside[key] = draw(st.sampled_from(NONSENSE))
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


@settings(RELAXED, max_examples=30)
@given(damaged())
def test_damage_is_a_break_a_violation_or_a_refusal(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(text)
    try:
        report = validate(open_trace(path))
        found = metrics(open_trace(path))
        Console(file=StringIO(), width=80).print(*trace_summary(found, 80))
        json.dumps(to_dict(found), allow_nan=False)
        csv_text(found)
    except InputError as error:
        assert str(path) in str(error)
        return
    assert report.broken is not None or report.events == text.count(b"\n") + (not text.endswith(b"\n")) - 2
