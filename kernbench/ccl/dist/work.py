"""Work handles and futures, with which a worker waits for calls with `async_op=True`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernbench.ccl.dist.errors import ArgumentError
from kernbench.ccl.dist.workers import ask
from kernbench.ccl.dist.world import Poll, Wait
from kernbench.ccl.process_groups import ProcessGroup
from kernbench.ccl.streams import Operation
from kernbench.common.errors import Problem


@dataclass(eq=False)
class Work:
    """The handle of a call with `async_op=True`. The method `wait` returns when the call has ended."""

    operation: Operation
    back: list[Callable[[], None]] = field(default_factory=list, repr=False)  #: copies results to the host's tensors
    tensors: Sequence[Any] = ()  #: that the call writes
    group: ProcessGroup | None = None
    me: int = 0  #: the rank that made the call

    def wait(self, timeout: Any = None) -> bool:
        """Wait until the call has ended. Kernels that were launched after the call run at the same time as the call."""
        ask(Wait(self.operation))
        while self.back:
            self.back.pop(0)()
        return True

    def is_completed(self) -> bool:
        """Let the other ranks continue, and return whether the call has ended. A program may call this function in a loop."""
        return (self.operation.launched and not self.back) or bool(ask(Poll(self.operation)) and self.wait())

    def sender(self) -> int:
        """Return the other rank of a receive among all workers, or -1 if no rank has sent yet."""
        return next((rank for rank in self.operation.ranks if rank != self.me), -1)

    def synchronize(self) -> None:
        """Wait until the call has ended."""
        self.wait()

    def _source_rank(self) -> int:
        """Return the rank in the group from which the tensor of a receive came. The receive must have ended."""
        assert self.group is not None
        return self.group.rank_of(self.sender())

    source_rank = _source_rank

    def is_success(self) -> bool:
        """Return whether the call has ended. A call that is not valid ends the run with an error."""
        return self.is_completed()

    def exception(self) -> None:
        """Return None. A call that is not valid ends the run with an error."""

    def result(self) -> list[Any]:
        """Return the tensors that the call writes, with their results."""
        self.wait()
        return list(self.tensors)

    def get_future(self) -> Future:
        """Return a future, whose value is the list of the tensors that the call writes."""
        return Future(self.result, self.is_completed)


class Future:
    """The future of a call, as `torch.futures.Future`. Its function runs when the worker first waits for the value."""

    def __init__(self, compute: Callable[[], Any], is_done: Callable[[], bool]) -> None:
        self._compute: Callable[[], Any] | None = compute
        self._is_done = is_done
        self._callbacks: list[Callable[[Future], Any]] = []
        self._value: Any = None

    def wait(self) -> Any:
        """Wait until the call has ended, and return the value."""
        if self._compute is not None:
            self._value, self._compute = self._compute(), None
            while self._callbacks:
                self._callbacks.pop(0)(self)
        return self._value

    value = wait

    def done(self) -> bool:
        """Return whether the call has ended."""
        return self._compute is None or self._is_done()

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """Return a future whose value is the result of `callback(self)`."""
        return Future(lambda: (self.wait(), callback(self))[1], self.done)

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call `callback(self)` when a worker has waited for the value."""
        if self._compute is None:
            callback(self)
        else:
            self._callbacks.append(callback)


class Works:
    """The handles of several calls that a worker waits for together."""

    def __init__(self, works: Sequence[Work | None]) -> None:
        self.works = [one for one in works if one is not None]
        self.kind: tuple[str, Any] | None = None  #: collective and reduction that a coalescing manager combines

    def append(self, work: Work) -> None:
        """Add the handle of one more call."""
        self.works.append(work)

    def check(self, name: str, reduction: Any) -> None:
        """Raise ArgumentError if a coalescing manager cannot combine a call with the calls before: as in torch, they must be of
        one collective and one reduction.
        """
        self.kind = self.kind or (name, reduction)
        if self.kind != (name, reduction):
            said = [f"{one} ({op})" if op is not None else one for one, op in (self.kind, (name, reduction))]
            rule = f"a coalescing manager combines calls of one collective and one reduction, and it has {said[0]}"
            raise ArgumentError(Problem("dist._coalescing_manager", rule, "call", said[1], "open another coalescing manager"))

    def wait(self, timeout: Any = None) -> bool:
        """Wait until all calls have ended."""
        return all(one.wait() for one in self.works)

    def is_completed(self) -> bool:
        """Return whether all calls have ended."""
        return all(one.is_completed() for one in self.works)


def together(works: Sequence[Work | None], async_op: bool) -> Any:
    found = Works(works)
    return found if async_op else (found.wait(), None)[1]
