"""Phase 2 (seed ADR-0020 D6): replays the op log with numpy. The order of the replay follows from the bytes that ops access,
and from nothing else of the machine.

Ops are taken in order of `t_start`; at equal times, memory ops come before math ops, and an op never comes before an op on
which it depends. They are sorted into stages, by turns of ops that only move data and of ops that compute
(`replay/stages.py`). When a stage of computations begins, it reads its operands. Arrays in the store are never changed, so an
operand is a reference. Then threads compute (equal GEMMs are put together), while the main thread runs the moves of the next
stage, sorts more ops, and reads the operands of the next computations, before it computes too. If few components compute,
stages would hold only one or two ops, so these ops run in sequence.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from kernbench.sim_engine.replay.schedule import Schedule
from kernbench.sim_engine.replay.sheets import filled_ranges
from kernbench.sim_engine.replay.tasks import Tasks
from kernbench.sim_engine.replay.workers import Work, Workers
from kernbench.sim_engine.verify import Boundary, OpReference, Verification, verify_ops, verify_outputs


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
        tasks = Tasks(self.store, self._batching, self._threads)
        with ExitStack() as stack:
            stack.enter_context(_collector_off())
            stack.enter_context(np.errstate(all="ignore"))
            stack.enter_context(one_blas_thread())
            stack.enter_context(self.store.constant())
            single = self._debug or until is not None
            rows = self._rows()
            if isinstance(rows, list):  # a log that has gone to disk is read only once
                stack.enter_context(self.store.expected(filled_ranges(rows)))
            ops = ordered(rows, frozenset() if single else self._unchanged)
            if single:
                self._run_single(tasks, ops, until)
            else:
                self._run_stages(tasks, Schedule(ops), stack.enter_context(Workers(self._threads)))
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

    def _run_single(self, tasks: Tasks, ops: Iterable[ReplayOp], until: int | None) -> None:
        """Run ops one after another up to `until`, and keep their data in debug mode."""
        for op in ops:
            done = tasks.run(op)
            if done is not None:
                if op.row.op_kind == "math":
                    self._keep_known(op, *done)
                if self._debug:
                    self.boundaries.append(Boundary(op.record, *done))
            if op.op_id == until:
                break

    def _run_stages(self, tasks: Tasks, schedule: Schedule, workers: Workers) -> None:
        """Run all ops: move bytes while threads compute.

        Computations begin while those of the stage before are not yet done, unless they need its results.
        """
        while schedule.begin():
            running: Work | None = None
            while schedule.stages.count:
                ops, waits = schedule.stages.computations()
                if running is not None and waits:
                    self._end(tasks, workers, running)
                    running = None
                try:
                    work = workers.start(tasks.of_ops(ops))
                except InputError:
                    if running is not None:  # an error of an earlier stage comes first
                        self._end(tasks, workers, running)
                    raise
                if ops:
                    schedule.look_ahead()
                if running is not None:
                    self._end(tasks, workers, running)
                tasks.move(schedule.stages.moves())
                for task in work.tasks:
                    if task.results is not None:
                        tasks.write(task, task.results)
                running = work
            if running is not None:
                self._end(tasks, workers, running)
            tasks.run_in_order(schedule.sequence(), self._keep_known)

    def _end(self, tasks: Tasks, workers: Workers, work: Work) -> None:
        """Wait for results, and write those that are not yet written."""
        for task, found in workers.results(work):
            if task.results is None:
                tasks.write(task, found)
            for op, inputs, array in zip(task.ops, task.inputs, found, strict=True):
                if op.row.op_kind == "math":
                    self._keep_known(op, inputs, array)
