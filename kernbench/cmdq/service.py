"""Service times of TE and VE jobs (MODEL sections 6 and 7): cycles of work, without waits, in exact arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from kernbench.cmdq.entries import Entry, TeEntry, VeEntry
from kernbench.cmdq.opcodes import VE_REDUCTIONS
from kernbench.common.errors import InternalError
from kernbench.common.units import ceil_div
from kernbench.config.schema import NpuConfig, Te, Ve

_SFU_OPS = frozenset({"exp", "tanh", "sigmoid", "gelu", "silu"})  # elementwise ops with a term sfu[op]


@dataclass(frozen=True, slots=True)
class ServiceTime:
    """Cycles of one job; only the body streams operands."""

    init: int
    body: int
    finalize: int

    @property
    def total(self) -> int:
        """Cycles from start to end without waits and with period 1; at least 1."""
        return self.init + self.body + self.finalize


def service_cycles(entry: Entry, config: NpuConfig) -> ServiceTime:
    """The service time of a TE or VE entry; a job that would take no cycle gets one that touches nothing (`init`)."""
    engine: Te | Ve
    if isinstance(entry, TeEntry):
        engine, body = config.te, _te_body(entry, config.te)
    elif isinstance(entry, VeEntry):
        engine, body = config.ve, _ve_body(entry, config.ve)
    else:
        raise InternalError(f"{entry.where} is neither a TE nor a VE entry")
    init = engine.init_cycles
    if init + body + engine.finalize_cycles == 0:
        init = 1
    return ServiceTime(init, body, engine.finalize_cycles)


def work_of(entry: Entry) -> int:
    """What a job counts when it completes: MACs of a TE entry, ops (`length * batch`) of a VE entry."""
    if isinstance(entry, TeEntry):
        return entry.m * entry.n * entry.k
    if isinstance(entry, VeEntry):
        return entry.length * entry.batch
    raise InternalError(f"{entry.where} is neither a TE nor a VE entry")


def _te_body(entry: TeEntry, te: Te) -> int:
    m, n, k = entry.m, entry.n, entry.k
    if te.timing == "macs":
        return ceil_div(m * n * k, te.rate(entry.qbits_weight, entry.qbits_activation))
    if te.rows is None or te.cols is None:
        raise InternalError("a systolic te without rows and cols")
    rows, cols = te.rows, te.cols
    if te.dataflow == "os":
        return ceil_div(m, rows) * ceil_div(n, cols) * (k + rows + cols - 2) - 1
    if te.dataflow == "ws":
        return ceil_div(k, rows) * ceil_div(n, cols) * (m + 2 * rows + cols - 2) - 1
    if te.dataflow == "is":
        return ceil_div(k, rows) * ceil_div(m, cols) * (n + 2 * rows + cols - 2) - 1
    raise InternalError(f"te.dataflow {te.dataflow} has no formula")


def _ve_body(entry: VeEntry, ve: Ve) -> int:
    elementwise = ceil_div(entry.length * entry.batch, ve.rate(entry.qbits_activation))
    # ceil(log2(length)) in integers; the rows of a batch follow each other through the pipelined tree.
    reduce = ve.reduction_pipeline + (entry.length - 1).bit_length() + entry.batch - 1
    op = entry.op
    if op == "softmax":
        return elementwise + reduce + ve.sfu.get("exp", 0) + reduce + elementwise
    if op in ("layernorm", "rmsnorm"):
        return reduce + elementwise + ve.sfu.get("rsqrt", 0)
    if op in VE_REDUCTIONS:
        return elementwise + reduce
    return elementwise + (ve.sfu.get(op, 0) if op in _SFU_OPS else 0)
