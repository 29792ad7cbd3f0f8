"""Concurrent kernels on one PE: each kernel continues as soon as its own wait is over, while others still wait.

A PE runs one program at a time. A program that calls `side_by_side` runs several kernels as greenlets of its own. They share
the scratchpad, the command queue and the engines of the PE, so they contend for them as the commands of one kernel do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from greenlet import getcurrent, greenlet

from kernbench.components.base import NEVER


class Strands:
    """The kernels of one program, and the condition for which each kernel waits."""

    def __init__(self, runner: Any, kernels: Sequence[Callable[[], object]]) -> None:
        self._runner = runner
        self._program = getcurrent()
        self._left = [greenlet(kernel) for kernel in kernels]
        self._cores = runner.scheduler.cores
        self._inside: set[Any] = set()  # those that a collective runs in, on cores that its channels occupy
        self._waits: dict[Any, tuple[Any, Any, bool]] = {}  # by kernel: the reason, the command, or that any end will do

    def paused(self, reason: Any, flight: Any, any_end: bool, until: int) -> bool:
        """A kernel waits, and the other kernels continue. False if the program itself waits, or a kernel waits for time, in
        which its PE computes addresses.
        """
        me = getcurrent()
        if me not in self._left:
            return False
        if until < NEVER:
            self._waits[me] = reason, None, False
            self._program.switch(until)
            return True
        self._waits[me] = reason, flight, any_end
        self._program.switch(None)
        return True

    def run(self) -> None:
        """All kernels to their ends."""
        runner = self._runner
        woken = True
        while self._left:
            ready = [one for one in self._left if self._ready(one, woken)]
            woken = False
            for one in ready:
                self._waits.pop(one, None)
                until = self._resumed(one)
                while until is not None and not one.dead:
                    runner.pause(self._waits[one][0], None, False, until)
                    until = self._resumed(one)
                if one.dead:
                    self._left.remove(one)
            if self._left and not ready:
                reason, flight, any_end = self._waits[self._left[0]]
                if len(self._left) == 1 and not any_end:
                    runner.pause(reason, flight)
                else:
                    runner.pause(reason, None, True)
                woken = True

    def _resumed(self, one: Any) -> Any:
        """Continue a kernel, whose commands belong to a collective or not."""
        self._cores.enter(one in self._inside)
        until = one.switch()
        if self._cores.enter(False):
            self._inside.add(one)
        else:
            self._inside.discard(one)
        return until

    def _ready(self, one: Any, woken: bool) -> bool:
        if one not in self._waits:
            return True
        _, flight, any_end = self._waits[one]
        return woken if any_end or flight is None else flight.end >= 0


def side_by_side(tl: Any, kernels: Sequence[Callable[[], object]]) -> None:
    """Run kernels on the PE of `tl` at the same time, until all have ended."""
    if len(kernels) < 2:
        for kernel in kernels:
            kernel()
        return
    runner = tl._runner
    runner.strands = strands = Strands(runner, kernels)
    try:
        strands.run()
    finally:
        runner.strands = None
