"""Calls that are refused to kernels while a machine runs: they are replaced for that time, and come back."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

import numpy as np
import pytest

from kernbench.triton_emu.errors import KernelError
from kernbench.triton_emu.user_code import _CALLS, calls_refused
from tests.kernels import Run

A = np.zeros(16, np.float32)


def calls() -> list[Any]:
    """All that are replaced, as they are now."""
    return [getattr(owner, name) for owner, name, *_ in _CALLS] + [sys.stdout.close, sys.stderr.detach, sys.stdout, sys.stderr]


def fails(tl: Any) -> None:
    tl.load(0, (16,), "f32", wait=True)
    sys.stdout = None
    raise ValueError("it fails")


def hangs(tl: Any) -> None:
    tl.load(0, (16,), "f32", wait=True)
    raise KeyboardInterrupt


@pytest.mark.parametrize("kernel", [fails, hangs, lambda tl: tl.store(64, tl.load(0, (16,), "f32"))])
def test_they_are_back_however_a_run_ends(kernel: Any) -> None:
    before, seen = calls(), []
    run = Run(lambda tl: (seen.extend(calls()), kernel(tl)), memory={0: A})
    try:
        run.machine.run()
    except KeyboardInterrupt:
        assert kernel is hangs
    assert calls() == before and seen and not set(map(id, seen[:10])) & set(map(id, before[:10]))


def test_they_are_back_between_steps() -> None:
    before = calls()
    run = Run(fails, memory={0: A})
    while run.machine.status == "running":
        run.machine.step()
        assert calls() == before
    assert run.machine.status == "failed"


def test_runs_in_two_threads_that_overlap() -> None:
    """The first to begin ends first: what is put back are not the other's."""
    before = calls()
    inside, go_on = threading.Barrier(2), threading.Event()

    def other() -> None:
        with calls_refused():
            inside.wait()
            go_on.wait()

    thread = threading.Thread(target=other)
    with calls_refused():
        thread.start()
        inside.wait()
    assert os._exit is not before[0]
    go_on.set()
    thread.join()
    assert calls() == before


def test_other_threads_and_the_host_keep_them() -> None:
    done: list[Any] = []

    def body(host: Any) -> None:
        thread = threading.Thread(target=lambda: done.append(os.dup2(2, 2)))
        thread.start()
        thread.join()
        done.append(signal.signal(signal.SIGUSR1, signal.signal(signal.SIGUSR1, signal.SIG_IGN)))

    Run(body=body, memory={0: A}).run()
    assert done == [2, signal.SIG_IGN]


def test_a_signal_that_python_handles_may_be_sent() -> None:
    """It comes as any other; one that would end the process is refused, in a kernel and in what it has called."""

    def sends(number: int) -> None:
        os.kill(os.getpid(), number)

    run = Run(lambda tl: sends(signal.SIGINT), memory={0: A})
    with pytest.raises(KeyboardInterrupt):
        run.machine.run()
    assert isinstance(Run(lambda tl: sends(signal.SIGKILL), memory={0: A}).fail(), KernelError)
    Run(lambda tl: sends(0), memory={0: A}).run()
