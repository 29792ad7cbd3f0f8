"""The core's trace, byte for byte: against the reference, by stepping, by skipping, in any order of lists, and in pieces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.cmdq import load_program
from kernbench.config import load_config
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.recording import TraceOptions
from kernbench.sim_engine.run.stops import WALKS
from tests.oracles.ref_trace import reference_trace
from tests.trace_systems import traced_systems

LEVELS = st.sampled_from(["summary", "full", "access"])
UNITS = st.sets(st.sampled_from(["dma*", "te0", "spm", "ve*"]), min_size=1)
WALK = st.sampled_from(WALKS)
WINDOWS = st.sampled_from([16, 64, 1024])
OF_PACKAGE = ("sim_version", "sim_id", "program_hash", "config_hash", "sim_config", "model_version")
System = tuple[dict[str, Any], dict[str, Any]]


class Lines(list[bytes]):
    """A sink that keeps what it gets."""

    def write(self, text: bytes) -> None:
        self.append(text)

    def all(self) -> list[bytes]:
        return b"".join(self).split(b"\n")[:-1]


def machine_of(system: System, walk: str = "fast") -> Machine:
    machine, program = system
    return Machine(load_config(machine), load_program(program), walk=walk)


def trace_of(
    system: System, options: TraceOptions, *, skip: bool = True, shuffle: int = 0, walk: str = "fast"
) -> list[bytes]:
    run, lines = machine_of(system, walk), Lines()
    run.shuffle_lists(shuffle)
    tracing = run.trace(lines, options)
    run.run(skip=skip)
    tracing.close()
    return lines.all()


def assert_same(got: list[bytes], want: list[bytes]) -> None:
    for k, (line, expected) in enumerate(zip(got, want, strict=False)):
        assert line == expected, f"line {k + 1}"
    assert len(got) == len(want)


def compare(system: System, level: str, window: int) -> None:
    got = trace_of(system, TraceOptions(level, window))
    first = json.loads(got[0])
    meta = {name: first[name] for name in OF_PACKAGE}
    assert_same(got, reference_trace(*system, level=level, window=window, meta=meta))
    assert_same(trace_of(system, TraceOptions(level, window), walk="plain"), got)


@settings(max_examples=18, deadline=None)
@given(traced_systems(), LEVELS, WINDOWS)
def test_trace_is_that_of_the_reference(system: System, level: str, window: int) -> None:
    compare(system, level, window)


@pytest.mark.parametrize("level", ["summary", "full"])
def test_windows_of_a_machine_with_one_engine_of_each_kind(level: str) -> None:
    """The lines of several windows are made at once, from columns that are slices where a kind has one engine."""
    tile = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "num_elements": 4096, "dram_addr": 0}
    tiles = [tile | {"dma_id": 0, "spm_bank": 0, "spm_offset": 0, "deps_before": [k - 1] if k else []} for k in range(3)]
    machine = {"dma": {"engines": 1}, "te": {"engines": 1}, "ve": {"engines": 1}, "spm": {"bank_size_bytes": 8192}}
    compare((machine, {"metadata": {"version": "1.0", "name": "one"}, "cmdq": tiles}), level, 16)


@pytest.mark.nightly
@settings(max_examples=3000, deadline=None)
@given(traced_systems(), LEVELS, WINDOWS)
def test_trace_is_that_of_the_reference_long(system: System, level: str, window: int) -> None:
    compare(system, level, window)


@settings(max_examples=15, deadline=None)
@given(traced_systems(), LEVELS, st.integers(1, 2**63))
def test_stepping_skipping_and_order_of_lists_write_the_same(system: System, level: str, shuffle: int) -> None:
    options = TraceOptions(level, 64)
    want = trace_of(system, options)
    assert_same(trace_of(system, options, skip=False), want)
    assert_same(trace_of(system, options, shuffle=shuffle), want)
    assert_same(trace_of(system, options, shuffle=shuffle, walk="plain"), want)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_a_run_from_checkpoints_continues_its_trace(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    system, level = data.draw(traced_systems()), data.draw(LEVELS)
    check_checkpoints(system, level, tmp_path_factory.mktemp("checkpoint"), data)


def check_checkpoints(system: System, level: str, folder: Path, data: st.DataObject) -> None:
    """The trace of a run that is saved and loaded after random numbers of cycles is that of a whole run."""
    options = TraceOptions(level, 32)
    want = trace_of(system, options)
    place = folder / "run.ckpt"
    lines = Lines()
    run = machine_of(system, data.draw(WALK))
    tracing = run.trace(lines, options)
    while run.status == "running":
        run.step(data.draw(st.integers(1, 200), label="cycles"), skip=data.draw(st.booleans()))
        run.save(place)
        run = machine_of(system, data.draw(WALK))
        run.load(place)
        tracing = run.go_on_tracing(lines)
    tracing.close()
    assert_same(lines.all(), want)


@pytest.mark.parametrize("walk", WALKS)
def test_a_flow_that_leaves_in_the_cycle_before_a_checkpoint_is_told_of(tmp_path: Path, walk: str) -> None:
    """Two transfers of a line each on one bank: in cycle 0 one is served and ends, the other is denied and out from 1 on."""
    tile = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "num_elements": 16, "dram_addr": 0}
    tiles = [tile | {"dma_id": k, "spm_bank": 0, "spm_offset": 0} for k in range(2)]
    system = (
        {
            "dma": {"engines": 2, "alignment_bytes": 16},
            "dram": {"channels": 1, "dram_burst_cycles": 1, "t_setup_cycles": 0},
            "spm": {"num_banks": 1, "bank_width_bytes": 16, "bank_size_bytes": 8192, "backpressure_cycles": 1, "ports": 1},
        },
        {"metadata": {"version": "1.0", "name": "two"}, "cmdq": tiles},
    )
    want = trace_of(system, TraceOptions("full", 64))
    told = [json.loads(line) for line in want if b"DRAM_TX_SUSPEND" in line]
    assert [(event["t_cycle"], event["cmd_id"]) for event in told] == [(1, 1)]
    lines, run = Lines(), machine_of(system, walk)
    run.trace(lines, TraceOptions("full", 64))
    run.step(1)
    run.save(tmp_path / "run.ckpt")
    run = machine_of(system, walk)
    run.load(tmp_path / "run.ckpt")
    tracing = run.go_on_tracing(lines)
    run.run()
    tracing.close()
    assert_same(lines.all(), want)


@settings(max_examples=15, deadline=None)
@given(traced_systems(), LEVELS, st.integers(0, 300), st.integers(1, 300), UNITS)
def test_a_filter_leaves_out_and_nothing_else(system: System, level: str, first: int, length: int, only: set[str]) -> None:
    """Against the whole trace, filtered here."""
    from fnmatch import fnmatchcase

    patterns = tuple(sorted(only))
    whole = [json.loads(line) for line in trace_of(system, TraceOptions(level, 32))]
    names = [unit["unit"] for unit in whole[0]["units"]]
    if not any(fnmatchcase(name, pattern) for name in names for pattern in patterns):
        return
    got = [json.loads(line) for line in trace_of(system, TraceOptions(level, 32, patterns, (first, first + length)))]
    want = [event for event in whole[1:-1] if _kept(event, patterns, first, first + length)]
    assert [e for e in got[1:-1] if not _closes(e)] == [e for e in want if not _closes(e)]
    assert got[0]["filter"] == {"cycles": [first, first + length], "only": list(patterns)}
    assert got[-1]["events"] == len(got) - 2


def _closes(event: dict[str, Any]) -> bool:
    """An end that only the end of the run gave it: such lines are kept whatever the cycles."""
    return event["event_type"] == "CMD_END" and event["status"] != "OK"


def _kept(event: dict[str, Any], patterns: tuple[str, ...], first: int, last: int) -> bool:
    from fnmatch import fnmatchcase

    if event["event_type"] == "CMD_ENQUEUE":
        return True
    unit = event.get("unit")
    return first <= event["t_cycle"] < last and (unit is None or any(fnmatchcase(unit, p) for p in patterns))
