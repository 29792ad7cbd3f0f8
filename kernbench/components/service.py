"""Service times of tensor and vector engines (docs/model/compute.md): cycles of work, without waits, in exact arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernbench.common.errors import InternalError
from kernbench.common.units import ceil_div
from kernbench.components.mma import Tiling, mma_waves
from kernbench.components.systolic import systolic_body
from kernbench.config.schema import Te, Ve

# fmt: off
REDUCTIONS = frozenset({
    "sum", "prod", "mean", "max", "min", "argmax", "argmin", "any", "all",
    "max_num", "min_num", "argmax_num", "argmin_num", "xor_sum",
})
# fmt: on
_PLAIN = frozenset({"add", "mul", "copy"})  # elementwise ops that an `sfu` entry does not slow down


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


def te_service(
    te: Te, m: int, n: int, k: int, qbits_weight: int, qbits_activation: int, tiling: Tiling | None = None
) -> ServiceTime:
    """Of a product `(m, k) @ (k, n)`; `tiling`: how it is cut into blocks, of timing mma."""
    return _service(te, te_body(te, m, n, k, qbits_weight, qbits_activation, tiling))


def ve_service(ve: Ve, op: str, length: int, batch: int, qbits: int) -> ServiceTime:
    """Of a vector op on `batch` rows of `length` elements of `qbits` bits."""
    body = _ve_body(ve, op, length, batch, qbits)
    return _service(ve, body if ve.clock_ratio == 1 else ceil_div(body, ve.clock_ratio))


def _service(engine: Te | Ve, body: int) -> ServiceTime:
    """A job that would take no cycle gets one that touches nothing (`init`)."""
    init = engine.init_cycles
    if init + body + engine.finalize_cycles == 0:
        init = 1
    return ServiceTime(init, body, engine.finalize_cycles)


def te_body(te: Te, m: int, n: int, k: int, qbits_weight: int, qbits_activation: int, tiling: Tiling | None = None) -> int:
    """[cycle] of the body of a product."""
    if te.timing == "macs":
        cycles = ceil_div(m * n * k, *te.rates(qbits_weight, qbits_activation))
    elif te.timing == "systolic":
        cycles = systolic_body(te, m, n, k, qbits_weight, qbits_activation)
    else:
        if te.mma is None:
            raise InternalError("a te with timing mma without mma")
        cycles = mma_waves(te.mma, m, n, k, qbits_weight, qbits_activation, tiling).cycles
    return cycles if te.clock_ratio == 1 else ceil_div(cycles, te.clock_ratio)


def _ve_body(ve: Ve, op: str, length: int, batch: int, qbits: int) -> int:
    elementwise = ceil_div(length * batch * ve.op_cost.get(op, 1), *ve.rates(qbits))
    # ceil(log2(length)) in integers; the rows of a batch follow each other through the pipelined tree.
    reduce = ve.reduction_pipeline + (length - 1).bit_length() + batch - 1
    if op == "softmax":
        return elementwise + reduce + ve.sfu.get("exp", 0) + reduce + elementwise
    if op in ("layernorm", "rmsnorm"):
        return reduce + elementwise + ve.sfu.get("rsqrt", 0)
    if op in REDUCTIONS:
        return elementwise + reduce
    if op == "sort":  # a bitonic network: k (k + 1) / 2 passes over rows of 2 ** k elements
        stages = (length - 1).bit_length()
        return elementwise * max(1, stages * (stages + 1) // 2)
    return elementwise + (0 if op in _PLAIN else ve.sfu.get(op, 0))


#: By kind of engine; the first four of a TE or VE, and all of a DMA, are also what the core's own engines take.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "dma": ("channel", "write", "dram_addr", "row_bytes", "stride", "rows"),
    "cpu": ("init", "body", "finalize", "work"),
    "te": ("init", "body", "finalize", "work", "m", "n", "k", "qbits_weight", "qbits_activation"),
    "ve": ("init", "body", "finalize", "work", "length", "batch", "qbits_activation"),
}


def named(kind: str, job: Any) -> dict[str, int]:
    """The parameters of a job of an engine `dma`, `te`, `ve` or `cpu`, by name."""
    names = PARAMETERS[kind]
    return dict(zip(names, job.params, strict=False))
