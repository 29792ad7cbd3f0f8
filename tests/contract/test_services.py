"""What components get from the core, to the cycle: flows, banks, jobs, wakes, events, generators."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from kernbench import BUSY, FLOW, NEVER, Component
from kernbench.components.service import PARTS, named
from kernbench.sim_engine.recording import TraceOptions
from kernbench_core import EngineType, NoRoom, Process
from tests.contract import engines as in_python
from tests.contract.engines import ASK, CLOSE, CLOSED, OPEN, SUBMIT
from tests.contract.runs import gemm, load, machine, new, outcome, program

BANKS, JOB = 1, 2


def told(actions: list[Any], *entries: dict[str, Any], **changes: Any) -> tuple[list[Any], dict[str, Any]]:
    """What a script is told, and the outcome, on a machine where it is a part of its own."""
    part = in_python.Script(actions, 1)
    run = new(machine(**changes), program(*entries), lambda: {"part": part})
    run.run()
    return part.log, outcome(run)


@pytest.mark.parametrize(
    ("flows", "ends"),
    [
        ([(0, 80, 0, 1)], [9]),  # 8 B a cycle: cycles 0 to 9
        ([(0, 81, 0, 1)], [10]),
        ([(0, 80, 0, 1), (0, 80, 0, 1)], [19, 19]),  # 4 B each
        ([(0, 80, 0, 1), (0, 80, 0, 3)], [20, 13]),  # 2 and 6 B: 14 cycles; 28 moved, 52 left: 7 at 8 B
        ([(0, 80, 0, 1), (5, 8, 0, 1)], [10, 6]),  # 40 by cycle 4; 4 B in 5 and 6: 48; 32 left at 8 B: 7 to 10
        ([(0, 80, 1000, 1)], [9]),  # over both channels at once
        ([(0, 1, 1, 1)], [0]),
    ],
)
def test_flows_share_like_any_other(flows: list[Any], ends: list[int]) -> None:
    log, result = told([(at, OPEN, nbytes, path, weight) for at, nbytes, path, weight in flows])
    assert sorted(log) == sorted((FLOW, k, end) for k, end in enumerate(ends))
    assert result["status"] == "done" and result["cycles"] == max(ends) + 1  # an open flow keeps the run going
    assert result["components"]["part"]["bytes"] == sum(flow[1] for flow in flows)


def test_a_flow_shares_with_a_transfer() -> None:
    """A load of 512 B alone on both channels: 256 B each at 8 B/cycle, 32 cycles; a flow of 80 B takes half of channel 0."""
    log, result = told([(0, OPEN, 80, 0, 1)], load())
    # The flow: 4 B a cycle, cycles 0 to 19. The transfer on channel 0: 80 B by then, 176 left at 8 B: cycles 20 to 41.
    assert log == [(FLOW, 0, 19)] and result["cycles"] == 42
    assert result["counters"]["dram.ch0"]["bytes"] == 256 + 80 and result["counters"]["dma0"]["bytes"] == 512


def test_a_flow_is_closed_early() -> None:
    log, result = told([(0, OPEN, 1000, 0, 1), (7, CLOSE, 0, 0, 0)])
    assert log == [(CLOSED, 56, 7)] and result["counters"]["dram.ch0"]["bytes"] == 56  # cycles 0 to 6


def test_a_large_flow_is_whole() -> None:
    """More than 2**30 B, moved in pieces: 8 B a cycle."""
    nbytes = 3 * (1 << 30) + 1
    log, _ = told([(0, OPEN, nbytes, 0, 1)], max_cycles=1 << 40)
    assert log == [(FLOW, 0, (nbytes + 7) // 8 - 1)]


def test_banks_are_granted_in_the_order_of_arbitration() -> None:
    """Two requests for bank 3 in cycle 0, one port: the first has it at once, the second, denied, a penalty of 2 later."""
    spm = {**machine()["spm"], "conflict_penalty_cycles": 2}
    log, result = told([(0, ASK, 8, 0, 0), (0, ASK, 24, 0, 0), (0, ASK, 0, 1 << 9, 0)], spm=spm)
    assert sorted(log) == [(BANKS, 0, 0), (BANKS, 1, 2), (BANKS, 2, 0)]
    assert result["components"]["part"]["held"] == 2
    counters = result["counters"]["spm"]
    assert (counters["requests"][3], counters["grants"][3], counters["denials"][3]) == (3, 2, 1)
    assert (counters["requests"][4], counters["grants"][4]) == (1, 1)  # what was granted stays granted


def test_jobs_of_a_component_run_on_engines() -> None:
    """A job of 5 cycles for te1 while the queue has one of 8 + 8 + 4 = 20 there: they go one after the other."""
    actions = [(3, SUBMIT, 1, 1, 5), (30, SUBMIT, 1, 1, 5), (40, SUBMIT, 0, 0, 1)]
    te = {**machine()["te"], "spm_traffic": False}
    log, result = told(actions, gemm(te_id=1), gemm(m=64, n=64), te=te)  # the second keeps the run going: 8 + 512 + 4 cycles
    # Submitted in cycle 3, begun in 20, its last cycle 24; the second alone: 30 to 34. 64 B of channel 0: cycles 40 to 47.
    assert log == [(JOB, 0, 24), (JOB, 1, 34), (JOB, 2, 47)]
    assert result["counters"]["te1"]["jobs"] == 2 + 1 and result["counters"]["te1"]["busy"] == 20 + 10
    assert result["entries"][0]["end"] == 20


def test_components_wake_in_the_order_of_their_places() -> None:
    order: list[tuple[int, str]] = []

    class Clock(Component):
        def __init__(self, name: str, every: int) -> None:
            super().__init__()
            self.name, self.every = name, every

        def step(self, now: int) -> int:
            order.append((now, self.name))
            return now + self.every

    run = new(machine(), program(gemm()), lambda: {"c": Clock("c", 2), "a": Clock("a", 3), "b": Clock("b", 1)})
    run.run()
    assert order[:9] == [(0, "c"), (0, "a"), (0, "b"), (1, "b"), (2, "c"), (2, "b"), (3, "a"), (3, "b"), (4, "c")]
    assert run.cycle == 20 and order[-1][0] == 19  # a component that only wakes does not keep the run going


def test_a_component_of_no_use_changes_nothing() -> None:
    described, queue = machine(), program(gemm(), load(), gemm(te_id=1, deps_before=[1]))
    plain = new(described, queue, dict)
    plain.run()
    with_it = new(described, queue, lambda: {"part": in_python.Script([], 1)})
    with_it.run()
    ours = outcome(with_it)
    assert ours.pop("components") == {"part": {"jobs": 0, "bytes": 0, "held": 0}}
    assert ours == {key: value for key, value in outcome(plain).items() if key != "components"}


class Sees(in_python.Fixed):
    """Keeps the jobs that it accepts in a list."""

    def __init__(self, seen: list[Any], **options: Any) -> None:
        super().__init__(**options)
        self._seen = seen

    def accept(self, job: Any, now: int) -> int:
        answer = super().accept(job, now)
        self._seen.append(job)
        return answer


def test_a_job_says_what_it_is() -> None:
    seen: list[Any] = []
    queue = program(load(), gemm(m=4, n=6, k=10, qbits_weight=4))
    run = new(machine(), queue, lambda: {"te0": Sees(seen), "dma0": Sees(seen, latency=3)})
    run.run()
    transfer, product = sorted(seen, key=lambda job: job.entry)
    assert named("dma", transfer) == {"channel": 0, "write": 0, "dram_addr": 0, "row_bytes": 512, "stride": 512, "rows": 1}
    assert [tuple(region) for region in transfer.regions] == [(0, 512, True)]
    # 240 products at 64 * f_w(4) = 96 a cycle: 3 cycles.
    assert named("te", product) == {
        "init": 8, "body": 3, "finalize": 4, "work": 240, "m": 4, "n": 6, "k": 10, "qbits_weight": 4, "qbits_activation": 8,
        "load": 0, "port": 0, "last": 0, "spare": 0, "drain": 0,
    }  # fmt: skip
    assert [region[1:] for region in product.regions] == [(40, False), (30, False), (24, True)]
    dma = run.result().counters["dma0"]
    assert (dma["jobs"], dma["busy"], dma["bytes"]) == (1, 3, 0) and dma["busy"] + dma["idle"] == run.cycle


def test_a_product_on_an_array_with_overlapped_jobs_says_the_parts_of_its_body() -> None:
    seen: list[Any] = []
    array = {"timing": "systolic", "rows": 4, "cols": 6, "dataflow": "ws", "fill": "overlapped", "drain": "overlapped"}
    run = new(machine(te={"engines": 1, **array}), program(gemm(m=9, n=6, k=4)), lambda: {"te0": Sees(seen)})
    run.run()
    (product,) = seen
    said = named("te", product)
    # One fold: 4 cycles of load, 9 of stream, and the rest of the body of 4 + 9 + 4 + 6 - 2 - 1.
    assert (said["body"], said["m"], said["n"], said["k"]) == (20, 9, 6, 4)
    assert [said[part] for part in PARTS] == [4, 0, 9, 9, 7]


def test_events_are_markers_of_their_command() -> None:
    class Says(in_python.Fixed):
        def accept(self, job: Any, now: int) -> int:
            answer = super().accept(job, now)
            if answer != BUSY:
                self.emit(job.id, "rows", 40 + job.entry)
            return answer

        def end(self, now: int) -> int:
            self.emit(self.job, "done at", now)
            return super().end(now)

    run = new(machine(), program(gemm(), gemm()), lambda: {"te0": Says(latency=10)})
    out = io.BytesIO()
    tracing = run.trace(out, TraceOptions())
    run.run()
    tracing.close()
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    markers = [(e["t_cycle"], e["cmd_id"], e["marker"]) for e in events if e["event_type"] == "MARKER"]
    assert markers == [(0, 0, "rows=40"), (9, 0, "done at=9"), (10, 1, "rows=41"), (19, 1, "done at=19")]


def test_room_is_what_was_asked_for() -> None:
    class Greedy(Component):
        flows = 2

        def step(self, now: int) -> int:
            self.open_flow(8, [0])
            self.open_flow(8, [0])
            with pytest.raises(NoRoom, match="Greedy has as many open as it said: raise its jobs, flows or asks"):
                self.open_flow(8, [0])
            return NEVER

    run = new(machine(), program(), lambda: {"part": Greedy()})
    run.run()
    assert run.status == "done" and run.cycle == 2  # 16 B at 8 B/cycle


class Tile(Process):
    """5 cycles, 80 B of channel 0, a job on te1, 3 cycles."""

    def run(self, env: Any, msg: Any) -> Any:
        yield env.timeout(5)
        yield env.flow(80, [0])
        yield env.timeout(0)
        yield env.job(EngineType.TE, 1, params=(0, 2, 0, 0))
        yield env.timeout(3)


def test_a_generator_is_a_component() -> None:
    """5 + 10 + 2 + 3 = 20 cycles, and the next begins when it has ended."""
    run = new(machine(), program(gemm(), gemm()), lambda: {"te0": Tile()})
    run.run()
    assert run.status == "done", run.result().failure
    assert [(e.start, e.end) for e in run.result().entries] == [(0, 20), (20, 40)]


def test_a_generator_cannot_be_saved() -> None:
    from kernbench import InputError

    run = new(machine(), program(gemm()), lambda: {"te0": Tile()})
    with pytest.raises(InputError, match="a snapshot of a generator component is refused"):
        run.snapshot()


def test_a_generator_that_yields_something_else_is_told() -> None:
    class Odd(Process):
        def run(self, env: Any, msg: Any) -> Any:
            yield 5

    run = new(machine(), program(gemm()), lambda: {"te0": Odd()})
    run.run()
    failure = run.result().failure
    assert failure is not None and "TypeError: Odd.run yielded 5: it must be what a method of env returns" in failure["message"]
