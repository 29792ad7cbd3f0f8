"""Service times of the entries of a program (docs/model/compute.md)."""

from __future__ import annotations

from kernbench.cmdq.entries import Entry, TeEntry, VeEntry
from kernbench.common.errors import InternalError
from kernbench.components.service import ServiceTime, te_service, ve_service
from kernbench.config.schema import NpuConfig

__all__ = ["ServiceTime", "service_cycles", "work_of"]


def service_cycles(entry: Entry, config: NpuConfig) -> ServiceTime:
    """The service time of a TE or VE entry; a job that would take no cycle gets one that touches nothing (`init`)."""
    if isinstance(entry, TeEntry):
        return te_service(config.te, entry.m, entry.n, entry.k, entry.qbits_weight, entry.qbits_activation)
    if isinstance(entry, VeEntry):
        return ve_service(config.ve, entry.op, entry.length, entry.batch, entry.qbits_activation)
    raise InternalError(f"{entry.where} is neither a TE nor a VE entry")


def work_of(entry: Entry) -> int:
    """What a job counts when it completes: MACs of a TE entry, ops (`length * batch`) of a VE entry."""
    if isinstance(entry, TeEntry):
        return entry.m * entry.n * entry.k
    if isinstance(entry, VeEntry):
        return entry.length * entry.batch
    raise InternalError(f"{entry.where} is neither a TE nor a VE entry")
