"""Which bytes an op reads and writes: what its order in a replay follows from."""

from __future__ import annotations

from typing import TypeAlias

from kernbench.common.dtypes import nbytes_of
from kernbench.sim_engine.op_log import OpRecord
from kernbench.sim_engine.ops.params import shared
from kernbench.sim_engine.ops.reaches import reaches_of

Bytes: TypeAlias = tuple[str, int, int]  #: space, first byte, end


class ReplayOp:
    """An op of a replay: its record, and the bytes it touches."""

    def __init__(self, record: OpRecord, op_id: int) -> None:
        self.record = record
        self.op_id = op_id
        self.deps = record.dependency_ids
        self.params = shared(record.params)
        self._reads: list[Bytes] | None = None  # computed on first use
        self._writes: list[Bytes] = []

    @property
    def reads(self) -> list[Bytes]:
        """The bytes that it reads."""
        return self._reads if self._reads is not None else self._find()

    @property
    def writes(self) -> list[Bytes]:
        """The bytes that it writes."""
        if self._reads is None:
            self._find()
        return self._writes

    def _find(self) -> list[Bytes]:
        params = self.params
        reads: list[Bytes] = []
        plans, values = params.template.plans, params.values_of_op
        kind = self.record.op_kind
        reaches = plans.get(kind)
        if reaches is None:
            reaches = plans[kind] = tuple(reaches_of(kind, params))
        for where, space, low, high, writes in reaches:
            addr = values[where]
            if addr is not None:
                (self._writes if writes else reads).append((space, addr + low, addr + high))
        if "epilogue" in params.template.varying:
            steps = [step for step in params["epilogue"] if "addr" in step]
            reads += [(one["space"], one["addr"], one["addr"] + nbytes_of(one["shape"], one["dtype"])) for one in steps]
        self._reads = reads
        return reads

    def conflicts(self, other: ReplayOp) -> bool:
        """Whether one of the two writes a byte that the other reads or writes."""
        return _meet(self.writes, other.writes + other.reads) or _meet(self.reads, other.writes)

    def __str__(self) -> str:
        """`op 12 (gemm_f16 at sip0.cube0.pe0.pe_gemm, kernel.py:14)`."""
        line = self.params.get("line")
        return f"op {self.op_id} ({self.record.op_name} at {self.record.component_id}{f', {line}' if line else ''})"


def _meet(some: list[Bytes], others: list[Bytes]) -> bool:
    for a in some:
        for b in others:
            if a[0] == b[0] and a[1] < b[2] and b[1] < a[2]:
                return True
    return False
