"""Work handles, with which a worker waits for calls with `async_op=True`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernbench.ccl.dist.workers import ask
from kernbench.ccl.dist.world import Wait
from kernbench.ccl.streams import Operation


@dataclass(eq=False)
class Work:
    """The handle of a call with `async_op=True`. The method `wait` returns when the call has ended."""

    operation: Operation
    back: list[Callable[[], None]] = field(default_factory=list, repr=False)  #: copies results to the host's tensors

    def wait(self, timeout: Any = None) -> bool:
        """Wait until the call has ended. Kernels that were launched after the call run at the same time as the call."""
        ask(Wait(self.operation))
        while self.back:
            self.back.pop(0)()
        return True

    def is_completed(self) -> bool:
        """Return whether the call was launched. Everything that this rank calls afterwards comes later on the PE."""
        return self.operation.launched


class Works:
    """The handles of several calls that a worker waits for together."""

    def __init__(self, works: Sequence[Work | None]) -> None:
        self._works = works

    def wait(self, timeout: Any = None) -> bool:
        """Wait until all calls have ended."""
        return all(one.wait() for one in self._works if one is not None)

    def is_completed(self) -> bool:
        """Return whether all calls were launched."""
        return all(one.is_completed() for one in self._works if one is not None)


def together(works: Sequence[Work | None], async_op: bool) -> Any:
    found = Works(works)
    return found if async_op else (found.wait(), None)[1]
