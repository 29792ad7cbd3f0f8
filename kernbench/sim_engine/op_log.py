"""The op log (seed ADR-0052 D1 to D5, seed ADR-0020 D2 and D5): the kind, the times and the bytes of every data op.

Components log through the hooks of their base class alone (`record_start`, `record_end`); what one PE receives from another
comes through `record_copy`, what the host writes while kernels run through `record_write`. Times are ns.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NoReturn

from kernbench.common.dtypes import Array, dtype_of, nbytes_of
from kernbench.common.errors import InternalError
from kernbench.common.handles import TensorHandle
from kernbench.common.pe_commands import MemoryWriteMsg
from kernbench.common.pe_ops import Command, DmaReadCmd, DmaWriteCmd, GemmCmd, MathCmd, OpIds
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.ops.info import (
    copy_row,
    math_row,
    op_row,
    put_dma_read,
    put_dma_write,
    put_gemm,
    snapshot_sources,
    write_row,
)
from kernbench.sim_engine.ops.params import OpValues, Params, Row, Template, shared
from kernbench.sim_engine.ops.spill import Runs

_WITHOUT = frozenset((DmaReadCmd, GemmCmd))  # most messages: they are not stages, and nothing is copied
_SERVED = _WITHOUT | {DmaWriteCmd, MathCmd, MemoryWriteMsg}  # messages that are no stages
_PROCESS = [os.getpid()]  # read once in each process, so that logs of a process have the same object
os.register_at_fork(after_in_child=lambda: _PROCESS.__setitem__(0, os.getpid()))
RECORD_BYTES = 500  #: [B] that a record takes without its payload, for the size limit


@dataclass(slots=True, eq=False)
class OpRecord:
    """One op of an op log. `op_id` identifies it: two records are never equal.

    >>> from kernbench.sim_engine.op_log import OpRecord
    >>> OpRecord(0.0, 8.0, "sip0.cube0.pe0.pe_math", "math", "exp", {"shape": (4,), "dtype": "f32"}).op_name
    'exp'
    """

    t_start: float  #: [ns] the component began to serve it
    t_end: float  #: [ns] it was done; links are not in between
    component_id: str
    op_kind: str  #: memory, gemm, math or unknown
    op_name: str  #: `dma_read`, `gemm_f16`, `exp`, `TileToken/DMA_READ`, `composite_gemm`, `ipcq_copy`, ...
    params: Mapping[str, Any]  #: by op name; `shape`, `dtype` and the like, and `line`, the kernel's source line
    dependency_ids: list[int] = field(default_factory=list)  #: op ids of earlier records
    op_id: int = -1  #: constant for a record, on disk too; a log assigns them from 0 on


class OpRow(OpValues):
    """A record as the log stores it until code reads the record. The garbage collector does not visit rows."""

    def __init__(
        self,
        t_start: float,
        t_end: float,
        component_id: str,
        op_kind: str,
        op_name: str,
        template: Template,
        values: tuple[Any, ...],
        deps: tuple[int, ...],
        op_id: int,
    ) -> None:
        super().__init__(op_kind, op_name, template, values)
        self.t_start, self.t_end, self.component_id = t_start, t_end, component_id
        self.deps, self.op_id = deps, op_id
        self._record: OpRecord | None = None

    @property
    def record(self) -> OpRecord:
        """The record, which is made once."""
        if self._record is None:
            params, deps = Params(self.template, self.values), list(self.deps)
            times = self.t_start, self.t_end
            self._record = OpRecord(*times, self.component_id, self.op_kind, self.op_name, params, deps, self.op_id)
        return self._record


def row_of(record: OpRecord) -> OpRow:
    """The row of a record."""
    params, times, deps = shared(record.params), (record.t_start, record.t_end), tuple(record.dependency_ids)
    names = record.component_id, record.op_kind, record.op_name
    row = OpRow(*times, *names, params.template, params.values_of_op, deps, record.op_id)
    row._record = record
    return row


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor whose final elements are compared with a reference."""

    name: str
    space: str
    addr: int
    shape: tuple[int, ...]
    dtype: str


_START = attrgetter("t_start")


class OpLogger:
    """The op log of one run: a sequence of `OpRecord`, ordered by `t_start`; records with equal times keep the order of
    logging.

    >>> import kernbench as kb
    >>> @kb.bench(name="zeros", description="zeros")
    ... def zeros(ctx):
    ...     ctx.launch("zeros", lambda tl: tl.wait(tl.zeros((4,), "f32")), grid=1)
    >>> engine = kb.GraphEngine("single_cube")
    >>> status = engine.run(zeros).status
    >>> [record.op_name for record in engine.op_log]
    ['full']
    """

    def __init__(
        self, memory_store: MemoryStore | None = None, *, limit_bytes: int | None = None, directory: str | None = None
    ) -> None:
        """Without a `memory_store`, only times are kept, and the log cannot be replayed.

        Past `limit_bytes` of records and snapshots they go to a temporary file in `directory`, and are read back as needed.
        """
        self._rows: list[OpRow] = []  # records that have not been read, in the order of logging
        self._records: list[OpRecord] = []
        self._pending: dict[int, tuple[float, str, Any, dict[str, Any] | None, int]] = {}
        self._memory_store = memory_store
        self._initial: MemoryStore | None = None
        self.ids = OpIds()  #: also of commands that others depend on before they are logged
        self._process = _PROCESS[0]
        self.outputs: list[Output] = []  #: the outputs of the run, verified by name
        self._limit = limit_bytes
        self._directory = directory
        self._held = 0
        self._runs: Runs[OpRecord] | None = None
        self._spilled = 0

    @property
    def records(self) -> list[OpRecord]:
        """All records, sorted stably by `t_start` on each access."""
        self._settle()
        return self._records if self._runs is None else list(self._runs.merged(self._records))

    @property
    def initial_store(self) -> MemoryStore | None:
        """The memories before the first record, from where a replay begins; None without a memory store."""
        if self._initial is None and self._memory_store is not None:
            self._initial = self._memory_store.snapshot()
        return self._initial

    def record_start(self, t: float, component_id: str, msg: Any) -> None:
        """A component begins with a message. The stage of a tile token is kept now: at the end it has gone on."""
        if _PROCESS[0] is not self._process:
            self._refuse_process(component_id, msg)
        number = id(msg)
        if number in self._pending:
            self._refuse(component_id, msg, "it is being served already")
        if self._initial is None:
            _ = self.initial_store
        stage = None if type(msg) in _WITHOUT else getattr(msg, "stage", None)
        snap = None if stage is None else {"stage_type": stage.stage_type.name, "stage_params": dict(stage.params)}
        op_id = getattr(msg, "op_id", None)
        # The message is kept alive, so that its id() is unique while the entry exists.
        self._pending[number] = (t, component_id, msg, snap, self.ids.new() if op_id is None else op_id)

    def record_end(self, t: float, component_id: str, msg: Any) -> None:
        """The component has ended the op. The record is complete, with copies of the operands that seed ADR-0052 D4 names."""
        if _PROCESS[0] is not self._process:
            self._refuse_process(component_id, msg)
        entry = self._pending.pop(id(msg), None)
        if entry is None or entry[1] != component_id:
            self._refuse(component_id, msg, "it was not begun there")
        t_start, _, _, snap, op_id = entry
        snapshots = self._snapshots(msg) if self._memory_store is not None else ()
        kind, name, template, values = op_row(msg, snapshots)
        if snap is not None:
            params = shared({**snap["stage_params"], **Params(template, values), "stage_type": snap["stage_type"]})
            template, values = params.template, params.values_of_op
            if name == "TileToken":
                name = f"TileToken/{snap['stage_type']}"
        deps = getattr(msg, "dependency_ids", ())
        self._rows.append(OpRow(t_start, t, component_id, kind, name, template, values, tuple(deps), op_id))
        if self._limit is not None:
            self._hold(sum([one.nbytes for one in snapshots if one is not None]))

    def record_served(self, t_start: float, t_end: float, component_id: str, msg: Any) -> None:
        """Both at once, of a component that is notified of both when it is done."""
        kind = type(msg)
        frequent = kind is DmaReadCmd or kind is GemmCmd  # a look-up in a set would take longer
        if not (frequent or kind in _SERVED) or self._limit is not None or _PROCESS[0] is not self._process:
            self.record_start(t_start, component_id, msg)
            self.record_end(t_end, component_id, msg)
            return
        if self._initial is None:
            _ = self.initial_store
        row = OpRow.__new__(OpRow)
        if kind is DmaReadCmd:
            put_dma_read(row, msg)
        elif kind is GemmCmd:
            put_gemm(row, msg)
        else:
            snapshots = self._snapshots(msg) if self._memory_store is not None else ()
            if kind is DmaWriteCmd:
                put_dma_write(row, msg, snapshots)
            else:
                row.put(math_row(msg, snapshots) if kind is MathCmd else op_row(msg, snapshots))
        if kind is MemoryWriteMsg:
            op_id, deps = msg.op_id, msg.dependency_ids
        else:
            command: Command = msg
            op_id, deps = command.op_id, command.dependency_ids
        row.t_start, row.t_end, row.component_id = t_start, t_end, component_id
        row.deps, row.op_id = tuple(deps) if deps else (), self.ids.new() if op_id is None else op_id
        row._record = None
        self._rows.append(row)

    def record_copy(
        self,
        t_start: float,
        t_end: float,
        component_id: str,
        *,
        src_space: str,
        src_addr: int,
        dst_space: str,
        dst_addr: int,
        shape: tuple[int, ...],
        dtype: str,
        nbytes: int,
        snapshot: Array | None = None,
        line: str = "",
        dependency_ids: Sequence[int] = (),
        op_id: int | None = None,
    ) -> int:
        """Bytes received from another PE; `snapshot` is the data in flight; without it, the source is read now. Returns the op
        id."""
        _ = self.initial_store
        if self._memory_store is None:
            data = None
        elif snapshot is not None:
            data = snapshot.copy()
        else:
            data = self._copy_of(src_space, src_addr, shape, dtype)
        row = copy_row((src_space, src_addr), (dst_space, dst_addr), tuple(shape), dtype, nbytes, line, data)
        return self._push((t_start, t_end), component_id, row, dependency_ids, op_id)

    def record_write(
        self, t: float, component_id: str, space: str, addr: int, values: Array, virtual_addr: int | None = None, line: str = ""
    ) -> int:
        """Known elements that the host or a PE's scalar side wrote into a memory after the first record. Returns the op id."""
        _ = self.initial_store
        dtype = dtype_of(values.dtype).name
        data = None if self._memory_store is None else values.copy()
        row = write_row(space, addr, virtual_addr, values.shape, dtype, nbytes_of(values.shape, dtype), line, data)
        return self._push((t, t), component_id, row, (), None)

    def rows(self) -> Iterable[OpRow]:
        """The rows of all records, in order: a list, unless records have gone to disk."""
        if self._runs is not None:
            return map(row_of, self)
        if self._records:
            return [row_of(one) for one in self]
        self._rows.sort(key=_START)
        return self._rows[:]

    def __bool__(self) -> bool:
        return True  # an empty log counts as a log: hooks test `if self._op_logger`

    def __len__(self) -> int:
        return self._spilled + len(self._records) + len(self._rows)

    def __iter__(self) -> Iterator[OpRecord]:
        self._settle()
        return iter(self._records) if self._runs is None else self._runs.merged(self._records)

    def __getitem__(self, index: int) -> OpRecord:
        return self.records[index]

    def __reduce__(self) -> NoReturn:
        raise InternalError("an op log belongs to the process that made it; hand its records on instead")

    def _push(self, times: tuple[float, float], component_id: str, row: Row, deps: Sequence[int], op_id: int | None) -> int:
        if _PROCESS[0] is not self._process:
            self._refuse_process(component_id, None)
        kind, name, template, values = row
        own = self.ids.new() if op_id is None else op_id
        self._rows.append(OpRow(*times, component_id, kind, name, template, values, tuple(deps), own))
        if self._limit is not None:
            data = values[-1]
            self._hold(0 if data is None else data.nbytes)
        return own

    def _settle(self) -> None:
        """Rows become records, in order of `t_start`."""
        self._records += [row.record for row in self._rows]
        self._rows.clear()
        self._records.sort(key=_START)

    def _hold(self, payload: int) -> None:
        """One more record with a payload of this many bytes: past the limit they go to disk."""
        assert self._limit is not None
        self._held += payload + RECORD_BYTES
        if self._held > self._limit:
            if self._runs is None:
                self._runs = Runs(_START, self._directory)
            self._settle()
            self._runs.add(self._records)
            self._spilled += len(self._records)
            self._records, self._held = [], 0

    def _snapshots(self, msg: Any) -> tuple[Array | None, ...]:
        if type(msg) in _WITHOUT:
            return ()
        if isinstance(msg, MemoryWriteMsg):
            return (msg.values.copy(),)
        return tuple([self._copy(one) for one in snapshot_sources(msg)])

    def _copy(self, tensor: TensorHandle) -> Array | None:
        """The elements of a tensor in Phase 1: its own, or those in memory; None if they are pending."""
        if tensor.value is not None:
            return tensor.value.copy()
        return self._copy_of(tensor.space, tensor.addr, tensor.shape, tensor.dtype) if tensor.in_store else None

    def _copy_of(self, space: str, addr: int, shape: tuple[int, ...], dtype: str) -> Array | None:
        """The bytes as Phase 1 has them; None if it has not, because they are pending or were never written."""
        store = self._memory_store
        assert store is not None
        if not store.knows(space):  # as scratchpads are: else each pending tile that is copied would make and catch an error
            return None
        with suppress(ValueError):
            return store.read(space, addr, shape, dtype).copy()
        return None

    def _refuse_process(self, component_id: str, msg: Any) -> NoReturn:
        self._refuse(component_id, msg, "it comes from another process; each process needs an op log of its own")

    def _refuse(self, component_id: str, msg: Any, reason: str) -> NoReturn:
        what = "a record" if msg is None else type(msg).__name__
        raise InternalError(f"the op log refuses {what} of {component_id}: {reason}")
