"""Arbiters written in Python."""

from collections.abc import Sequence
from typing import Any, NamedTuple

class Scratchpad(NamedTuple):
    """The scratchpad whose banks are to be granted; `ports` of each bank: for reads (or both) and for writes."""

    number: int
    banks: int
    ports: tuple[int, int]
    split: bool
    clients: int

class BankRequest(NamedTuple):
    """A request of one cycle; bit `b` of `reads` and `writes` says that it lacks bank `b`."""

    client: int
    submission: int
    channel: int
    since: int
    reads: int
    writes: int

class Arbiter:
    """A rule of who is granted which bank: subclass it, and give it `arbitrate`. `docs/how-to/add_a_rule.md` does."""

    @property
    def failure(self) -> BaseException | None: ...
    def arbitrate(self, scratchpad: Scratchpad, now: int, requests: Sequence[BankRequest]) -> Sequence[int]:
        """P5 of cycle `now`, of a scratchpad that somebody asks: for each request, in tie-break order, the mask of the banks granted."""

    def snapshot(self) -> bytes:
        """All state as bytes."""

    def restore(self, image: bytes) -> None:
        """Put a snapshot back."""

def arbiter_operations(arbiter: Any) -> int:
    """The address of the kb_arbiter_ops of a capsule or an `Arbiter`. ValueError where this core cannot call it."""

def arbiter_exception(arbiter: Any) -> BaseException | None:
    """What ended the run in an arbiter written in Python, else None."""
