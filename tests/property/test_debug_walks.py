"""The state of a debugging session after any walk forward and back is that of a straight run to the same cycle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.debug import Session
from kernbench.debug.subject import Subject, quiet, subject_of
from kernbench.debug.timeline import Timeline
from kernbench.sim_engine.kernel_checkpoint import state_hash
from tests.strategies import systems


def straight(subject: Subject, cycle: int | None) -> tuple[int, str, str]:
    """Cycle, status and digest of a run that goes straight to a cycle, or to its end."""
    with quiet():
        live = subject.begin()
        live.machine.run(cycles=cycle)
    found = live.machine._core.digest() if live.engine is None else state_hash(live.engine)
    return live.machine.cycle, live.machine.status, found


def at(timeline: Timeline) -> tuple[int, str, str]:
    return timeline.cycle, timeline.live.machine.status, timeline.digest()


#: A step forward, a step back, or a jump to a cycle.
WALKS = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.integers(1, 90)),
        st.tuples(st.just("back"), st.integers(1, 90)),
        st.tuples(st.just("goto"), st.integers(0, 700)),
    ),
    min_size=1,
    max_size=12,
)


def walk(session: Session, moves: list[tuple[str, int]]) -> None:
    """Go, and compare at every stop."""
    whole = straight(session.subject, None)
    for what, count in moves:
        asked = {"step": session.cycle + count, "back": max(0, session.cycle - count), "goto": count}[what]
        getattr(session, what)(count)
        if asked > whole[0]:
            assert at(session.timeline) == whole
        else:
            assert at(session.timeline) == straight(session.subject, asked)


@given(systems(), WALKS, st.sampled_from([1, 7, 64]))
@settings(max_examples=15)
def test_walks_through_programs(case: tuple[dict[str, Any], dict[str, Any]], moves: list[tuple[str, int]], every: int) -> None:
    machine, program = case
    session = Session(program, machine)
    session.timeline = Timeline(session.subject, every=every, most_bytes=1 << 16)
    walk(session, moves)


@pytest.fixture(scope="module")
def kernel() -> Subject:
    return subject_of("vector_add", None, ["n=8192"])


@pytest.fixture(scope="module")
def collective() -> Subject:
    return subject_of("all_reduce:ring", None, ["ranks=2", "size=256"])


@given(WALKS)
@settings(max_examples=6)
def test_walks_through_kernels(kernel: Subject, moves: list[tuple[str, int]]) -> None:
    walk(Session(kernel), moves)


@given(WALKS)
@settings(max_examples=6)
def test_walks_through_collectives(collective: Subject, moves: list[tuple[str, int]]) -> None:
    walk(Session(collective), moves)


@pytest.mark.nightly
@given(systems(), st.lists(WALKS, max_size=4))
@settings(max_examples=600)
def test_long_walks_through_programs(case: tuple[dict[str, Any], dict[str, Any]], walks: list[list[tuple[str, int]]]) -> None:
    machine, program = case
    session = Session(program, machine)
    session.timeline = Timeline(session.subject, every=3, most_bytes=1 << 14)
    walk(session, [move for one in walks for move in one])


def test_snapshots_are_thinned_and_stay_exact() -> None:
    subject = subject_of("llama2-7b-decode")
    timeline = Timeline(subject, every=256, most_bytes=1 << 20)
    timeline.seek(20_000)
    assert timeline.snapshot_bytes <= 1 << 20 and len(timeline.snapshots) > 2 and timeline.every > 256
    timeline.seek(12_345)
    assert at(timeline) == straight(subject, 12_345)
