"""Work handles: calls with `async_op=True` that a worker waits for later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernbench.ccl.dist.workers import ask
from kernbench.ccl.dist.world import Wait
from kernbench.ccl.streams import Operation


@dataclass(eq=False)
class Work:
    """A call with `async_op=True`: `wait` returns when it has been done."""

    operation: Operation
    back: list[Callable[[], None]] = field(default_factory=list, repr=False)  #: copies results to the host's tensors

    def wait(self, timeout: Any = None) -> bool:
        """Wait for it. Kernels that were launched since the call run beside it."""
        ask(Wait(self.operation))
        while self.back:
            self.back.pop(0)()
        return True

    def is_completed(self) -> bool:
        """Whether it was launched; what is called after that comes later on the PE."""
        return self.operation.launched


class Works:
    """Several calls that are waited for together."""

    def __init__(self, works: Sequence[Work | None]) -> None:
        self._works = works

    def wait(self, timeout: Any = None) -> bool:
        """Wait for all of them."""
        return all(one.wait() for one in self._works if one is not None)

    def is_completed(self) -> bool:
        """Whether all were launched."""
        return all(one.is_completed() for one in self._works if one is not None)


def together(works: Sequence[Work | None], async_op: bool) -> Any:
    found = Works(works)
    return found if async_op else (found.wait(), None)[1]
