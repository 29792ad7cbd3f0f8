"""The work of the stages of a replay: bytes are moved here, and computations become tasks for threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kernbench.common.dtypes import Array, address_of, dtype_of, widen
from kernbench.common.errors import InputError, Problem
from kernbench.common.lanes import Lanes
from kernbench.sim_engine.memory.strides import read_lanes, read_strided, write_lanes, write_strided
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.ops.params import Params
from kernbench.sim_engine.ops.ranges import ReplayOp
from kernbench.sim_engine.ops.reaches import MEMORIES, copy_size, math_inputs
from kernbench.sim_engine.replay.gemm import GemmForm, lying, one_gemm, run_gemm, run_products, run_stack
from kernbench.sim_engine.replay.math_ops import plain_pair, run_math
from kernbench.sim_engine.replay.wide import WideCache

Tensor: TypeAlias = tuple[tuple[int, ...], np.dtype[Any]]  #: shape and type of an array
_F32 = np.dtype(np.float32)
_MATMUL, _ADD = np.matmul, np.add
LEAST_WORK = 1 << 24  # multiplications of a task of several products
MOST_RESULTS = 4 << 20  # [B] of sums of such a task
SMALL = 1 << 15  # [B] of operands; a smaller task is computed without starting a thread
# smallest number of components that must compute, so that stages have more than one or two ops each
SIDE_BY_SIDE = 4


class Task(NamedTuple):
    """Ops that are computed together, and how: their results in order."""

    ops: Sequence[ReplayOp]
    inputs: Sequence[Sequence[Array]]  #: inputs of each op, as in memory
    compute: Callable[[], Sequence[Array]]
    results: Sequence[Array] | None = None  #: the arrays that `compute` fills, if they are known before

    def run(self) -> Sequence[Array]:
        """The results; InputError if an op cannot be computed."""
        try:
            return self.compute()
        except ValueError as error:
            raise _not_computed(self.ops[0], error) from None


def _not_computed(op: ReplayOp, error: ValueError) -> InputError:
    return InputError(Problem(str(op), f"it cannot be computed: {error}"))


class TemplateOperand:
    """An operand of all ops of a template: `where` its address is among an op's values, its space, shape and type."""

    def __init__(self, where: int, space: str, shape: tuple[int, ...], dtype: str) -> None:
        self.where, self.space, self.shape, self.dtype = where, space, tuple(shape), dtype
        self._numpy = dtype_of(dtype).numpy
        self.tensor = self.shape, self._numpy  #: as a memory stores it
        self.nbytes = 0 if dtype_of(dtype).bits < 8 else prod(self.shape) * dtype_of(dtype).align  #: 0: elements are packed

    def read(self, store: MemoryStore, op: ReplayOp) -> Array:
        """The operand's elements; InputError if they were never written."""
        addr = op.row.values[self.where]
        try:
            return store.tensor(self.space, addr, self.shape, self._numpy)
        except ValueError as error:
            raise InputError(Problem(str(op), f"it reads unwritten bytes: {error}")) from None


class Move:
    """How the ops of a template move bytes."""

    def __init__(self, params: Params) -> None:
        varying = params.template.varying
        self._shape, self._dtype = copy_size(params)
        self._source = None
        if params.get("src_addr") is not None:
            self._source = TemplateOperand(_index(params, "src_addr"), params.get("src_space", "hbm"), self._shape, self._dtype)
        self._snapshot = varying.get("snapshot")
        self._space: str = params.get("dst_space", "tcm")
        self._targets = [_index(params, key) for key in ("dst_addr", "virtual_addr") if key in varying]
        self._read_strides, self._write_strides = params.get("src_strides"), params.get("dst_strides")
        strided = not (self._read_strides is None and self._write_strides is None and params.get("lanes") is None)
        known = "snapshot" in varying or "virtual_addr" in varying or "dst_addr" not in varying
        self._plain = None if strided or known else self._source  #: a copy from one range of bytes to another
        lanes: Lanes | None = params.get("lanes")
        self._read_lanes = None if self._space in MEMORIES else lanes
        self._write_lanes = lanes if self._space in MEMORIES else None
        self._rmw: str = params.get("rmw", "")
        self._old = varying.get("old_addr")
        self._compare = None
        if params.get("compare_addr") is not None:
            self._compare = TemplateOperand(_index(params, "compare_addr"), params["src_space"], self._shape, self._dtype)

    def run(self, store: MemoryStore, op: ReplayOp) -> tuple[Sequence[Array], Array | None]:
        """Move the bytes of an op. Returns the data that it read and wrote (None without a destination)."""
        values = op.row.values
        if self._plain is not None and values[self._targets[0]] is not None:
            moved = self._plain.read(store, op)
            store.write_tensor(self._space, values[self._targets[0]], moved, self._plain.nbytes, self._plain.tensor)
            return (moved,), moved
        data = values[self._snapshot] if isinstance(self._snapshot, int) else None
        targets = [values[i] for i in self._targets if values[i] is not None]
        if not targets:
            return [], None
        if data is None:
            data = self._from_memory(store, op)
        for addr in targets:
            if self._write_lanes is not None:
                compare = None if self._compare is None else self._compare.read(store, op)
                old = write_lanes(store, self._space, addr, data, self._write_lanes, self._rmw, compare)
                if isinstance(self._old, int) and self._source is not None:
                    store.write(self._source.space, values[self._old], self._write_lanes.spread(old, self._dtype))
            elif self._write_strides is None:
                store.write(self._space, addr, data)
            else:
                write_strided(store, self._space, addr, data, self._write_strides, self._dtype)
        return [data], data

    def _from_memory(self, store: MemoryStore, op: ReplayOp) -> Array:
        source = self._source
        if source is None:
            raise InputError(Problem(str(op), "its elements are not in the log: it was made without a memory store"))
        if self._read_strides is None and self._read_lanes is None:
            return source.read(store, op)
        addr = op.row.values[source.where]
        try:
            if self._read_lanes is not None:
                return read_lanes(store, source.space, addr, self._read_lanes, source.dtype)
            return read_strided(store, source.space, addr, source.shape, self._read_strides, source.dtype)
        except ValueError as error:
            raise InputError(Problem(str(op), f"it reads unwritten bytes: {error}")) from None


class Gemm:
    """How the ops of a template multiply."""

    def __init__(self, params: Params) -> None:
        usual = params.get("addr_space") or "tcm"
        self.form = GemmForm(params)
        dtype = params["dtype_in"]
        self._a = TemplateOperand(_index(params, "src_a_addr"), params.get("src_a_space", usual), self.form.lie_a, dtype)
        second = params.get("dtype_b") or dtype
        self._b = TemplateOperand(_index(params, "src_b_addr"), params.get("src_b_space", usual), self.form.lie_b, second)
        self._acc = None
        if params.get("acc_addr") is not None:
            shape = lying(tuple(params["acc_shape"]), self.form.columns_out)
            self._acc = TemplateOperand(_index(params, "acc_addr"), params["acc_space"], shape, params["acc_dtype"])
        self.target = _index(params, "dst_addr"), params.get("dst_space", usual)
        self._epilogues = "epilogue" in params
        #: the product of f32 operands is one call of numpy, and the addend one more
        shape = (*self._a.shape[:-1], self._b.shape[-1])
        self._plain = self.form.plain and not self._epilogues and self.form.shape == shape and len(self._b.shape) == 2
        self._plain = self._plain and (self._acc is None or self._acc.shape == shape)
        self._f32 = self.form.dtype_out == "f32"
        f64 = "f64" in (dtype, second, params.get("acc_dtype"))
        self._products = self._plain and not f64 and len(shape) == 2 and not self.form.small
        self.joins = self._products or (self.form.small and not self._epilogues)  #: whether ops are computed together
        out = dtype_of(self.form.dtype_out)
        self.tensor = self.form.shape, out.numpy  #: the result, as a memory stores it
        self.nbytes = prod(self.form.shape) * out.align if self._plain and out.bits >= 8 else 0  #: 0: not known

    def operands(self, store: MemoryStore, op: ReplayOp) -> list[Array]:
        """a, b and, if there is one, the addend."""
        read = [self._a.read(store, op), self._b.read(store, op)]
        return read if self._acc is None else [*read, self._acc.read(store, op)]

    def task(self, store: MemoryStore, wide: WideCache, op: ReplayOp) -> Task:
        """The task of one op."""
        read = self.operands(store, op)
        epilogue = self._epilogue(store, op) if self._epilogues else []

        def compute() -> Sequence[Array]:
            acc = None if self._acc is None else widen(read[2])
            return [run_gemm(self.form, wide.get(read[0]), wide.get(read[1]), acc, epilogue)]

        return Task([op], [read], compute)

    def joined(self, store: MemoryStore, wide: WideCache, ops: Sequence[ReplayOp], threads: int) -> list[Task]:
        """Tasks of several ops each, for this number of threads. Ops with the same second operand are together."""
        alike: dict[int, list[tuple[ReplayOp, list[Array]]]] = {}
        for op in ops:
            read = self.operands(store, op)
            group = alike.setdefault(address_of(read[1]), [])
            if group:
                read[1] = group[0][1][1]  # one object for each, which is found sooner
            group.append((op, read))
        found = [one for group in alike.values() for one in group]
        work = max(self.form.k * prod(self.form.shape), 1)
        most = max(MOST_RESULTS // (4 * prod(self.form.shape) or 1), 1)
        ranges = shares(len(found), threads, -(-LEAST_WORK // work), most)
        return [self._together(wide, found[start:end]) for start, end in ranges]

    def _together(self, wide: WideCache, found: Sequence[tuple[ReplayOp, list[Array]]]) -> Task:
        read = [inputs for _, inputs in found]
        block = np.empty((len(found), *self.form.shape), self.tensor[1]) if self._products else None
        results = None if block is None else list(block)

        def compute() -> Sequence[Array]:
            a, b = wide.get_all([one[0] for one in read]), wide.get_all([one[1] for one in read])
            acc = None if self._acc is None else [widen(one[2]) for one in read]
            if block is None or results is None:
                return list(run_stack(self.form, a, b, acc))
            run_products(self.form, a, b, acc, block)
            return results

        return Task([op for op, _ in found], read, compute, results)

    def run(self, store: MemoryStore, wide: WideCache, op: ReplayOp) -> tuple[list[Array], Array]:
        """Replay a single op with numpy's overflow warnings disabled; return its operands and its result."""
        read = self.operands(store, op)
        a, b = wide.same.get(id(read[0])), wide.same.get(id(read[1]))
        a, b = wide.get(read[0]) if a is None else a, wide.get(read[1]) if b is None else b
        acc = None if self._acc is None else widen(read[2])
        if self._plain and a.dtype is _F32 and b.dtype is _F32 and (acc is None or acc.dtype is _F32):
            result = _MATMUL(a, b)
            if acc is not None:
                _ADD(result, acc, result)
            return read, result if self._f32 else self.form.rounded(result)
        epilogue = self._epilogue(store, op) if self._epilogues else ()
        return read, one_gemm(self.form, a, b, acc, epilogue)

    @staticmethod
    def _epilogue(store: MemoryStore, op: ReplayOp) -> list[tuple[str, list[Any]]]:
        steps: list[tuple[str, list[Any]]] = []
        for step in op.params["epilogue"]:
            if "addr" in step:
                try:
                    operand = [widen(store.read(step["space"], step["addr"], tuple(step["shape"]), step["dtype"]))]
                except ValueError as error:
                    raise InputError(Problem(str(op), f"it reads unwritten bytes: {error}")) from None
            else:
                operand = [step["scalar"]] if "scalar" in step else []
            steps.append((step["op"], operand))
        return steps


class Math:
    """How the ops of a template compute."""

    def __init__(self, params: Params) -> None:
        where = params.template.varying.get("input_addrs", slice(0, 0))
        assert isinstance(where, slice)
        taken = params.template.varying.get("input_snapshots")
        spaces, dtypes = math_inputs(params)
        shapes = [tuple(shape) for shape in params.get("input_shapes", ())]
        self._inputs = [
            TemplateOperand(where.start + i, *one) for i, one in enumerate(zip(spaces, shapes, dtypes, strict=True))
        ]
        self.operand_bytes = sum([prod(shape) * dtype_of(dtype).bits // 8 for shape, dtype in zip(shapes, dtypes, strict=True)])
        self._snapshots = taken.start if isinstance(taken, slice) and taken.stop > taken.start else None
        self.target = _index(params, "dst_addr"), params.get("dst_space", params.get("addr_space") or "tcm")
        self._scalars = params.template.varying.get("scalars")
        plain = len(self._inputs) == 2 and "scalars" not in params.template.constants
        self._pair = plain_pair(params) if plain else None

    def operands(self, store: MemoryStore, op: ReplayOp) -> list[Array]:
        """The inputs: the elements kept by Phase 1, or those in memory."""
        values = op.row.values
        read = []
        for i, place in enumerate(self._inputs):
            kept = None if self._snapshots is None else values[self._snapshots + i]
            read.append(place.read(store, op) if kept is None else kept)
        return read

    def result(self, op: ReplayOp, read: Sequence[Array]) -> Array:
        """The result of an op."""
        if self._pair is not None and (self._scalars is None or not op.row.values[self._scalars]):
            x, y = read
            if x.shape == y.shape:
                paired: Array = self._pair(x, y)
                return paired
        return run_math(op.params, op.row.op_name, read)

    def task(self, store: MemoryStore, op: ReplayOp) -> Task:
        """The task of one op."""
        read = self.operands(store, op)
        return Task([op], [read], lambda: [self.result(op, read)])


def _index(params: Params, key: str) -> int:
    where = params.template.varying[key]
    assert isinstance(where, int)
    return where


def shares(count: int, threads: int, least: int, most: int) -> list[tuple[int, int]]:
    """Ranges that divide `count` alike ops among threads: large ones first, and small ones at the end, so that all threads end
    at about the same time."""
    found, start = [], 0
    while start < count:
        end = min(start + min(max((count - start) // threads, least), most), count)
        found.append((start, end))
        start = end
    return found


class Tasks:
    """Turns stages of a replay into moved bytes and tasks, with one plan a template."""

    def __init__(self, store: MemoryStore, batching: bool, threads: int) -> None:
        self._store = store
        self._batching = batching
        self._threads = threads
        self._wide = WideCache()

    def of_ops(self, ops: Sequence[ReplayOp]) -> list[Task]:
        """Read the operands of ops that compute, and return their tasks. Raises InputError if an op reads bytes that
        nothing wrote.
        """
        tasks: list[Task] = []
        alike: dict[Gemm, list[ReplayOp]] = {}
        for op in ops:
            if op.row.op_kind == "gemm":
                plan = _plan(op, Gemm)
                if self._batching and plan.joins:
                    alike.setdefault(plan, []).append(op)
                else:
                    tasks.append(plan.task(self._store, self._wide, op))
            else:
                tasks.append(_plan(op, Math).task(self._store, op))
        for plan, group in alike.items():
            if len(group) > 1:
                tasks += plan.joined(self._store, self._wide, group, self._threads)
            else:
                tasks.append(plan.task(self._store, self._wide, group[0]))
        return tasks

    def move(self, ops: Sequence[ReplayOp]) -> None:
        """Run the ops that move data, and skip ops of unknown kinds. Raises InputError if an op reads bytes that nothing wrote.
        """
        for op in ops:
            if op.row.op_kind == "memory":
                self._moved(op)

    def run(self, op: ReplayOp) -> tuple[Sequence[Array], Array] | None:
        """Run one op alone; returns the data that it read and wrote, or None. InputError as `of_ops`."""
        kind = op.row.op_kind
        if kind == "memory":
            inputs, written = self._moved(op)
            return None if written is None else (inputs, written)
        try:
            if kind == "gemm":
                gemm: Gemm = _plan(op, Gemm)
                inputs, result = gemm.run(self._store, self._wide, op)
                target, nbytes = gemm.target, gemm.nbytes
                tensor: Tensor | None = gemm.tensor
            elif kind == "math":
                math: Math = _plan(op, Math)
                inputs = math.operands(self._store, op)
                result, target, nbytes, tensor = math.result(op, inputs), math.target, 0, None
            else:
                return None
        except ValueError as error:
            raise _not_computed(op, error) from None
        self._put(op, target, result, nbytes, tensor)
        return inputs, result

    def run_in_order(self, ops: Sequence[ReplayOp], keep: Callable[[ReplayOp, Sequence[Array], Array], None]) -> None:
        """Run ops one after another; `keep` gets each math op, its inputs and its result."""
        for op in ops:
            done = self.run(op)
            if done is not None and op.row.op_kind == "math":
                keep(op, *done)

    def _moved(self, op: ReplayOp) -> tuple[Sequence[Array], Array | None]:
        move: Move = _plan(op, Move)
        try:
            return move.run(self._store, op)
        except ValueError as error:
            raise InputError(Problem(str(op), f"it cannot be moved: {error}")) from None

    def _put(self, op: ReplayOp, target: tuple[int, str], result: Array, nbytes: int, tensor: Tensor | None) -> None:
        """Store a result, of this size, shape and type; `nbytes` is 0 if they are not known."""
        where, space = target
        try:
            if tensor is not None:
                self._store.write_tensor(space, op.row.values[where], result, nbytes, tensor)
            else:
                self._store.write(space, op.row.values[where], result)
        except ValueError as error:
            raise InputError(Problem(str(op), f"it cannot write its result: {error}")) from None

    def write(self, task: Task, results: Sequence[Array]) -> None:
        """Store the results of a task."""
        for op, result in zip(task.ops, results, strict=True):
            if op.row.op_kind == "gemm":
                gemm: Gemm = _plan(op, Gemm)
                self._put(op, gemm.target, result, gemm.nbytes, gemm.tensor)
            else:
                self._put(op, _plan(op, Math).target, result, 0, None)


def in_sequence(ops: Sequence[ReplayOp]) -> bool:
    """Whether sorting ops into stages is not worth its time, because few components compute, or no thread would be started."""
    threads, computing, last = False, 0, None
    components: set[str] = set()
    times: set[float] = set()
    for op in ops:
        row = op.row
        kind = row.op_kind
        if kind == "gemm":
            threads = True
        elif kind != "math":
            continue
        elif not threads and row.template is not last:
            last = row.template
            math: Math = _plan(op, Math)
            threads = math.operand_bytes >= SMALL
        computing += 1
        components.add(row.component_id)
        times.add(row.t_start)
        if threads and len(components) >= SIDE_BY_SIDE:
            return False
    return not threads or computing < SIDE_BY_SIDE * len(times)


def _plan(op: ReplayOp, kind: type[Any]) -> Any:
    """The data for a replay that the ops of a template have in common."""
    plans = op.row.template.plans
    plan = plans.get(kind)
    if plan is None:
        plan = plans[kind] = kind(op.params)
    return plan
