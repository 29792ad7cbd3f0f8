"""Why, on random systems: parts add up, the path covers the run, and rates and reasons are those of the reference."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench.common.errors import InputError
from kernbench.trace.reader import open_trace
from kernbench.trace.why import Why, explain
from kernbench.trace.why.causes import CAUSES, Span
from kernbench.trace.why.history import CONTROL, Flow, History, Job, read_history
from kernbench.trace.why.json import story_to_dict, why_to_dict
from kernbench.trace.why.shares import Shares
from kernbench.trace.why.spans import Stories, last_flow, pieces, queue_states
from tests.oracles import ref_dma
from tests.oracles.ref_machine import completed
from tests.oracles.ref_trace import reference_trace
from tests.oracles.reference import Simulation
from tests.strategies import Draw, systems

System = tuple[dict[str, Any], dict[str, Any]]
RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
QUEUES = ("queue", "concurrency", "queue_full", "head_of_line", "priority_deferred", "kv_order")


def traced(system: System, folder: Path) -> Path:
    file = folder / "run.jsonl"
    file.write_bytes(b"".join(line + b"\n" for line in reference_trace(*system, level="full", window=1 << 20)))
    return file


def check_tiles(spans: list[Span], start: int, end: int) -> None:
    """Spans follow each other from start to end, and the parts of each add up to it."""
    at = start
    for span in spans:
        assert span.start == at < span.end
        assert sum(part.cycles for part in span.parts) == span.end - span.start
        assert all(part.cycles > 0 and part.cause in CAUSES for part in span.parts)
        at = span.end
    assert at == end


def check_commands(history: History, routers: bool = False) -> Counter[tuple[str, str]]:
    """Work and waits of every job add up to the time from its readiness to its end; its job-cycles in the queue by reason.

    `routers`: bytes move over routers also while a request is held, so that cycles of `transfer` say nothing of bytes.
    """
    stories = Stories(history)
    stalled: Counter[tuple[str, str]] = Counter()
    for command in history.commands:
        ready, job = stories.ready(command), command.job
        if command.opcode in CONTROL:
            assert command.end is None or command.end == max(ready or 0, command.arrival)
        elif job is not None:
            assert ready is not None and ready <= job.issue
            spans = stories.spans(command)
            check_tiles(spans, ready, job.end)
            for part in (part for span in spans for part in span.parts):
                if part.cause in ("queue_full", "priority_deferred"):
                    stalled[command.unit, part.cause] += int(part.cycles)
                blamed = (*QUEUES, "share", "bank", "backpressure")
                assert part.by or part.cause not in blamed or (part.cause == "queue" and not job.started)
            if not routers:
                check_transfer(stories, job, spans)
    return stalled


def check_transfer(stories: Stories, job: Job, spans: list[Span]) -> None:
    """A transfer that is over moved the bytes of its last flow, no more and no less."""
    flow = last_flow(job)
    if flow is None or not job.ended:
        return
    moved = sum((p.cycles for s in spans for p in s.parts if p.cause == "transfer"), Fraction(0))
    assert moved == flow.size / stories.shares.full_rate(flow)[0]
    assert flow.until == job.end


def check_path(why: Why) -> None:
    """The critical path is as long as the run, and so are its costs."""
    at = 0
    for stretch in why.path:
        assert stretch.start == at
        check_tiles(list(stretch.spans), stretch.start, stretch.end)
        at = stretch.end
    assert at == why.history.cycles
    assert sum((cost.cycles for cost in why.costs), Fraction(0)) == why.history.cycles
    assert sum((group.cycles for group in why.groups), Fraction(0)) == why.history.cycles


@settings(RELAXED, max_examples=12)
@given(system=systems())
def test_parts_add_up_and_the_path_covers_the_run(system: System, tmp_path_factory: pytest.TempPathFactory) -> None:
    check_system(system, tmp_path_factory.mktemp("why"))


@pytest.mark.nightly
@settings(RELAXED, max_examples=1500)
@given(system=systems())
def test_parts_add_up_for_long(system: System, tmp_path_factory: pytest.TempPathFactory) -> None:
    check_system(system, tmp_path_factory.mktemp("why"))


def check_system(system: System, folder: Path) -> None:
    trace = open_trace(traced(system, folder))
    why = explain(trace)
    assert trace.broken is None and trace.end is not None
    check_path(why)
    for stretch in why.path:  # no wait is on it for which another job's time stands
        causes = {part.cause for span in stretch.spans for part in span.parts}
        assert causes.isdisjoint(QUEUES)
        assert ("idle" in causes) == (stretch.command is None)
    stalled = check_commands(why.history)
    for unit, count in trace.end.counters.items():
        for reason in ("queue_full", "priority_deferred"):
            assert count.get(reason, 0) == stalled[unit, reason]


class Recording(Simulation):
    """The reference, remembering what each flow was given and what each pending transfer could not pass."""

    def __init__(self, machine: dict[str, Any], program: dict[str, Any]) -> None:
        super().__init__(machine, program)
        self.rates: dict[tuple[int, int], dict[int, Fraction]] = {}  # by job and channel: cycle, rate
        self.pending: dict[tuple[int, int], tuple[bool, bool, bool]] = {}  # by job and cycle: ticks, limit, KV order

    def _bank(self, cycle: int) -> None:
        for flow in self.members:
            if flow.request is None:
                self.rates.setdefault((flow.job.seq, flow.channel), {})[cycle] = flow.rate
        super()._bank(cycle)

    def _start(self, cycle: int) -> None:
        super()._start(cycle)
        for engine in self.dma:
            for job in engine.pending:
                of_channel = sum(1 for other in engine.active if other.channel == job.channel)
                limit = of_channel >= engine.dma["channels"][job.channel]["max_concurrent"]
                limit = limit or len(engine.active) >= engine.dma["max_concurrent_transfers"]
                kept = any(earlier(other, job) for other in engine.pending)
                self.pending[job.seq, cycle] = (cycle % engine.dma["period"] == 0, limit, kept)


def earlier(other: ref_dma.DmaJob, job: ref_dma.DmaJob) -> bool:
    """Whether the order of KV stores lets `other` go first."""
    if job.kv_key is None or other.kv_key != job.kv_key:
        return False
    return bool(other.entry["t_start"] < job.entry["t_start"])


def check_against_reference(system: System, folder: Path) -> Counter[str]:
    history = read_history(open_trace(traced(system, folder)))
    run = Recording(completed(system[0]), system[1])
    run.run()
    shares, seen = Shares(history), Counter[str]()
    caches: dict[Any, set[Any]] = {}  # by head: of several, the trace does not say which a store is for
    for entry in system[1]["cmdq"]:
        key = (entry.get("dram_base_addr"), entry.get("kv_kind"), entry.get("kv_layout_id", 0), entry.get("qbits_kv"))
        caches.setdefault(entry.get("head_id"), set()).add(key)
    for job in history.jobs.values():
        for flow in job.flows.values():
            assert given_rates(shares, flow) == run.rates.get((job.number, flow.channel), {})
        if history.component[job.command.unit] != "DMA":
            continue
        for state in queue_states(history, job):
            for cycle in range(state.start, state.end):
                if (job.number, cycle) in run.pending:  # not there: the cycle in which a run fails
                    seen[state.cause] += 1
                    assert state.cause != "queue" or not job.started
                    ticks, limit, kept = run.pending[job.number, cycle]
                    check_state(state.cause, ticks, limit, kept or len(caches[job.command.head_id]) > 1)
    return seen


def given_rates(shares: Shares, flow: Flow) -> dict[int, Fraction]:
    """The rate of a flow in every cycle in which it takes its share."""
    rates: dict[int, Fraction] = {}
    for start, end, hold, reason in pieces(flow):
        if hold is None and not reason:
            for share in shares.of(flow, start, end):
                rates |= dict.fromkeys(range(share.start, share.end), share.rate)
                assert sum(weight for _, weight in share.others) == share.weight
                assert share.others or share.rate == shares.full_rate(flow)[0]
    return rates


def check_state(cause: str, ticks: bool, limit: bool, kept: bool) -> None:
    if cause == "kv_order":
        assert kept
    elif cause == "concurrency":
        assert limit
    elif cause == "period":
        assert not ticks and not limit
    elif cause != "queue":  # of a transfer that never starts: the trace does not say its channel
        assert cause == "head_of_line" and not limit


@settings(RELAXED, max_examples=12)
@given(system=systems())
def test_rates_and_reasons_are_those_of_the_reference(system: System, tmp_path_factory: pytest.TempPathFactory) -> None:
    check_against_reference(system, tmp_path_factory.mktemp("why"))


@pytest.mark.nightly
@settings(RELAXED, max_examples=1500)
@given(system=systems())
def test_rates_and_reasons_for_long(system: System, tmp_path_factory: pytest.TempPathFactory) -> None:
    check_against_reference(system, tmp_path_factory.mktemp("why"))


@st.composite
def stores(draw: Draw) -> System:
    """KV stores of few heads in any order of tokens, with few slots: their order is what decides."""
    entries: list[dict[str, Any]] = []
    for i in range(draw(st.integers(2, 8))):
        entry = {"opcode": "KV_STORE_TILE", "head_id": draw(st.integers(0, 1)), "kv_kind": "k", "dram_base_addr": 0}
        entry |= {"t_start": draw(st.integers(0, 7)) * 8, "t_len": draw(st.integers(1, 4)), "qbits_kv": 8}
        entry |= {"spm_bank": i, "spm_offset": 0}
        if i and draw(st.booleans()):
            entry["deps_before"] = [draw(st.integers(0, i - 1))]
        entries.append(entry)
    channel = {"max_concurrent": draw(st.integers(1, 2))}
    dma = {"channels": {"kv_store": channel}, "period": draw(st.sampled_from([1, 3]))}
    machine = {"schema": "kernbench/npu/1", "dma": {**dma, "queue_depth_per_master": draw(st.integers(1, 2))}}
    return machine, {"metadata": {"version": "1.0", "name": "stores"}, "cmdq": entries}


@settings(RELAXED, max_examples=20)
@given(system=stores())
def test_the_order_of_kv_stores(system: System, tmp_path_factory: pytest.TempPathFactory) -> None:
    check_system(system, tmp_path_factory.mktemp("why"))
    check_against_reference(system, tmp_path_factory.mktemp("why"))


def test_stores_of_one_token_that_start_together_do_not_overtake_each_other(tmp_path: Path) -> None:
    store = {"opcode": "KV_STORE_TILE", "head_id": 0, "kv_kind": "k", "dram_base_addr": 0, "qbits_kv": 8, "spm_offset": 0}
    program = {"metadata": {"version": "1.0"}, "cmdq": [{**store, "t_start": 0, "t_len": 1, "spm_bank": k} for k in range(4)]}
    machine = {"schema": "kernbench/npu/1", "dma": {"channels": {"kv_store": {"max_concurrent": 2}}}}
    assert check_against_reference((machine, program), tmp_path) == Counter(concurrency=32)


def test_a_store_is_kept_by_one_that_overtakes_it(tmp_path: Path) -> None:
    base = {"opcode": "KV_STORE_TILE", "head_id": 0, "kv_kind": "k", "dram_base_addr": 0, "t_len": 4, "qbits_kv": 8}
    base |= {"spm_bank": 0, "spm_offset": 0}
    machine = {"schema": "kernbench/npu/1", "dma": {"channels": {"kv_store": {"max_concurrent": 1}}}}
    program = {"metadata": {"version": "1.0"}, "cmdq": [{**base, "t_start": t} for t in (0, 16, 8)]}
    assert check_against_reference((machine, program), tmp_path)["kv_order"] == 32
    why = explain(open_trace(traced((machine, program), tmp_path)))
    parts = [part for span in why.story(1).spans for part in span.parts]
    assert [(part.cause, int(part.cycles), part.by) for part in parts] == [
        ("kv_order", 32, (2,)),
        ("concurrency", 32, (2,)),
        ("transfer", 32, ()),
    ]
    assert [(s.command.id, s.after) for s in why.path if s.command is not None] == [(0, "start"), (2, "slot"), (1, "slot")]


@st.composite
def damaged(draw: Draw) -> list[bytes]:
    """The lines of a trace, some of them gone, twice there or with another number in them."""
    machine, program = draw(systems())
    lines = reference_trace(machine, program, level="full", window=1 << 20)
    for _ in range(draw(st.integers(1, 4))):
        i = draw(st.integers(1, len(lines) - 1))
        how = draw(st.sampled_from(["drop", "twice", "number", "number", "number", "swap"]))
        if how == "number":
            numbers = list(re.finditer(rb":(\d+)", lines[i]))
            if numbers:
                where = draw(st.sampled_from(numbers))
                other = b"%d" % draw(st.sampled_from([0, 1, 2, 5, 17, 10**6, 2**62]))
                lines[i] = lines[i][: where.start(1)] + other + lines[i][where.end(1) :]
        elif how == "swap":
            j = draw(st.integers(1, len(lines) - 1))
            lines[i], lines[j] = lines[j], lines[i]
        else:
            lines[i : i + 1] = [] if how == "drop" else [lines[i]] * 2
            if len(lines) < 2:
                break
    return lines


def check_damaged(lines: list[bytes], file: Path) -> None:
    """A trace of no run is explained without a gap, or refused."""
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    try:
        why = explain(open_trace(file))
    except InputError as error:
        assert str(file) in str(error)
        return
    check_path(why)
    for command in why.history.commands:
        why_to_dict(why), story_to_dict(why, why.story(command.id))


@settings(RELAXED, max_examples=12)
@given(lines=damaged())
def test_damaged_traces_are_refused_or_explained(lines: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    check_damaged(lines, tmp_path_factory.mktemp("why") / "run.jsonl")


@pytest.mark.nightly
@settings(RELAXED, max_examples=400)
@given(lines=damaged())
def test_damaged_traces_for_long(lines: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    check_damaged(lines, tmp_path_factory.mktemp("why") / "run.jsonl")
