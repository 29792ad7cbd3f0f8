"""One contract for components in C and in Python: the same behaviour gives the same run, however it is run."""

from __future__ import annotations

import io
import re
import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kernbench import Machine, load_config, load_program
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace import open_trace
from kernbench.trace.validate import validate
from kernbench_core import MEMBERS, get_include
from tests.contract import engines as in_python
from tests.contract.compiled import SOURCE, engines
from tests.contract.engines import Action
from tests.contract.runs import gemm, load, machine, new, outcome, program, scripts
from tests.strategies import systems

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
in_c = engines()
needs_c = pytest.mark.skipif(in_c is None, reason="there is no C compiler")
ENTRIES = (
    gemm(), load(deps_before=[0]), gemm(te_id=1), load(dram_addr=4096, num_elements=2000), gemm(), gemm(deps_before=[1])
)  # fmt: skip
ALLOCATIONS = ("shared_bw_v1", "max_min_v1", "fifo_v1")


def unpacked(log: bytes) -> list[tuple[int, ...]]:
    return list(struct.iter_unpack("3q", log))


def packed(actions: list[Action]) -> bytes:
    """A script for engines.c."""
    return b"".join(struct.pack("5q", *action) for action in actions)


def script_machine(
    actions: list[Any], allocation: str, ports: int, *, c: bool, walk: str | None = None
) -> tuple[Machine, Any]:
    """A machine whose te0 follows a script."""
    if allocation == "fifo_v1":  # a flow stands in one line, and nobody sets capacities
        actions = [(at, what, a, b % 1000 if what == in_python.OPEN else b, c) for at, what, a, b, c in actions]
        shapes = (in_python.WATCH, in_python.SHAPE, in_python.COUNT)
        actions = [(at, in_python.EMIT if what in shapes else what, a, b, c) for at, what, a, b, c in actions]
    part: Any = in_python.Script(actions, 9)
    if c:
        assert in_c is not None
        part = in_c.script(packed(actions), 9)
    spm = {**machine()["spm"], "ports": ports, "max_wait_cycles": 3, "conflict_penalty_cycles": 2, "backpressure_cycles": 4}
    described = machine(allocation=allocation, spm=spm)
    return new(described, program(*ENTRIES), lambda: {"te0": part}, walk), part


def notes(part: Any) -> list[tuple[int, ...]]:
    if isinstance(part, in_python.Script):
        return list(part.log)
    assert in_c is not None
    return unpacked(in_c.log(part))


@settings(RELAXED, max_examples=60)
@given(scripts(), st.sampled_from(ALLOCATIONS), st.sampled_from([1, 2, 9]), st.data())
def test_a_script_is_the_same_run_in_c_and_in_python(
    actions: list[Any], allocation: str, ports: int, data: st.DataObject
) -> None:
    check_script(actions, allocation, ports, data)


@pytest.mark.nightly
@settings(RELAXED, max_examples=1000)
@given(scripts(), st.sampled_from(ALLOCATIONS), st.sampled_from([1, 2, 9]), st.data())
def test_a_script_is_the_same_run_in_c_and_in_python_long(
    actions: list[Any], allocation: str, ports: int, data: st.DataObject
) -> None:
    check_script(actions, allocation, ports, data)


def check_script(actions: list[Any], allocation: str, ports: int, data: st.DataObject) -> None:
    """Stepped, skipped, cut into pieces with snapshots, with lists shuffled; and what the component was told."""
    first, part = script_machine(actions, allocation, ports, c=False)
    first.run(skip=False)
    want, told = outcome(first), notes(part)
    for c in (False, True) if in_c is not None else (False,):
        for walk, skip in (("fast", True), ("fast", False), ("plain", False)):
            run, part = script_machine(actions, allocation, ports, c=c, walk=walk)
            run.shuffle_lists(data.draw(st.integers(0, 99)))
            run.run(skip=skip)
            assert outcome(run) == want and notes(part) == told
        mixed, part = script_machine(actions, allocation, ports, c=c)
        for _ in range(data.draw(st.integers(1, 3))):
            mixed.step(data.draw(st.integers(1, max(1, want["cycles"]))), skip=data.draw(st.booleans()))
            fresh, part = script_machine(actions, allocation, ports, c=c)
            fresh.restore(mixed.snapshot())
            assert fresh.snapshot() == mixed.snapshot()
            mixed = fresh
        mixed.run(skip=data.draw(st.booleans()))
        assert outcome(mixed) == want and notes(part) == told
    check_laws(want)


@needs_c
def test_every_function_of_the_core_is_called_in_c() -> None:
    """A watcher is told of each change, members say who shares, a capacity counts at once, a job says when it started."""
    script = [
        (0, in_python.WATCH, 0, 0, 0), (0, in_python.OPEN, 80, 0, 3), (1, in_python.SUBMIT, 1, 1, 5),
        (1, in_python.STARTED, 2, 0, 0), (2, in_python.SHAPE, 0, 4, 0), (3, in_python.COUNT, 0, 0, 0),
        (4, in_python.STARTED, 2, 0, 0), (5, in_python.EMIT, 7, 0, 0), (6, in_python.CLOSE, 1, 0, 0),
        (7, in_python.ASK, 1, 2, 0),
    ]  # fmt: skip
    logs = []
    for c in (True, False):
        run, part = script_machine(script, "shared_bw_v1", 1, c=c)
        run.run()
        logs.append(notes(part))
    assert logs[0] == logs[1]
    kinds = [kind for kind, *_ in logs[0]]
    assert kinds.count(in_python.BEGAN) == 2 and in_python.SHARED in kinds and MEMBERS in kinds
    calls = re.findall(r"(\w+)\)\(void \*core", Path(get_include(), "abi.h").read_text())
    source = SOURCE.read_text()
    assert len(calls) > 8 and [name for name in calls if f"->{name}(" not in source] == []


def check_laws(result: dict[str, Any]) -> None:
    """Conservation (docs/model/counters.md) with components."""
    for name, c in result["counters"].items():
        if "idle" in c:
            assert c["busy"] + sum(c["stalled"].values()) + c["idle"] == result["cycles"], name
    spm = result["counters"]["spm"]
    assert all(r == g + d for r, g, d in zip(spm["requests"], spm["grants"], spm["denials"], strict=True))


KINDS = pytest.mark.parametrize("kind", ["python", pytest.param("c", marks=needs_c)])


@KINDS
@settings(RELAXED, max_examples=50)
@given(system=systems(), data=st.data())
def test_the_timing_of_the_te_written_anew_is_that_of_the_te(kind: str, system: Any, data: st.DataObject) -> None:
    """Fixed service time, no traffic, and nothing else is different: not one cycle, not one counter."""
    check_te(kind, system, data)


@pytest.mark.nightly
@KINDS
@settings(RELAXED, max_examples=1000)
@given(system=systems(), data=st.data())
def test_the_timing_of_the_te_written_anew_is_that_of_the_te_long(kind: str, system: Any, data: st.DataObject) -> None:
    check_te(kind, system, data)


def check_te(kind: str, system: Any, data: st.DataObject) -> None:
    """A component in the place of a drawn TE does what the TE does."""
    described, queue = system
    described.setdefault("te", {})["spm_traffic"] = False
    described["te"]["period"] = 1
    described["te"].pop("drain", None)  # with overlapped jobs, the time of a job depends on the previous one
    described.setdefault("spm", {})["check_overlap"] = "none"
    config, parsed = load_config(described), load_program(queue)
    plain = Machine(config, parsed)
    plain.run()
    engine = data.draw(st.integers(0, config.te.engines - 1))
    part = in_python.Fixed() if kind == "python" else in_c.fixed()  # type: ignore[union-attr]
    run = Machine(config, parsed, {f"te{engine}": part})
    run.run(skip=data.draw(st.booleans()))
    ours, theirs = outcome(run), outcome(plain)
    ours.pop("components"), theirs.pop("components")
    assert ours == theirs


def test_only_timing_changes() -> None:
    """A component of 50 cycles a job instead of the engine's own: ends move, and nothing else of the result does."""
    described, queue = machine(), program(gemm(), gemm(deps_before=[0]), load(deps_before=[1]))
    plain = new(described, queue, dict)
    plain.run()
    slow = new(described, queue, lambda: {"te0": in_python.Fixed(latency=50)})
    slow.run()
    a, b = outcome(plain), outcome(slow)
    assert [e["start"] for e in b["entries"]] == [0, 50, 100] and [e["end"] for e in b["entries"]][:2] == [50, 100]
    assert a["counters"]["te0"]["macs"] == b["counters"]["te0"]["macs"] == 2 * 512
    assert a["counters"]["dram.ch0"]["bytes"] == b["counters"]["dram.ch0"]["bytes"]
    assert b["counters"]["te0"] == {
        "jobs": 2, "busy": 100, "idle": b["cycles"] - 100, "stalled": {"bank_conflict": 0}, "macs": 1024
    }  # fmt: skip
    assert b["components"] == {"te0": {"jobs": 2, "bytes": 0, "held": 0}}


@settings(RELAXED, max_examples=40)
@given(scripts(), st.sampled_from(["summary", "full", "access"]), st.sampled_from([1, 2]))
def test_traces_with_components_are_valid_and_the_same_bytes(actions: list[Any], level: str, ports: int) -> None:
    texts = []
    for skip in (True, False):
        run, _ = script_machine(actions, "shared_bw_v1", ports, c=False)
        out = io.BytesIO()
        tracing = run.trace(out, TraceOptions(level=level, window=16))
        run.run(skip=skip)
        tracing.close()
        texts.append(out.getvalue())
    assert texts[0] == texts[1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        path.write_bytes(texts[0])
        report = validate(open_trace(path))
    assert report.valid, [violation.message for violation in report.violations]
