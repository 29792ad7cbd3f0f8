"""The tensor engines of a PE: products as jobs (docs/model/compute.md)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import Any

from msgspec.structs import astuple

from kernbench.common.dtypes import dtype_of
from kernbench.common.naming import PE_GEMM
from kernbench.common.pe_commands import Stage
from kernbench.common.pe_ops import GemmCmd
from kernbench.components.base import TE, Clock, Typed
from kernbench.components.builtin.flight import Flight, Order
from kernbench.components.builtin.part import PePart, Serving
from kernbench.components.service import te_service
from kernbench.config.schema import Te


class Timing:
    """The common values of all products with the same shapes and types: `k` follows from the shapes of `a` and the result."""

    def __init__(self, msg: GemmCmd, params: tuple[int, ...]) -> None:
        a, b, out = msg.a, msg.b, msg.out
        self.shape_a, self.shape_b, self.shape_out = a.shape, b.shape, out.shape
        self.type_a, self.type_b, self.type_out = a.dtype, b.dtype, out.dtype
        self.params = params  #: of the job in the core
        self.bytes_a, self.bytes_b, self.bytes_out = a.nbytes, b.nbytes, out.nbytes


class Products(Serving):
    """Products as jobs. The addend (`acc`) is already in the accumulators, and takes no time."""

    def __init__(self, node_id: str, engines: Sequence[int], clock: Clock, base: int, te: Te) -> None:
        super().__init__(node_id, engines, clock, base)
        self._te = te
        self._times: dict[tuple[Any, ...], Timing] = {}
        self._factor = Fraction(1)
        self._by_factor = {self._factor: self._times}
        self._last: Timing | None = None
        self._own_orders = type(self).orders is not Products.orders  # of a class that replaces PE_GEMM

    def stretch(self, factor: Fraction) -> None:
        """Multiply service times by this factor from now on (`Cores`)."""
        self._factor = factor
        self._times = self._by_factor.setdefault(factor, {})
        self._last = None

    def orders(self, msg: Any) -> Sequence[Order]:
        a, b, out, base = msg.a, msg.b, msg.out, self.base
        regions = ((a.addr - base, a.nbytes, 0), (b.addr - base, b.nbytes, 0), (out.addr - base, out.nbytes, 1))
        return ((self._timing(msg).params, regions),)

    def plan(self, flight: Flight) -> bool:
        if self._own_orders or type(flight.msg) is not GemmCmd:
            return False
        flight.reach = self._timing(flight.msg)
        flight.plain = True
        return True

    def send(self, processor: Typed, flight: Flight) -> int:
        time: Timing = flight.reach
        msg: GemmCmd = flight.msg
        base = self.base
        a, b, out = msg.a, msg.b, msg.out
        engine = self.engine_of(flight)
        return processor.submit_compute(
            TE, engine, time.params, a.addr - base, time.bytes_a, b.addr - base, time.bytes_b, out.addr - base, time.bytes_out
        )

    def _timing(self, msg: GemmCmd) -> Timing:
        """The service time of a product, computed once for each kind. In a loop the shapes are the same objects as before.
        """
        a, b, out, last = msg.a, msg.b, msg.out, self._last
        if (
            last is not None
            and a.shape is last.shape_a
            and b.shape is last.shape_b
            and out.shape is last.shape_out
            and a.dtype is last.type_a
            and b.dtype is last.type_b
            and out.dtype is last.type_out
        ):
            return last
        key = (msg.m, msg.n, msg.k, a.shape, b.shape, out.shape, a.dtype, b.dtype, out.dtype)
        found = self._times.get(key)
        if found is None:
            found = self._times[key] = Timing(msg, self._params(msg))
        self._last = found
        return found

    def tile_orders(self, stage: Stage, line: str) -> Sequence[Order]:
        """One step of a sum: the sum itself stays in the engine until the last step writes it."""
        work = stage.params
        m, n, k = work["m"], work["n"], work["k"]
        bits_a, bits_b = dtype_of(work["dtype_a"]).bits, dtype_of(work["dtype_b"]).bits
        regions = [(piece.addr - self.base, piece.nbytes, 0) for piece in work["operands"]]
        if work["out"] is not None:
            regions.append((work["out"].addr - self.base, work["out"].nbytes, 1))
        return ((self._job(m, n, k, bits_b, bits_a), regions),)

    def opcode(self, msg: Any) -> str:
        return "TE_GEMM_TILE"

    def _params(self, msg: Any) -> tuple[int, ...]:
        """A stack of products takes the time of one product with the rows of all."""
        bits_a, bits_b = dtype_of(msg.a.dtype).bits, dtype_of(msg.b.dtype).bits
        return self._job(msg.m * prod(msg.out.shape[:-2]), msg.n, msg.k, bits_b, bits_a)

    def _job(self, m: int, n: int, k: int, bits_b: int, bits_a: int) -> tuple[int, ...]:
        """The parameters of a job of the core."""
        time = te_service(self._te, m, n, k, bits_b, bits_a, factor=self._factor)
        parts = () if time.parts is None else astuple(time.parts)
        return (time.init, time.body, time.finalize, m * n * k, m, n, k, bits_b, bits_a, *parts)


class PeGemm(Products, PePart, kind=PE_GEMM):
    """Serves products."""

    __slots__ = ()

    serves = (GemmCmd,)
    engine_type = TE
