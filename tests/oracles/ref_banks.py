"""Scratchpad bank arbitration (MODEL.md section 5): who gets a port of which bank in a cycle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Order = tuple[int, int, int, int]  # engine type, engine id, submission, DRAM channel: the tie-break


class Request:
    """One request of a flow, TE or VE: banks to read and to write, served when none is missing."""

    def __init__(self, order: Order, reads: Iterable[int], writes: Iterable[int], cycle: int) -> None:
        self.order = order
        self.reads = frozenset(reads)
        self.writes = frozenset(writes)
        self.missing = set(self.reads | self.writes)
        self.opened = cycle
        self.ask_at = cycle  # the cycle in which what is missing is asked for
        self.first_denied: int | None = None

    @property
    def held(self) -> bool:
        """Denied some bank and not served since."""
        return self.first_denied is not None and bool(self.missing)


@dataclass(frozen=True)
class Asking:
    """One request asked one bank in this cycle."""

    request: Request
    bank: int
    no_read_port: bool
    no_write_port: bool

    @property
    def granted(self) -> bool:
        """No port was missing."""
        return not self.no_read_port and not self.no_write_port


class Banks:
    """Ports and counters of the banks."""

    def __init__(self, spm: dict[str, Any]) -> None:
        count = spm["num_banks"]
        self.shared = "read_ports" not in spm
        self.read_ports = spm["ports"] if self.shared else spm["read_ports"]
        self.write_ports = 0 if self.shared else spm["write_ports"]
        self.penalty = spm["conflict_penalty_cycles"]
        self.max_wait = spm["max_wait_cycles"]
        self.requests = [0] * count
        self.grants = [0] * count
        self.denials = [0] * count
        self.askings: list[Asking] = []  # of the last cycle, in the order of arbitration

    def arbitrate(self, cycle: int, requests: list[Request]) -> None:
        """Grant ports to the requests that ask in `cycle`.

        All banks take the same order of requesters, so one walk over the requests in that order
        decides each bank by itself.
        """
        self.askings = []
        used_reads: dict[int, int] = {}  # of a shared port, all uses are counted here
        used_writes: dict[int, int] = {}
        asking = [r for r in requests if r.ask_at == cycle and r.missing]
        for request in sorted(asking, key=lambda r: self._precedence(cycle, r)):
            for bank in sorted(request.missing):
                reads = 1 if self.shared or bank in request.reads else 0
                writes = 1 if not self.shared and bank in request.writes else 0
                self.requests[bank] += 1
                free_reads = self.read_ports - used_reads.get(bank, 0)
                free_writes = self.write_ports - used_writes.get(bank, 0)
                answer = Asking(request, bank, free_reads < reads, free_writes < writes)
                self.askings.append(answer)
                if not answer.granted:
                    self.denials[bank] += 1
                    continue
                self.grants[bank] += 1
                used_reads[bank] = used_reads.get(bank, 0) + reads
                used_writes[bank] = used_writes.get(bank, 0) + writes
                request.missing.discard(bank)
            if request.missing:
                request.ask_at = cycle + self.penalty
                if request.first_denied is None:
                    request.first_denied = cycle

    def _precedence(self, cycle: int, request: Request) -> tuple[int, int, Order]:
        """Those that have waited long enough first, oldest first denial first; then the tie-break."""
        first = request.first_denied
        if first is not None and cycle - first >= self.max_wait:
            return (0, first, request.order)
        return (1, 0, request.order)

    def counters(self) -> dict[str, list[int]]:
        """Askings, grants and denials per bank."""
        return {"requests": self.requests, "grants": self.grants, "denials": self.denials}
