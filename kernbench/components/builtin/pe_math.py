"""The vector engines of a PE: elementwise ops and reductions as jobs (docs/model/compute.md)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, prod
from typing import Any

from kernbench.common.dtypes import dtype_of
from kernbench.common.handles import TensorHandle
from kernbench.common.naming import PE_MATH
from kernbench.common.pe_commands import Stage, TileToken
from kernbench.common.pe_ops import MathCmd
from kernbench.common.vector_ops import REDUCTIONS, SCANS
from kernbench.components.base import VE, Clock, Typed
from kernbench.components.builtin.flight import Flight, Order
from kernbench.components.builtin.part import PePart, Serving
from kernbench.components.service import ve_service
from kernbench.config.schema import Ve

# Results with the shape of the input, although the ops reduce whole rows.
ROW_OPS = frozenset({*SCANS, "sort"})
MAX_INPUTS = 3  # regions of a job that are read


class VectorWork(Serving):
    """Math ops as jobs."""

    def __init__(self, node_id: str, engines: Sequence[int], clock: Clock, base: int, ve: Ve) -> None:
        super().__init__(node_id, engines, clock, base)
        self._ve = ve
        self._times: dict[tuple[Any, ...], tuple[int, ...]] = {}
        self._factor = Fraction(1)
        self._by_factor = {self._factor: self._times}
        self._own_orders = type(self).orders is not VectorWork.orders  # of a class that replaces PE_MATH

    def stretch(self, factor: Fraction) -> None:
        """Multiply service times by this factor from now on (`Cores`)."""
        self._factor = factor
        self._times = self._by_factor.setdefault(factor, {})

    def orders(self, msg: Any) -> Sequence[Order]:
        inputs, out = msg.handles, msg.out
        params = self._params_of(msg, inputs[0] if inputs else out)
        regions = [(one.addr - self.base, one.nbytes, 0) for one in inputs[:MAX_INPUTS]]
        regions.append((out.addr - self.base, out.nbytes, 1))
        return ((params, regions),)

    def plan(self, flight: Flight) -> bool:
        if self._own_orders or type(flight.msg) is not MathCmd:
            return False
        inputs = flight.msg.handles
        if not 1 <= len(inputs) <= 2:
            return False
        flight.reach = (self._params_of(flight.msg, inputs[0]), inputs[0], inputs[-1] if len(inputs) > 1 else None)
        flight.plain = True
        return True

    def send(self, processor: Typed, flight: Flight) -> int:
        params, first, second = flight.reach
        a: TensorHandle = first
        b: TensorHandle | None = second
        out: TensorHandle = flight.msg.out
        base, engine, b_addr, b_bytes = self.base, self.engine_of(flight), -1, 0
        if b is not None:
            b_addr, b_bytes = b.addr - base, b.nbytes
        return processor.submit_compute(
            VE, engine, params, a.addr - base, a.nbytes, b_addr, b_bytes, out.addr - base, out.nbytes
        )

    def _params_of(self, msg: MathCmd, first: TensorHandle) -> tuple[int, ...]:
        """The parameters of the job in the core, which are found once for all ops of a kind."""
        out: TensorHandle = msg.out
        key = (msg.op, first.shape, first.dtype, msg.axis, out.shape)
        params = self._times.get(key)
        if params is None:
            params = self._times[key] = self._params(msg.op, first, out, msg.axis)
        return params

    def tile_orders(self, stage: Stage, line: str) -> Sequence[Order]:
        """An op on a tile of rows."""
        work = stage.params
        op, bits, rows, length = work["op"], dtype_of(work["dtype"]).bits, work["rows"], work["length"]
        if op not in REDUCTIONS and op not in ROW_OPS:
            rows, length = 1, rows * length
        time = ve_service(self._ve, op, length, rows, bits)
        regions = [(piece.addr - self.base, piece.nbytes, 0) for piece in work["operands"][:MAX_INPUTS]]
        regions.append((work["out"].addr - self.base, work["out"].nbytes, 1))
        return (((time.init, ceil(time.body * self._factor), time.finalize, length * rows, length, rows, bits), regions),)

    def opcode(self, msg: Any) -> str:
        op = msg.stages[msg.stage_idx].params["op"] if isinstance(msg, TileToken) else msg.op
        return f"VE_{op.upper()}_TILE"

    def _params(self, op: str, first: Any, out: Any, axis: int | None) -> tuple[int, ...]:
        bits = dtype_of(first.dtype).bits
        length, batch = prod(out.shape), 1
        if op in REDUCTIONS or op in ROW_OPS:
            total = prod(first.shape)
            length = total if axis is None else first.shape[axis]
            batch = total // length
        time = ve_service(self._ve, op, length, batch, bits)
        return (time.init, ceil(time.body * self._factor), time.finalize, length * batch, length, batch, bits)


class PeMath(VectorWork, PePart, kind=PE_MATH):
    """Serves math ops."""

    __slots__ = ()

    serves = (MathCmd,)
    engine_type = VE
