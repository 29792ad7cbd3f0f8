"""Bank arbitration of the SimPy model (docs/model/banks_and_arbiters.md): plain Python that its process calls once a cycle."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

NEVER = 1 << 62  # a cycle that does not come

by_rank = attrgetter("rank")


class Requester:
    """A flow, TE or VE, as its scratchpad sees it."""

    __slots__ = ("ask_at", "first_denied", "missing", "rank")

    def __init__(self, rank: int) -> None:
        self.rank = rank  # engine type, id, submission, channel: the tie-break in one number
        self.missing = 0  # banks that the open request still lacks; 0: no open request
        self.ask_at = 0  # the cycle in which it asks for them
        self.first_denied = NEVER

    def request(self, banks: int, cycle: int, scratchpad: Scratchpad) -> None:
        """P5: open a request for a set of banks."""
        self.missing = banks
        self.ask_at = cycle
        self.first_denied = NEVER
        scratchpad.waiting.append(self)

    def served(self, cycle: int) -> None:
        """P6: nothing is missing any more. A TE or VE sees it at its next step."""

    def held(self, cycle: int) -> None:
        """P7 of a cycle in which it was not served."""


class Scratchpad:
    """Banks with shared ports; sets of banks are bits of an int."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.ports: int = table["ports"][0]
        self.penalty: int = table["penalty"]
        self.max_wait: int = table["max_wait"]
        self.backpressure: int = table["backpressure"]
        self.row: int = table["banks"] * table["line"]  # [B]
        self.all_banks = (1 << table["banks"]) - 1
        self.waiting: list[Requester] = []  # requests not served yet
        self.grants = 0  # over all banks
        self.denials = 0

    def arbitrate(self, cycle: int) -> None:
        """Grant ports in the order of `oldest_first`; what is not served stays in `waiting`."""
        turn = self.waiting
        turn.sort(key=by_rank)
        aged_before = cycle - self.max_wait
        aged = [r for r in turn if r.first_denied <= aged_before]
        if aged:
            aged.sort(key=attrgetter("first_denied"))
            turn = aged + [r for r in turn if r.first_denied > aged_before]
        free = [self.all_banks] * self.ports  # free[k]: banks with more than k ports left
        self.waiting = []
        for requester in turn:
            if requester.ask_at <= cycle:
                got = requester.missing & free[0]
                for k in range(self.ports - 1):
                    free[k] = (free[k] & ~got) | (free[k + 1] & got)
                free[-1] &= ~got
                self.grants += got.bit_count()
                requester.missing ^= got
                if not requester.missing:
                    requester.served(cycle)
                    continue
                self.denials += requester.missing.bit_count()
                requester.ask_at = cycle + self.penalty
                if requester.first_denied == NEVER:
                    requester.first_denied = cycle
            requester.held(cycle)
            self.waiting.append(requester)
