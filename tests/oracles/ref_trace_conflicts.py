"""Bank conflicts in a reference trace: requests that are held, and the banks that denied them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ref_banks import Access, Banks, Request
from .ref_trace_jobs import Job
from .ref_trace_lines import DMA, MEMORY, TE, VE, Lines, Who

NAMES = {DMA: "DMA", TE: "TE", VE: "VE"}


class Conflicts:
    """Writes STALL_EVENT `bank_conflict` and SRAM_CONFLICT, from the accesses of one cycle."""

    def __init__(self, lines: Lines, banks: Banks, job_of: Callable[[Request], Job]) -> None:
        self.lines = lines
        self.banks = banks
        self.job_of = job_of

    def cycle(self, cycle: int) -> None:
        """P5 of `cycle` is over."""
        denied = [access for access in self.banks.accesses if not access.granted]
        first = [access for access in denied if access.request.first_denied == cycle]
        for request in dict.fromkeys(access.request for access in first):
            self._held(cycle, min((a for a in first if a.request is request), key=lambda a: a.bank))
        for bank in sorted({access.bank for access in first}):
            for access_type in ("READ", "WRITE"):
                if any(a.bank == bank and self._denied(a, access_type) for a in first):
                    self._conflict(cycle, bank, access_type)

    def _asks(self, access: Access, access_type: str) -> bool:
        """Whether the access wants a port of the kind that serves this direction."""
        if self.banks.shared:
            return True
        return access.bank in (access.request.reads if access_type == "READ" else access.request.writes)

    def _denied(self, access: Access, access_type: str) -> bool:
        """Whether a port for this direction was missing; a shared port is missing for reads, if the request reads the bank."""
        if self.banks.shared:
            reads = access.bank in access.request.reads
            return access.no_read_port and reads == (access_type == "READ")
        return access.no_read_port if access_type == "READ" else access.no_write_port

    def _held(self, cycle: int, access: Access) -> None:
        """A request is held; `access`: of the lowest bank that was denied."""
        request, job = access.request, self.job_of(access.request)
        missing = "READ" if access.no_read_port else "WRITE"
        got = [a for a in self.banks.accesses if a.bank == access.bank and a.granted and self._asks(a, missing)]
        fields: dict[str, Any] = {**job.names, "reason": "bank_conflict", "bank_id": access.bank}
        fields["by_job"] = self.job_of(got[0].request).number
        who = job.who
        if who.kind == DMA:
            who = job.of_channel(request.order[3])
            fields["channel"] = request.order[3]
        self.lines.add("STALL_EVENT", cycle, who, fields, phase=5, level="full")

    def _conflict(self, cycle: int, bank: int, access_type: str) -> None:
        here = [access for access in self.banks.accesses if access.bank == bank]
        denied = [access for access in here if not access.granted and self._denied(access, access_type)]
        kinds = sorted({access.request.order[0] for access in denied})
        fields = {
            "unit": "spm",
            "bank_id": bank,
            "access_type": access_type,
            "num_requests": sum(1 for access in here if self._asks(access, access_type)),
            "allowed": self.banks.write_ports if access_type == "WRITE" and not self.banks.shared else self.banks.read_ports,
            "stalled_clients": [NAMES[kind] for kind in kinds],
            "cmd_id": self.job_of(denied[0].request).record.id,
        }
        self.lines.add("SRAM_CONFLICT", cycle, Who(MEMORY), fields)
