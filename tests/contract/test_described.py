"""Traces of jobs that components submit and describe: those of the same program in the queue, valid however the run ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench import Machine, load_config, load_program
from kernbench.config import SystemConfig
from kernbench.sim_engine.recording import TraceOptions
from tests.contract.replayed import prepared
from tests.contract.test_whole import ALONE, without
from tests.strategies import systems
from tests.systems_of_pes import systems_of_pes

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
LEVELS = st.sampled_from(["summary", "full", "access"])
JOB_FIELDS = ("job_id", "tx_id", "by_job")
Event = dict[str, Any]


class Lines(list[bytes]):
    """A sink that keeps what it gets."""

    def write(self, text: bytes) -> None:
        self.append(text)

    def events(self) -> list[Event]:
        return [json.loads(line) for line in b"".join(self).splitlines()]


def traced(run: Machine, level: str, *, skip: bool = True) -> list[Event]:
    lines = Lines()
    tracing = run.trace(lines, TraceOptions(level, 64))
    run.run(skip=skip)
    tracing.close()
    return lines.events()


def comparable(events: list[Event], first_job: int) -> tuple[list[Event], list[Event]]:
    """Commands, and all other events but for what the queue alone has: control entries, token groups, the count of commands.

    Numbers of jobs from `first_job` on; commands without the cycle in which they were queued.
    """
    queued = [{k: v for k, v in e.items() if k != "t_cycle"} for e in events if e["event_type"] == "CMD_ENQUEUE"]
    control = {e["cmd_id"] for e in queued if e["unit"] == "control"}
    commands = sorted((e for e in queued if e["cmd_id"] not in control), key=lambda e: e["cmd_id"])
    others = []
    for event in events[1:-1]:
        if event["event_type"] in ("CMD_ENQUEUE", "TOKEN") or event.get("cmd_id") in control:
            continue
        others.append({k: v - first_job if k in JOB_FIELDS else v for k, v in event.items()})
    return commands, others


def check_traces(described: Any, queue: dict[str, Any], level: str, skip: bool) -> None:
    config = load_config(described)
    run = Machine(config, load_program(queue))
    theirs = traced(run, level)
    jobs = [e for e in theirs if e["event_type"] == "JOB_ISSUE"]
    if run.status != "done" or not jobs or run.plan.pe.spm.check_overlap == "warn":
        return
    again, _ = prepared(run, whole=isinstance(config, SystemConfig))
    ours = traced(again, level, skip=skip)
    if again.cycle != run.cycle:  # control entries ended later: so did the last windows
        return
    mine, yours = comparable(ours, 1), comparable(theirs, 0)
    assert mine[0] == yours[0]
    if isinstance(config, SystemConfig):
        tracks = {unit["unit"] for unit in theirs[0]["units"]}
        assert of_system(mine[1], tracks) == of_system(yours[1], tracks)
    else:
        assert mine[1] == yours[1]
    assert ours[-1]["energy_pj"] == theirs[-1]["energy_pj"]
    counters = theirs[-1]["counters"]
    assert {name: c for name, c in ours[-1]["counters"].items() if name in counters}.items() <= counters.items()


DEPTHS = ("queued", "active")  # of a DMA engine by channel, the fourth only where there may be queues between PEs


def _of_dma(event: Event) -> bool:
    return bool(event["event_type"].startswith("DMA_"))


def of_system(events: list[Event], tracks: set[str]) -> tuple[list[Event], list[Event]]:
    """Events, and samples in some order: a whole system has more tracks, other numbers of channels and links, and queues."""
    kept = [e for e in events if e.get("unit", "") in tracks | {""}]
    by_place = [
        {k: v[:3] if k in DEPTHS else v for k, v in e.items() if k != "link_id" and (k != "channel" or _of_dma(e))}
        for e in kept
    ]
    samples = [e for e in by_place if e["event_type"].endswith("_SAMPLE") or e["event_type"] == "WARN"]
    return [e for e in by_place if e not in samples], sorted(samples, key=json.dumps)


@settings(RELAXED, max_examples=30)
@given(systems(), LEVELS, st.booleans())
def test_the_trace_is_that_of_the_queue_on_one_npu(system: Any, level: str, skip: bool) -> None:
    described, queue = system
    check_traces(described, without(queue, ALONE), level, skip)


@settings(RELAXED, max_examples=30)
@given(systems_of_pes(), LEVELS, st.booleans())
def test_the_trace_is_that_of_the_queue_on_a_system(system: Any, level: str, skip: bool) -> None:
    described, queue = system
    check_traces(described, without(queue, ALONE), level, skip)


@pytest.mark.nightly
@settings(RELAXED, max_examples=1000)
@given(systems_of_pes() | systems(), LEVELS, st.booleans())
def test_the_trace_is_that_of_the_queue_long(system: Any, level: str, skip: bool) -> None:
    described, queue = system
    check_traces(described, without(queue, ALONE), level, skip)
