"""Seed ADR-0020 with kernels, decision by decision. Decisions about the log and its replay alone are in the tests of those."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from kernbench.common.handles import PendingDataError
from kernbench.components.base import Clock
from kernbench.components.builtin.pe_dma import PeDma
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.triton_emu import kernel_system as assembly
from tests.kernels import Run, at, easy

A = np.arange(256, dtype=np.float32).reshape(16, 16)  # 1024 B: 16 cycles at 64 B a cycle
B = np.eye(16, dtype=np.float32) * 2


def product(a: int, b: int, c: int, tl: Any) -> None:
    x = tl.load(a, (16, 16), "f32")
    y = tl.load(b, (16, 16), "f32")
    tl.store(c, tl.dot(x, y))


def test_d1_a_kernel_runs_inside_phase_1_and_is_computed_in_phase_2() -> None:
    """The kernel sees the cycles pass: there is no list of commands made before. Its product exists after Phase 2 only."""
    cycles = []

    def kernel(tl: Any) -> None:
        cycles.append(run.machine.cycle)
        tl.load(0, (16, 16), "f32")
        cycles.append(run.machine.cycle)
        product(0, 1024, 2048, tl)

    run = Run(kernel, memory={0: A, 1024: B})
    run.run()
    assert cycles == [1, 17]
    assert run.store.pending("hbm", 2048, 1024) and not run.store.has("hbm", 2048)
    assert DataExecutor(run.log).run().verify(A * 2)  # type: ignore[arg-type]


LOGGED = [
    # Loads of 16 cycles one after the other, a product of 16 * 16 * 16 / 4096 = 1 cycle, a store of 16.
    ("dma_read", "pe_dma", 1, 17),
    ("dma_read", "pe_dma", 17, 33),
    ("gemm_f32", "pe_gemm", 33, 34),
    ("dma_write", "pe_dma", 34, 50),
]


def logged(run: Run) -> list[tuple[str, str, float, float]]:
    assert run.log is not None
    return [(one.op_name, one.component_id, one.t_start, one.t_end) for one in run.log]


class Listening(PeDma):
    """DMA engines with hooks of their own, which go on to those of the base class."""

    heard: list[tuple[str, float]] = []

    def _on_process_start(self, env: Clock, msg: Any) -> None:
        self.heard.append(("start", env.now))
        super()._on_process_start(env, msg)

    def _on_process_end(self, env: Clock, msg: Any) -> None:
        self.heard.append(("end", env.now))
        super()._on_process_end(env, msg)


class Deaf(PeDma):
    """DMA engines with hooks of their own, which end there."""

    def _on_process_start(self, env: Clock, msg: Any) -> None: ...

    def _on_process_end(self, env: Clock, msg: Any) -> None: ...


def run_with(kind: type[PeDma], monkeypatch: pytest.MonkeyPatch, **how: Any) -> Run:
    """The product on a machine whose DMA engines are of this class."""
    monkeypatch.setattr(assembly, "PeDma", kind)
    return Run(product, 0, 1024, 2048, memory={0: A, 1024: B}, **how).run()


def test_d2_only_the_hooks_of_the_base_class_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a class in the place of a part keeps from them is in no log, and takes its time all the same."""
    assert logged(run_with(PeDma, monkeypatch)) == LOGGED
    silenced = run_with(Deaf, monkeypatch)
    assert logged(silenced) == [LOGGED[2]] and silenced.launch.end == 50


def test_d2_hooks_of_its_own_are_called_with_the_times_of_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    Listening.heard.clear()
    assert logged(run_with(Listening, monkeypatch)) == LOGGED
    assert Listening.heard == [("start", 1), ("end", 17), ("start", 17), ("end", 33), ("start", 34), ("end", 50)]


def test_d2_without_a_logger_the_hooks_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a log nothing is written, and a run with one takes as long."""
    for kind in (PeDma, Listening):
        run = run_with(kind, monkeypatch, logged=False)
        assert run.log is None and run.launch.end == 50


def test_d2_times_are_ns() -> None:
    from fractions import Fraction

    assert Clock(Fraction(3, 2)).at(3).now == 2.0


def test_d3_a_load_brings_data_that_a_kernel_branches_on() -> None:
    taken = []

    def kernel(tl: Any) -> None:
        a = tl.load(0, (16, 16), "f32")
        if a[0][1] > 0.5:
            taken.append("large")
            tl.load(1024, (16, 16), "f32")
        else:
            taken.append("small")

    large = Run(kernel, memory={0: A, 1024: B}).run()
    small = Run(kernel, memory={0: A * 0, 1024: B}).run()
    assert taken == ["large", "small"]
    assert large.launch.end == small.launch.end + 16  # type: ignore[operator]


def test_d3_a_store_is_visible_when_it_is_issued() -> None:
    """The load behind it in the same queue reads what was stored, and so does one that was in flight when it was issued."""
    seen = []

    def kernel(tl: Any) -> None:
        x = tl.load(0, (16,), "i32")
        early = tl.load(4096, (1024,), "i32", wait=False)
        tl.store(4096, x)
        late = tl.load(4096, (16,), "i32")
        tl.wait(early)
        seen.extend([early.data[:16].tolist(), late.tolist()])

    memory = {0: np.arange(16, dtype=np.int32), 4096: np.zeros(1024, np.int32)}
    run = Run(kernel, memory=memory, config=easy(dma={"engines": 2})).run()
    assert seen == [list(range(16))] * 2
    replayed = DataExecutor(run.log).run().store  # type: ignore[arg-type]
    loads = [one for one in run.log if one.op_name == "dma_read"]  # type: ignore[union-attr]
    for record, want in zip(loads[1:], seen, strict=True):
        assert replayed.read("tcm", record.params["dst_addr"], (16,), "i32").tolist() == want


def test_d3_every_result_is_pending_and_wait_is_about_time_alone() -> None:
    def kernel(tl: Any) -> None:
        x = tl.load(0, (16, 16), "f32")
        assert not x.pending
        result = tl.dot(x, x)
        assert result.pending
        tl.wait(result)
        assert result.pending and result.flight is None
        result.data  # noqa: B018

    error = Run(kernel, memory={0: A}).fail()
    assert isinstance(error, PendingDataError)
    assert str(error) == (
        f"{at(kernel, 3)}: t2 (the result of gemm_f32) is pending in Phase 1, so its data cannot be had; "
        "branch on what tl.load returns, or look at results after Phase 2"
    )


@pytest.mark.parametrize(
    ("look", "wanted"),
    [
        (lambda tile: tile[0, 0], "an element of it"),
        (bool, "its truth value"),
        (np.asarray, "a numpy array of it"),
        (float, "its value"),
        (lambda tile: tile.tolist(), "its elements"),
        (list, "its elements"),
    ],
)
def test_non_goals_nothing_branches_on_a_result(look: Any, wanted: str) -> None:
    def kernel(tl: Any) -> None:
        x = tl.load(0, (16, 16), "f32")
        look(tl.exp(x))

    error = Run(kernel, memory={0: A}).fail()
    assert isinstance(error, PendingDataError) and f"so {wanted} cannot be had" in str(error)


def test_d3_a_pending_result_is_stored_and_loaded_again() -> None:
    def kernel(tl: Any) -> None:
        x = tl.load(0, (16, 16), "f32")
        tl.store(4096, tl.dot(x, x))
        again = tl.load(4096, (16, 16), "f32")
        assert again.pending
        tl.store(8192, again + 1.0)

    run = Run(kernel, memory={0: A}).run()
    store = DataExecutor(run.log).run().store  # type: ignore[arg-type]
    np.testing.assert_array_equal(store.read("hbm", 8192, (16, 16), "f32"), A @ A + 1)


def test_d3_rows_of_a_pending_store_are_pending_and_what_lies_between_is_not() -> None:
    def kernel(tl: Any) -> None:
        x = tl.load(0, (4, 16), "f32")
        tl.store(64, tl.exp(x), strides=(128, 4))
        pending = [tl.load(64 * i, (16,), "f32").pending for i in range(8)]
        assert pending == [False, True] * 4

    run = Run(kernel, memory={0: A}).run()
    store = DataExecutor(run.log).run().store  # type: ignore[arg-type]
    np.testing.assert_allclose(store.read("hbm", 192, (16,), "f32"), np.exp(A[1]), rtol=1e-6)
    assert store.read("hbm", 128, (16,), "f32").tolist() == A[2].tolist()


def test_d3_a_small_result_is_materialized_when_asked_for() -> None:
    found = []

    def kernel(tl: Any) -> None:
        x = tl.load(0, (16, 16), "f32")
        total = tl.sum(x, materialize=True)
        assert total.flight is not None
        found.append((float(total), run.machine.cycle))
        tl.store(4096, total)

    run = Run(kernel, memory={0: A})
    run.run()
    # 256 elements by 64 lanes and a tree of ceil(log2 256) = 8 levels: 4 + 8 cycles from 17 on.
    assert found == [(float(A.sum()), 29)]
    assert run.log is not None and run.log[1].params["materialized_in_phase1"]
    assert DataExecutor(run.log).run().verify(np.float32(A.sum()))
    run.log[1].params = {**run.log[1].params, "value": np.float32(0)}
    wrong = DataExecutor(run.log).run().verify(np.float32(A.sum()))
    assert not wrong and wrong.exit_code == 1


def test_d4_the_message_says_whether_it_is_logged() -> None:
    """A message that says it is no data op leaves no record, whoever serves it."""
    from kernbench.common.pe_commands import DmaReadCmd

    class Silent(DmaReadCmd):
        data_op = False

    def kernel(tl: Any) -> None:
        tl.load(0, (16, 16), "f32")
        tile = tl.alloc((16, 16), "f32")
        message = Silent(tile, 1024, 1024, op_id=tl._runner.memory.new_id(), line="here")
        runner = tl._runner
        flight = runner.scheduler.issue(message, runner.now, "here")
        runner.memory.load_issued(message)
        runner.wait_for(flight, "it")

    run = Run(kernel, memory={0: A, 1024: B}).run()
    assert [(one.op_name, one.params["src_addr"]) for one in run.log] == [("dma_read", 0)]  # type: ignore[union-attr]
    assert run.launch.end == 33


def test_d5_a_store_that_was_waited_for_is_named_by_what_comes_next() -> None:
    def kernel(tl: Any) -> None:
        x = tl.load(0, (16, 16), "f32")
        tl.wait(tl.store(4096, x))
        tl.load(1024, (16, 16), "f32")

    run = Run(kernel, memory={0: A, 1024: B}).run()
    store, load = list(run.log)[1:]  # type: ignore[arg-type]
    assert store.op_name == "dma_write" and load.dependency_ids == [store.op_id]


def test_d8_a_kernel_is_a_plain_function() -> None:
    assert not inspect.isgeneratorfunction(product)
    positional = Run(lambda a, context: context.load(a, (16,), "f32"), 0, memory={0: A}).run()
    named = Run(lambda a, *, tl: tl.load(a, (16,), "f32"), 0, memory={0: A}).run()
    assert positional.launch.end == named.launch.end == 2


def test_d9_a_component_of_the_users_changes_times_alone() -> None:
    from kernbench import BUSY, NEVER, Component

    class Slow(Component):
        """A tensor engine of 100 cycles a job."""

        def __init__(self) -> None:
            super().__init__()
            self.job, self.due = None, NEVER

        def accept(self, job: Any, now: int) -> int:
            if self.job is not None:
                return BUSY
            self.job, self.due = job.id, now + 99
            return self.due

        def step(self, now: int) -> int:
            if now == self.due:
                self.complete(self.job)  # type: ignore[arg-type]
                self.job, self.due = None, NEVER
            return self.due

    usual = Run(product, 0, 1024, 2048, memory={0: A, 1024: B}).run()
    slow = Run(product, 0, 1024, 2048, memory={0: A, 1024: B}, parts={"te0": Slow(), "te1": Slow()}).run()
    assert usual.launch.end == 50 and slow.launch.end == 149
    for run in (usual, slow):
        assert DataExecutor(run.log).run().verify(A * 2)  # type: ignore[arg-type]
        assert [one.component_id for one in run.log] == ["pe_dma", "pe_dma", "pe_gemm", "pe_dma"]  # type: ignore[union-attr]


def test_d10_phase_1_needs_nothing_of_phase_2() -> None:
    """Cycles are those with a log, and what replays it is not even imported."""
    with_log, without = (Run(product, 0, 1024, 2048, memory={0: A, 1024: B}, logged=on).run() for on in (True, False))
    assert with_log.machine.cycle == without.machine.cycle == 51
    code = (
        "import sys, tests.kernels\n"
        "tests.kernels.Run(lambda tl: tl.zeros((4, 4), 'f32'), logged=False).run()\n"
        "print(*[one for one in sys.modules if 'data_executor' in one or 'replay_gemm' in one or 'verify' in one])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""
