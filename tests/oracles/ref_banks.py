"""Scratchpad bank arbitration (docs/model/banks_and_arbiters.md, P5): who gets a port of which bank in a cycle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Order = tuple[int, int, int, int]  # engine type, engine id, submission, DRAM channel: the tie-break
Client = tuple[int, int]  # engine type, engine id


class Request:
    """One request of a flow, TE or VE: banks to read and to write, served when none is missing."""

    def __init__(self, order: Order, reads: Iterable[int], writes: Iterable[int], cycle: int) -> None:
        self.order = order
        self.reads = frozenset(reads)
        self.writes = frozenset(writes)
        self.missing = set(self.reads | self.writes)
        self.opened = cycle
        self.next_request = cycle  # the cycle in which the missing banks are requested
        self.first_denied: int | None = None

    @property
    def held(self) -> bool:
        """Denied some bank and not served since."""
        return self.first_denied is not None and bool(self.missing)


@dataclass(frozen=True)
class Access:
    """The request of one bank by one requester in this cycle."""

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
        self.round_robin = spm.get("arbiter", "oldest_first") == "round_robin"
        self.last_granted: list[Client | None] = [None] * count  # of round robin: the client that last got a grant
        self.requests = [0] * count
        self.grants = [0] * count
        self.denials = [0] * count
        self.places: dict[Client, Client] = {}  # of a perturbed run: the client in whose place another one comes
        self.accesses: list[Access] = []  # of the last cycle, in the order of arbitration; round robin: in tie-break order

    def arbitrate(self, cycle: int, requests: list[Request]) -> None:
        """P5 of `cycle`: grant ports to the requests made in it; denied requests are made again after the penalty."""
        made = [r for r in requests if r.next_request == cycle and r.missing]
        if self.round_robin:
            self._in_rounds(made)
        else:
            self._by_age(cycle, made)
        for request in made:
            if request.missing:
                request.next_request = cycle + self.penalty
                if request.first_denied is None:
                    request.first_denied = cycle

    def _by_age(self, cycle: int, made: list[Request]) -> None:
        """Grant ports oldest first.

        All banks use the same order of requests, so one loop over the requests in this order decides each bank.
        """
        self.accesses = []
        used_reads: dict[int, int] = {}  # includes all uses of shared ports
        used_writes: dict[int, int] = {}
        for request in sorted(made, key=lambda r: self._precedence(cycle, r)):
            for bank in sorted(request.missing):
                reads = 1 if self.shared or bank in request.reads else 0
                writes = 1 if not self.shared and bank in request.writes else 0
                self.requests[bank] += 1
                free_reads = self.read_ports - used_reads.get(bank, 0)
                free_writes = self.write_ports - used_writes.get(bank, 0)
                access = Access(request, bank, free_reads < reads, free_writes < writes)
                self.accesses.append(access)
                if not access.granted:
                    self.denials[bank] += 1
                    continue
                self.grants[bank] += 1
                used_reads[bank] = used_reads.get(bank, 0) + reads
                used_writes[bank] = used_writes.get(bank, 0) + writes
                request.missing.discard(bank)

    def _in_rounds(self, made: list[Request]) -> None:
        """Each bank grants its clients in circular order, starting after the client that last got a grant."""
        self.accesses = []
        for bank in sorted({bank for request in made for bank in request.missing}):
            here = sorted((r for r in made if bank in r.missing), key=lambda r: r.order)
            last = self.last_granted[bank]
            if last is not None:
                here = [r for r in here if r.order[:2] > last] + [r for r in here if r.order[:2] <= last]
            reads_left, writes_left = self.read_ports, self.write_ports
            for request in here:
                reads = self.shared or bank in request.reads
                writes = not self.shared and bank in request.writes
                access = Access(request, bank, reads and reads_left == 0, writes and writes_left == 0)
                self.accesses.append(access)
                self.requests[bank] += 1
                if not access.granted:
                    self.denials[bank] += 1
                    continue
                self.grants[bank] += 1
                reads_left -= reads
                writes_left -= writes
                request.missing.discard(bank)
                self.last_granted[bank] = request.order[:2]
        self.accesses.sort(key=lambda a: (a.request.order, a.bank))

    def _precedence(self, cycle: int, request: Request) -> tuple[int, int, Order]:
        """Aged requests come first, by their first denials; the others follow in tie-break order."""
        first, client = request.first_denied, request.order[:2]
        order = (*self.places.get(client, client), *request.order[2:])
        if first is not None and cycle - first >= self.max_wait:
            return (0, first, order)
        return (1, 0, order)

    def counters(self) -> dict[str, list[int]]:
        """Requests, grants and denials of each bank."""
        return {"requests": self.requests, "grants": self.grants, "denials": self.denials}
