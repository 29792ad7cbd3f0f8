"""Phase 2 (seed ADR-0020 D6): replays the op log with numpy. The order of the replay follows from the bytes that ops access,
and from nothing else of the machine.

Ops are taken in windows, in order of `t_start`; at equal times, memory ops come before math ops, and an op never comes before
an op on which it depends. The ops of a window are sorted into levels of ops that do not access each other's results. A level
first reads the operands of its computations. Then threads compute (equal small GEMMs are stacked), while the main thread runs
the ops that only move data, and sorts the next window, before it computes too. At last all results are written. Arrays in the
store are never changed, so an operand is a reference. If few components compute, levels would hold only one or two ops, so
these ops run in sequence.
"""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import numpy as np

from kernbench.common.blas import one_blas_thread
from kernbench.common.dtypes import Array
from kernbench.common.errors import InputError, Problem
from kernbench.common.threads import threads_of
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger, OpRecord, OpRow, Output, row_of
from kernbench.sim_engine.ops.ranges import ReplayOp
from kernbench.sim_engine.ops.record_checks import check_record
from kernbench.sim_engine.replay.order import ordered
from kernbench.sim_engine.replay.sheets import filled_ranges
from kernbench.sim_engine.replay.tasks import SMALL, Task, Tasks
from kernbench.sim_engine.replay.windows import Windows
from kernbench.sim_engine.verify import Boundary, OpReference, Verification, verify_ops, verify_outputs

WINDOW = 1024  # ops that are sorted into levels together


@contextmanager
def _collector_off() -> Iterator[None]:
    """Switch the garbage collector off: a replay makes no reference cycles, and a long log has many objects to scan."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class DataExecutor:
    """Phase 2: replays an op log with numpy, and compares the outputs with a reference.

    >>> import kernbench as kb
    >>> @kb.bench(name="zeros", description="zeros")
    ... def zeros(ctx):
    ...     out = ctx.empty((4,), "f32", name="out")
    ...     ctx.launch("zeros", lambda out, tl: tl.store(out, tl.zeros((4,), "f32")), out, grid=1)
    ...     ctx.output("out", out)
    >>> engine = kb.GraphEngine("single_cube")
    >>> status = engine.run(zeros).status
    >>> kb.DataExecutor(engine.op_log).run().verify(np.zeros(4, np.float32)).ok
    True
    """

    def __init__(
        self,
        op_log: OpLogger | Sequence[OpRecord],
        initial_store: MemoryStore | None = None,
        *,
        outputs: Sequence[Output] = (),
        threads: int | None = None,
        batching: bool = True,
        debug: bool = False,
        watch: Iterable[int] = (),
        unchanged: Collection[int] = frozenset(),
    ) -> None:
        """`initial_store`: the contents of the memories before the first record; the replay writes to it. An OpLogger keeps its
        own copy; for a list of records the default is empty memories. `outputs` name the tensors that are verified. `threads`:
        None means KERNBENCH_THREADS, or otherwise the number of processors, at most 4. `debug`: keep the data that every op
        read and wrote, so that each op can be verified. `watch`: ids of math ops whose results are kept in `watched`.
        `unchanged`: ids of ops that wrote the elements that were there before, and whose results no other op reads. Only with
        `debug` or `until` are these ops replayed.

        Raises InputError for a log that has only times.
        """
        self._log = op_log
        self._outputs = list(outputs) or (op_log.outputs if isinstance(op_log, OpLogger) else [])
        self._threads = threads_of(threads) or min(os.cpu_count() or 1, 4)
        self._batching = batching
        self._debug = debug
        self._ran = False
        self._known: list[Boundary] = []
        self._watch = frozenset(watch)
        self._unchanged = unchanged
        self.watched: dict[int, Array] = {}  #: results of the ops of `watch`
        self.boundaries: list[Boundary] = []  #: in debug mode: the data of every op, in the order of the replay
        self.store = self._begin(op_log, initial_store)  #: the memories; after `run`, with the results of the ops

    @staticmethod
    def _begin(op_log: OpLogger | Sequence[OpRecord], given: MemoryStore | None) -> MemoryStore:
        if given is not None:
            return given
        if not isinstance(op_log, OpLogger):
            return MemoryStore()
        if op_log.initial_store is None:
            remedy = "make the log with a memory store, OpLogger(memory_store)"
            raise InputError(Problem("op log", "it holds only times, so there is nothing to replay", remedy=remedy))
        return op_log.initial_store.snapshot()

    def run(self, until: int | None = None) -> DataExecutor:
        """Replay the log once. With `until`, ops up to and including this op are replayed one after another, and the store has
        the contents at this point. Raises InputError if an op reads bytes that nothing wrote; the error names the op and the
        source line.
        """
        if self._ran:
            return self
        self._ran = True
        tasks = Tasks(self.store, self._batching)
        with ExitStack() as stack:
            stack.enter_context(_collector_off())
            stack.enter_context(np.errstate(all="ignore"))
            stack.enter_context(one_blas_thread())
            stack.enter_context(self.store.constant())
            pool = stack.enter_context(ThreadPoolExecutor(self._threads - 1)) if self._threads > 1 else None
            single = self._debug or until is not None
            rows = self._rows()
            if isinstance(rows, list):  # a log that has gone to disk is read only once
                stack.enter_context(self.store.expected(filled_ranges(rows)))
            ops = ordered(rows, frozenset() if single else self._unchanged)
            windows = Windows(ops, 1 if single else WINDOW, sequences=not self._debug)
            for window, found in windows:
                if found is None:
                    tasks.run_in_order(window, self._keep_known)
                else:
                    for level in found:
                        self._run_level(tasks, level, pool, windows)
                if until is not None and window[0].op_id == until:
                    break
        return self

    def verify(
        self, expected: Array | Mapping[str, Array], ops: Mapping[int, Array] | OpReference | None = None
    ) -> Verification:
        """Compare the final tensors with a reference, within the tolerances of their types (seed ADR-0020 D11).

        `expected`: arrays by the names of the outputs. A single array is for the only output or, if no output was named, for
        the one range of HBM that the log writes. `ops`, in debug mode: expected results of single ops, by op id, or a function
        of a record and its inputs that returns a result or None. Values that Phase 1 computed itself are always compared.
        """
        self.run()
        found = verify_outputs(self.store, self._records(), self._outputs, expected)
        if ops is not None and not self._debug:
            remedy = "use DataExecutor(..., debug=True)"
            raise InputError(Problem("verify", "results of single ops are kept only in debug mode", remedy=remedy))
        return found.joined(verify_ops(self._known, self.boundaries, ops))

    def _records(self) -> Iterable[OpRecord]:
        if isinstance(self._log, OpLogger):
            return self._log
        for record in self._log:
            check_record(record)
        return sorted(self._log, key=lambda record: record.t_start)

    def _rows(self) -> Iterable[OpRow]:
        return self._log.rows() if isinstance(self._log, OpLogger) else [row_of(one) for one in self._records()]

    def _keep_known(self, op: ReplayOp, inputs: Sequence[Array], result: Array) -> None:
        if op.op_id in self._watch:
            self.watched[op.op_id] = result
        where = op.row.template.varying.get("value")
        known: Array | None = op.row.values[where] if isinstance(where, int) else None
        if known is not None:
            self._known.append(Boundary(op.record, inputs, result, known))

    def _run_level(self, tasks: Tasks, level: Sequence[ReplayOp], pool: ThreadPoolExecutor | None, windows: Windows) -> None:
        """Read, then move and compute, then write: the ops of a level do not access each other's results."""
        work = tasks.of_level(level)
        todo = deque(enumerate(work))
        done: list[Sequence[Array] | InputError] = [()] * len(work)
        helpers: list[Future[None]] = []
        if pool is not None and len(work) > 1 and not _small(work):
            helpers = [pool.submit(_compute, todo, done) for _ in range(min(self._threads, len(work)) - 1)]
            windows.look_ahead()
        moved = tasks.move(level)
        _compute(todo, done)
        for one in helpers:
            one.result()
        if self._debug:
            self.boundaries += [Boundary(op.record, inputs, written) for op, inputs, written in moved]
        for task, found in zip(work, done, strict=True):
            if isinstance(found, InputError):
                raise found
            for op, inputs, array in zip(task.ops, task.inputs, found, strict=True):
                tasks.write(op, array)
                if op.row.op_kind == "math":
                    self._keep_known(op, inputs, array)
                if self._debug:
                    self.boundaries.append(Boundary(op.record, inputs, array))


def _compute(todo: deque[tuple[int, Task]], done: list[Sequence[Array] | InputError]) -> None:
    """Take tasks, in order, until none is left or one cannot be computed, and write its results or its error into `done`.

    Several threads do so at the same time. All tasks before the first error are computed, so the error that is reported does
    not depend on the number of threads. Numpy's setting to ignore overflows must be repeated in each thread.
    """
    with np.errstate(all="ignore"):
        while todo:
            try:
                place, task = todo.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                done[place] = task.run()
            except InputError as error:
                done[place] = error
                todo.clear()


def _small(work: Sequence[Task]) -> bool:
    """Whether starting threads would take longer than the work."""
    return all(sum(one.nbytes for one in task.inputs[0]) * len(task.inputs) < SMALL for task in work)
