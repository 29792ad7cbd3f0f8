"""The stand-alone DMA engine against a ledger that counts bytes and knows no states, and against the machine's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kernbench import Machine, Program, load_config
from kernbench.cmdq.footprint import flat_address, transfer_of
from kernbench.cmdq.lower import lower_machine
from kernbench.config.schema import DMA_ARBITERS
from kernbench_core import CompletionEvent, CoreMemory, DmaEngine, DmaJob, IllegalTransition, KvRange

ALIGN = 64


def aligned(addr: int, nbytes: int) -> int:
    return (addr + nbytes + ALIGN - 1) // ALIGN * ALIGN - addr // ALIGN * ALIGN


@pytest.mark.parametrize(
    ("role", "direction", "channel"),
    [
        ("kv", "read", "kv_load"), ("kv", "write", "kv_store"), ("weight", "read", "act_weight"),
        ("activation", "read", "act_weight"), ("activation", "write", "act_weight"),
    ],
)  # fmt: skip
def test_a_job_belongs_to_the_channel_of_its_tensor_and_direction(role: Any, direction: Any, channel: str) -> None:
    job = DmaJob(cmdq_id=0, direction=direction, tensor_role=role, bytes_total=64, bytes_aligned=64, dram_addr=0)
    assert job.channel == channel


class PuppetMemory:
    """A memory side that does what the test tells it."""

    def __init__(self) -> None:
        self.open = True
        self.grants: dict[int, int] = {}
        self.pushed: set[int] = set()
        self.inside: dict[int, DmaJob] = {}

    def bus_can_enqueue(self, job: DmaJob) -> bool:
        return self.open

    def enqueue(self, job: DmaJob, cycle: int) -> None:
        self.inside[job.cmdq_id] = job

    def tick(self, cycle: int) -> Mapping[int, int]:
        return {key: min(nbytes, self.inside[key].remaining_bytes) for key, nbytes in self.grants.items() if key in self.inside}

    def backpressure(self, job: DmaJob) -> bool:
        return job.cmdq_id in self.pushed

    def dequeue(self, job: DmaJob) -> None:
        del self.inside[job.cmdq_id]


class Recorder:
    """A trace engine that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, dict[str, Any]]] = []

    def emit(self, event_type: str, cycle: int, fields: Mapping[str, Any]) -> None:
        self.events.append((event_type, cycle, dict(fields)))


class DmaLedger(RuleBasedStateMachine):
    """The ledger: bytes asked for and bytes moved of every job, and in what order jobs came. It has no notion of a state."""

    @initialize(
        limits=st.tuples(*[st.integers(1, 3)] * 4),
        priorities=st.tuples(*[st.integers(-1, 2)] * 3),
        period=st.integers(1, 3),
    )
    def build(self, limits: tuple[int, ...], priorities: tuple[int, ...], period: int) -> None:
        names = ("act_weight", "kv_load", "kv_store")
        self.limits = dict(zip(names, limits[1:], strict=True))
        self.total = limits[0]
        self.score = {name: priority + (name == "kv_load") for name, priority in zip(names, priorities, strict=True)}
        self.period = period
        self.engine = DmaEngine(
            max_concurrent_transfers=self.total,
            period=period,
            channels={
                name: {"max_concurrent": limit, "priority": priority}
                for name, limit, priority in zip(names, limits[1:], priorities, strict=True)
            },
        )
        self.memory, self.trace = PuppetMemory(), Recorder()
        self.asked: dict[int, int] = {}
        self.moved: dict[int, int] = {}
        self.jobs: dict[int, DmaJob] = {}
        self.ended: list[int] = []
        self.cycle = 0

    @rule(
        role=st.sampled_from(["weight", "activation", "kv"]),
        direction=st.sampled_from(["read", "write"]),
        addr=st.integers(0, 500),
        nbytes=st.integers(1, 300),
        t_start=st.integers(0, 3),
        ordered=st.booleans(),
    )
    def submit(self, role: str, direction: Any, addr: int, nbytes: int, t_start: int, ordered: bool) -> None:
        key = len(self.asked)
        kv = {"head_id": 0, "kv_kind": "k", "kv_range": KvRange(t_start, 1, 0, 8)} if role == "kv" else {}
        base = 0 if ordered and role == "kv" and direction == "write" else None
        job = DmaJob(key, direction, role, nbytes, aligned(addr, nbytes), addr, kv_base=base, **kv)
        self.engine.submit(job)
        self.asked[key] = job.bytes_aligned
        self.moved[key] = 0
        self.jobs[key] = job

    @rule(
        grants=st.dictionaries(st.integers(0, 12), st.integers(0, 200), max_size=8),
        pushed=st.sets(st.integers(0, 12)),
        is_open=st.booleans(),
        gap=st.integers(1, 3),
    )
    def step(self, grants: dict[int, int], pushed: set[int], is_open: bool, gap: int) -> None:
        self.cycle += gap
        self.memory.grants, self.memory.pushed, self.memory.open = grants, pushed, is_open
        inside_before = {key: job.remaining_bytes for key, job in self.memory.inside.items()}
        pending_before = [job.cmdq_id for job in self.engine.pending_queue]
        full = len(inside_before) >= self.total
        done = self.engine.step(self.cycle, self.memory, self.trace)
        inside_now = {**self.memory.inside, **{event.cmdq_id: self.jobs[event.cmdq_id] for event in done}}
        for key in inside_now:
            self.moved[key] += min(grants.get(key, 0), self.asked[key] - self.moved[key])
        expected = sorted(key for key in inside_now if self.moved[key] == self.asked[key])
        assert done == [CompletionEvent(key, self.cycle + 1) for key in expected]
        self.ended += expected
        started = [key for key in inside_now if key not in inside_before]
        if self.cycle % self.period or full or not is_open:
            assert not started
        self.check_starts(pending_before, started, inside_before)

    def check_starts(self, pending: list[int], started: list[int], inside: dict[int, int]) -> None:
        """Nobody starts ahead of a job of its own channel that came before, but for the order of KV stores."""
        for key in started:
            job = self.jobs[key]
            for other in pending:
                rival = self.jobs[other]
                if other >= key or rival.channel != job.channel or other in started or job.channel == "kv_store":
                    continue
                raise AssertionError(f"{key} started, but {other} of the same channel came before it")
            if job.kv_base is not None and job.kv_range is not None:
                waiting = [k for k in pending if k not in started and self.jobs[k].kv_base is not None]
                assert all(self.jobs[k].kv_range.t_start >= job.kv_range.t_start for k in waiting)  # type: ignore[union-attr]

    @precondition(lambda self: self.asked)
    @rule()
    def flush(self) -> None:
        if len(self.ended) == len(self.asked):
            self.engine.flush()
        else:
            with pytest.raises(RuntimeError, match="DMA jobs are left"):
                self.engine.flush()

    @invariant()
    def bytes_balance(self) -> None:
        if not hasattr(self, "jobs"):
            return
        for key, job in self.jobs.items():
            assert job.remaining_bytes == self.asked[key] - self.moved[key]
            assert (job.state == "COMPLETED") == (key in self.ended)
            assert (job.state == "TRANSFERRING") == (key in self.memory.inside)
            assert job.stalled == (job.stall_reason is not None)
        inside = list(self.memory.inside.values())
        assert len(inside) <= self.total
        for name, limit in self.limits.items():
            assert sum(job.channel == name for job in inside) <= limit

    @invariant()
    def accesses_and_totals(self) -> None:
        """The accesses of a job are its bytes from its address on, once each; totals are the sums over jobs."""
        if not hasattr(self, "trace"):
            return
        at = {key: job.dram_addr for key, job in self.jobs.items()}
        for kind, _, fields in self.trace.events:
            if kind == "MEM_ACCESS_EVENT":
                key = fields["cmdq_id"]
                assert (fields["dram_addr"], fields["direction"]) == (at[key], self.jobs[key].direction)
                at[key] += fields["bytes"]
        assert {key: end - self.jobs[key].dram_addr for key, end in at.items()} == self.moved
        moved = {way: sum(n for key, n in self.moved.items() if self.jobs[key].direction == way) for way in ("read", "write")}
        stats = self.engine.stats
        assert (stats["read_bytes"], stats["write_bytes"]) == (moved["read"], moved["write"])

    @invariant()
    def episodes_pair(self) -> None:
        """Every stall of the trace is resumed before the next, with its duration, or is still open."""
        if not hasattr(self, "trace"):
            return
        since: dict[int, int] = {}
        for kind, cycle, fields in self.trace.events:
            key = fields["cmdq_id"]
            if kind == "STALL_EVENT":
                assert key not in since
                since[key] = cycle
            elif kind == "RESUME_EVENT":
                assert fields["duration"] == cycle - since.pop(key)
        assert set(since) == {key for key, job in self.jobs.items() if job.stalled}


TestDmaLedger = DmaLedger.TestCase
TestDmaLedger.settings = settings(max_examples=70, stateful_step_count=40, deadline=None)


def one_job(**changes: Any) -> DmaJob:
    fields = {"cmdq_id": 7, "direction": "read", "tensor_role": "weight", "dram_addr": 0}
    fields |= {"bytes_total": 64, "bytes_aligned": 64}
    return DmaJob(**{**fields, **changes})


def test_bytes_for_a_queued_job_are_an_illegal_transition() -> None:
    engine, memory = DmaEngine(), PuppetMemory()
    memory.open = False
    job = one_job()
    engine.submit(job)
    engine.step(0, memory)
    memory.tick = lambda cycle: {7: 1}  # type: ignore[method-assign]
    with pytest.raises(IllegalTransition) as error:
        engine.step(3, memory)
    assert str(error.value) == (
        "cycle 3: the memory side moved 1 bytes of job 7, which is QUEUED with 64 bytes left\n"
        "  cycle 0: submitted (act_weight, read, 64 bytes)\n"
        "  cycle 0: stalled queue_full"
    )


def test_more_bytes_than_a_job_has_are_an_illegal_transition() -> None:
    engine, memory = DmaEngine(), PuppetMemory()
    engine.submit(one_job())
    memory.tick = lambda cycle: {7: 65}  # type: ignore[method-assign]
    with pytest.raises(IllegalTransition, match="moved 65 bytes of job 7, which is TRANSFERRING with 64 bytes left"):
        engine.step(0, memory)


def test_a_completed_job_cannot_be_submitted_again() -> None:
    engine, memory = DmaEngine(), PuppetMemory()
    job = one_job()
    engine.submit(job)
    memory.grants = {7: 64}
    assert engine.step(0, memory) == [CompletionEvent(7, 1)]
    with pytest.raises(IllegalTransition) as error:
        engine.submit(job)
    assert str(error.value).startswith("job 7: QUEUED is not reachable from COMPLETED")
    assert "cycle 1: completed" in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strides": (1, 2)}, "job 7: strides = (1, 2): ND strides are out of scope; a 2-D tile has rows and stride_bytes"),
        ({"compressed": True}, "job 7: compressed transfers are out of scope"),
        ({"direction": "up"}, "job 7: direction = 'up', but it must be read or write"),
        ({"bytes_total": 0}, "job 7: bytes_total = 0, but it must be above 0"),
        ({"bytes_aligned": 63}, "job 7: bytes_aligned = 63, but bytes_total = 64 do not fit into it"),
        ({"dram_addr": -1}, "job 7: dram_addr = -1, but it must not be below 0"),
        (
            {"rows": 2, "stride_bytes": 31},
            "job 7: 2 rows of 64 bytes together need a stride_bytes of at least one row, not 31",
        ),
    ],
)
def test_a_wrong_job_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        DmaEngine().submit(one_job(**changes))
    assert str(error.value) == message


def test_stall_durations_are_exact() -> None:
    """Denied in cycles 2 to 4, started in 5: stalled 3 cycles, not 2 and not 4."""
    engine, memory, trace = DmaEngine(), PuppetMemory(), Recorder()
    engine.submit(one_job())
    memory.open = False
    for cycle in (2, 3, 4):
        engine.step(cycle, memory, trace)
    memory.open = True
    engine.step(5, memory, trace)
    assert [(kind, cycle) for kind, cycle, _ in trace.events] == [
        ("STALL_EVENT", 2),
        ("RESUME_EVENT", 5),
        ("ENGINE_EVENT", 5),
    ]
    assert trace.events[1][2]["duration"] == 3
    assert engine.stats == {
        "jobs": 0, "queue_full": 3, "priority_deferred": 0,
        "dram_bytes": 0, "read_bytes": 0, "write_bytes": 0, "mean_latency_cycles": None,
    }  # fmt: skip


@st.composite
def transfers(draw: st.DrawFn) -> tuple[dict[str, Any], Program]:
    machine = {
        "dma": {
            "max_concurrent_transfers": draw(st.integers(1, 4)),
            "queue_depth_per_master": draw(st.integers(1, 3)),
            "alignment_bytes": draw(st.sampled_from([1, 16, 64])),
            "period": draw(st.integers(1, 3)),
            "arbiter": draw(st.sampled_from(DMA_ARBITERS)),
            "channels": {"kv_load": {"weight": 2}, "act_weight": {"max_concurrent": draw(st.integers(1, 3))}},
        },
        "dram": {
            "channels": draw(st.integers(1, 3)),
            "interleave_bytes": draw(st.sampled_from([32, 64, 96])),
            "t_setup_cycles": 3,
        },
        "spm": {"num_banks": draw(st.sampled_from([2, 16])), "conflict_penalty_cycles": 2, "backpressure_cycles": 2},
        "allocation": draw(st.sampled_from(["shared_bw_v1", "max_min_v1", "fifo_v1"])),
    }
    program = Program("dma_only")
    for _ in range(draw(st.integers(1, 8))):
        fields = {
            "tensor_role": draw(st.sampled_from(["weight", "kv"])),
            "qbits": 8,
            "dram_addr": draw(st.integers(0, 4000)),
            "spm_bank": 0,
            "spm_offset": draw(st.integers(0, 2000)),
        }
        if draw(st.booleans()):
            fields["num_elements"] = draw(st.integers(1, 900))
        else:
            fields |= {"rows": draw(st.integers(1, 5)), "row_elements": draw(st.integers(1, 90)), "stride_bytes": 100}
        (program.dma_store if draw(st.booleans()) else program.dma_load)(**fields)
    return machine, program


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(transfers())
def test_engine_with_the_cores_memory_is_the_machines_engine(case: tuple[dict[str, Any], Program]) -> None:
    """Same starts and ends as the tick loop for a program of transfers alone."""
    config, program = load_config(case[0]), case[1]
    machine = Machine(config, program)
    machine.run(skip=False)
    want = {e.id: (e.start, e.end) for e in machine.result().entries}
    channels = {
        name: {"max_concurrent": c.max_concurrent, "priority": c.priority, "weight": c.weight}
        for name, c in zip(("act_weight", "kv_load", "kv_store"), config.dma.channels, strict=True)
    }
    engine = DmaEngine(
        max_concurrent_transfers=config.dma.max_concurrent_transfers,
        kv_load_bonus=config.dma.kv_load_bonus,
        period=config.dma.period,
        channels=channels,
        arbiter=DMA_ARBITERS.index(config.dma.arbiter),
    )
    memory = CoreMemory(lower_machine(config), lambda bank, offset: flat_address(bank, offset, config.spm))
    trace = Recorder()
    for entry in program.entries:
        t = transfer_of(entry, config)
        engine.submit(
            DmaJob(
                entry.id, "write" if t.write else "read", entry.tensor_role, t.bytes_total, t.bytes_aligned, t.dram_addr,
                entry.spm_bank, entry.spm_offset, rows=t.rows, stride_bytes=t.stride,
            )
        )  # fmt: skip
    ends: dict[int, int] = {}
    for cycle in range(machine.cycle):
        ends |= {event.cmdq_id: event.cycle for event in engine.step(cycle, memory, trace)}
    engine.flush()
    starts = {f["cmdq_id"]: cycle for kind, cycle, f in trace.events if kind == "ENGINE_EVENT" and f["what"] == "start"}
    assert {key: (starts[key], ends[key]) for key in ends} == want
    counters = machine.result().counters["dma0"]
    stats = engine.stats
    assert {key: counters[key] for key in ("jobs", "queue_full", "priority_deferred")}.items() <= stats.items()
    assert stats["dram_bytes"] == counters["bytes"] == stats["read_bytes"] + stats["write_bytes"]
    assert stats["mean_latency_cycles"] == sum(end - start for start, end in want.values()) / len(want)  # type: ignore[operator]
