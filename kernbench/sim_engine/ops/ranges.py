"""The bytes that an op reads and writes, from which the order of a replay follows."""

from __future__ import annotations

from typing import TypeAlias

from kernbench.common.dtypes import nbytes_of
from kernbench.sim_engine.op_log import OpRecord, OpRow
from kernbench.sim_engine.ops.params import Params
from kernbench.sim_engine.ops.reaches import reaches_of

Bytes: TypeAlias = tuple[str, int, int]  #: space, first byte, end


class ReplayOp:
    """An op of a replay: the row of its record, and the bytes it touches."""

    def __init__(self, row: OpRow, op_id: int) -> None:
        self.row = row
        self.op_id = op_id
        self._reads: list[Bytes] | None = None  # computed on first use
        self._writes: list[Bytes] | None = None

    @property
    def record(self) -> OpRecord:
        """Its record."""
        return self.row.record

    @property
    def params(self) -> Params:
        """The parameters of its record."""
        return Params(self.row.template, self.row.values)

    @property
    def reads(self) -> list[Bytes]:
        """The bytes that it reads."""
        return self._reads if self._reads is not None else self._find()

    @property
    def writes(self) -> list[Bytes]:
        """The bytes that it writes."""
        if self._writes is None:
            self._find()
        return self._writes  # type: ignore[return-value]  # found

    def _find(self) -> list[Bytes]:
        template, values, kind = self.row.template, self.row.values, self.row.op_kind
        reads: list[Bytes] = []
        writes: list[Bytes] = []
        reaches = template.plans.get(kind)
        if reaches is None:
            reaches = template.plans[kind] = tuple(reaches_of(kind, self.params))
        for where, space, low, high, written in reaches:
            addr = values[where]
            if addr is not None:
                (writes if written else reads).append((space, addr + low, addr + high))
        if "epilogue" in template.varying:
            steps = [step for step in self.params["epilogue"] if "addr" in step]
            reads += [(one["space"], one["addr"], one["addr"] + nbytes_of(one["shape"], one["dtype"])) for one in steps]
        self._reads, self._writes = reads, writes
        return reads

    def conflicts(self, other: ReplayOp) -> bool:
        """Whether one of the two writes a byte that the other reads or writes."""
        return _meet(self.writes, other.writes + other.reads) or _meet(self.reads, other.writes)

    def __str__(self) -> str:
        """`op 12 (gemm_f16 at sip0.cube0.pe0.pe_gemm, kernel.py:14)`."""
        line = self.params.get("line")
        return f"op {self.op_id} ({self.row.op_name} at {self.row.component_id}{f', {line}' if line else ''})"


def _meet(some: list[Bytes], others: list[Bytes]) -> bool:
    for a in some:
        for b in others:
            if a[0] == b[0] and a[1] < b[2] and b[1] < a[2]:
                return True
    return False
