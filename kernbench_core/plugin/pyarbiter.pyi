"""Arbiters written in Python."""

from collections.abc import Sequence
from typing import Any, NamedTuple

class Scratchpad(NamedTuple):
    """The scratchpad of an arbitration. `ports`: of each bank, for reads (or for both) and for writes."""

    number: int
    banks: int
    ports: tuple[int, int]
    split: bool
    clients: int

class BankRequest(NamedTuple):
    """A request in one cycle. Bit `b` of `reads` and `writes`: it still needs bank `b`."""

    client: int
    submission: int
    channel: int
    since: int
    reads: int
    writes: int

class Arbiter:
    """An arbitration rule written in Python: subclass it and define `arbitrate`. docs/how-to/add_a_rule.md builds one.

    >>> from kernbench import Arbiter, Machine, Program
    >>> class FirstOfAll(Arbiter):
    ...     def arbitrate(self, scratchpad, now, requests):
    ...         return [requests[0].reads | requests[0].writes] + [0] * (len(requests) - 1)
    >>> program = Program()
    >>> load = program.dma_load(tensor_role="weight", qbits=8, dram_addr=0, num_elements=1024, spm_bank=0, spm_offset=0)
    >>> machine = Machine("npu_mobile", program, arbiter=FirstOfAll())
    >>> machine.run(), machine.status
    (False, 'done')
    """

    @property
    def failure(self) -> BaseException | None: ...
    def arbitrate(self, scratchpad: Scratchpad, now: int, requests: Sequence[BankRequest]) -> Sequence[int]:
        """P5 of cycle `now`, for a scratchpad with requests: the mask of granted banks for each request, in tie-break order."""

    def snapshot(self) -> bytes:
        """The whole state as bytes."""

    def restore(self, image: bytes) -> None:
        """Set the state to that of a snapshot."""

def arbiter_operations(arbiter: Any) -> int:
    """The address of the kb_arbiter_ops of a capsule or an `Arbiter`. ValueError where this core cannot call it."""

def arbiter_exception(arbiter: Any) -> BaseException | None:
    """What ended the run in an arbiter written in Python, else None."""
