"""Spin loops: attempts that run without the kernel give the cycles, the op log and the elements of the kernel's own loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernbench
import kernbench.triton as triton
import kernbench.triton.language as tl
from kernbench.config import load_config
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.triton.spins import Attempt


@triton.jit
def adds(lock, total, out):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def adds_behind_xchg(lock, total, out):
    while tl.atomic_xchg(lock + 0, 1) != 0:
        pass
    tl.store(total, tl.load(total) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def counts_tries(lock, total, out):
    tries = 0
    while tl.atomic_cas(lock, 0, 1) == 1:
        tries += 1
    tl.store(total, tl.load(total) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)
    tl.store(out + tl.program_id(0), tries)


@triton.jit
def waits_for_its_turn(lock, total, out):
    turn = tl.program_id(0)
    while tl.atomic_add(lock, 0) != turn:
        pass
    tl.store(total, tl.load(total) + 1)
    tl.debug_barrier()
    tl.atomic_add(lock, 1)


KERNELS = [adds, adds_behind_xchg, counts_tries, waits_for_its_turn]


def launch(kernel: Any, programs: int = 12, machine: Any = "single_cube", kind: Any = np.int32, **how: Any) -> tuple[Any, Any]:
    """The run of programs that take turns, and what they stored."""
    lock, total, out = np.zeros(1, kind), np.zeros(1, np.int32), np.zeros(programs, np.int32)
    with kernbench.machine(machine, **how):
        run = kernel[(programs,)](lock, total, out)
    assert total[0] == programs
    return run, (lock[0], out.tolist())


@pytest.fixture
def by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function after whose call each attempt is one of the kernel."""
    return lambda: monkeypatch.setattr(Attempt, "comes_again", lambda attempt, frame: False)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_attempts_without_the_kernel_have_its_cycles_and_its_op_log(kernel: Any, kind: Any, by_the_kernel: Any) -> None:
    here, stored = launch(kernel, kind=kind)
    by_the_kernel()
    there, expected = launch(kernel, kind=kind)
    assert here.cycles == there.cycles and stored == expected
    assert [repr(one) for one in here.engine.op_log.records] == [repr(one) for one in there.engine.op_log.records]


def test_integer_work_between_attempts_takes_its_cycles(by_the_kernel: Any) -> None:
    slow = load_config("single_cube", ["pe.cpu.scalar_cycles=7"])
    here, _ = launch(adds, machine=slow)
    by_the_kernel()
    assert here.cycles == launch(adds, machine=slow)[0].cycles != launch(adds)[0].cycles


def test_most_attempts_of_a_plain_loop_run_without_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    real = Attempt.comes_again
    monkeypatch.setattr(Attempt, "comes_again", lambda last, frame: found.append(real(last, frame)) or found[-1])
    run, _ = launch(adds, programs=24)
    loads = [one for one in run.engine.op_log.records if one.op_name == "dma_read"]
    assert 0 < sum(found) <= 24 and len(found) <= 2 * 24 < len(loads) // 4
    found.clear()
    _, (_, tries) = launch(counts_tries, programs=24)
    assert len(found) == sum(tries) + 24 and not any(found)


def test_a_replay_of_all_ops_has_the_elements_of_a_replay_without_failed_attempts() -> None:
    run, _ = launch(adds)
    whole = DataExecutor(run.engine.op_log, debug=True).run()
    lock = run.engine.op_log.records[0].params["src_addr"]
    assert len(whole.boundaries) == len(run.engine.op_log)
    assert whole.store.read("hbm", lock, (1,), "i32").item() == run.arrays["lock"].item() == 0
    assert run.arrays["total"].item() == 12


def test_a_check_of_races_records_each_attempt() -> None:
    run, _ = launch(adds, check="races")
    assert not run.races
