"""The tensor engines of a PE: products as jobs (MODEL section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from kernbench.common.dtypes import dtype_of
from kernbench.common.naming import PE_GEMM
from kernbench.common.pe_commands import Stage
from kernbench.common.pe_ops import GemmCmd
from kernbench.components.base import TE, Clock
from kernbench.components.builtin.flight import Order
from kernbench.components.builtin.part import PePart, Serving
from kernbench.components.service import te_service
from kernbench.config.schema import Te


class Products(Serving):
    """Products as jobs. What is added (`acc`) is read where the sum stands, and costs nothing of its own."""

    def __init__(self, node_id: str, engines: Sequence[int], clock: Clock, base: int, te: Te) -> None:
        super().__init__(node_id, engines, clock, base)
        self._te = te
        self._times: dict[tuple[Any, ...], tuple[int, ...]] = {}

    def orders(self, msg: Any) -> Sequence[Order]:
        a, b, out = msg.a, msg.b, msg.out
        key = (msg.m, msg.n, msg.k, a.dtype, b.dtype, out.shape)
        params = self._times.get(key)
        if params is None:
            params = self._times[key] = self._params(msg)
        base = self.base
        regions = ((a.addr - base, a.nbytes, 0), (b.addr - base, b.nbytes, 0), (out.addr - base, out.nbytes, 1))
        return ((params, regions),)

    def tile_orders(self, stage: Stage, line: str) -> Sequence[Order]:
        """One step of a sum: the sum itself stays in the engine until the last step writes it."""
        work = stage.params
        m, n, k = work["m"], work["n"], work["k"]
        bits_a, bits_b = dtype_of(work["dtype_a"]).bits, dtype_of(work["dtype_b"]).bits
        time = te_service(self._te, m, n, k, bits_b, bits_a)
        regions = [(piece.addr - self.base, piece.nbytes, 0) for piece in work["operands"]]
        if work["out"] is not None:
            regions.append((work["out"].addr - self.base, work["out"].nbytes, 1))
        return (((time.init, time.body, time.finalize, m * n * k, m, n, k, bits_b, bits_a), regions),)

    def opcode(self, msg: Any) -> str:
        return "TE_GEMM_TILE"

    def _params(self, msg: Any) -> tuple[int, ...]:
        """A stack of products takes the time of one as tall as all."""
        bits_a, bits_b = dtype_of(msg.a.dtype).bits, dtype_of(msg.b.dtype).bits
        m = msg.m * prod(msg.out.shape[:-2])
        time = te_service(self._te, m, msg.n, msg.k, bits_b, bits_a)
        return (time.init, time.body, time.finalize, m * msg.n * msg.k, m, msg.n, msg.k, bits_b, bits_a)


class PeGemm(Products, PePart, kind=PE_GEMM):
    """Serves products."""

    __slots__ = ()

    serves = (GemmCmd,)
    engine_type = TE
