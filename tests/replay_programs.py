"""Random programs for replays: ops on small memories, where operands overlap, and the log that a run of them leaves behind."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernbench.common.handles import TensorHandle
from kernbench.common.pe_commands import DmaReadCmd, DmaWriteCmd, GemmCmd, MathCmd
from kernbench.common.pe_ops import Scalar
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger
from tests.oracles.ref_replay import TYPES, Memories, Step, Tensor, conflict

SIZE = 192  # [B] of each space
SPACES = ("hbm", "tcm")


@dataclass
class Program:
    """Ops in the order in which they take place, the time each is logged at, and the memories before them."""

    steps: list[Step]
    times: list[int]
    spaces: dict[str, bytes]

    def after(self) -> dict[str, bytes]:
        """The memories afterwards, by the oracle."""
        memories = Memories(self.spaces)
        for step in self.steps:
            memories.run(step)
        return {name: bytes(data) for name, data in memories.spaces.items()}


def random_program(rng: random.Random, kinds: list[str], count: int, spread: int) -> Program:
    """`count` ops on elements of these kinds; times are drawn from `spread` values, so that many are equal or out of order."""
    spaces = {}
    for space in SPACES:
        size = np.dtype(TYPES[kinds[0]]).itemsize
        values = [rng.randint(-4, 4) / (2 if kinds[0][0] != "i" else 1) for _ in range(SIZE // size)]
        spaces[space] = np.array(values).astype(TYPES[kinds[0]]).tobytes()
    steps = [_step(rng, kinds) for _ in range(count)]
    times = sorted(rng.randrange(spread) for _ in steps)
    for _ in range(rng.randrange(1 + count // 2)):  # some are logged at a time out of their order
        times[rng.randrange(count)] = rng.randrange(spread)
    for later, step in enumerate(steps):
        first = _key(times, steps, later)
        step.deps = [i for i in range(later) if _key(times, steps, i) > first and conflict(steps[i], step)]
    return Program(steps, times, spaces)


def _key(times: list[int], steps: list[Step], i: int) -> tuple[int, bool, int]:
    """Where a log alone would put an op: by time, memory before math, as it was logged."""
    return times[i], steps[i].op != "copy", i


def _tensor(rng: random.Random, shape: tuple[int, ...], dtype: str, space: str | None = None) -> Tensor:
    found = Tensor(space or rng.choice(SPACES), 0, shape, dtype)
    size = np.dtype(TYPES[dtype]).itemsize
    step = size * rng.choice([1, 4])  # coarser steps make equal tensors more frequent
    found.addr = rng.randrange((SIZE - found.nbytes) // step + 1) * step
    return found


def _step(rng: random.Random, kinds: list[str]) -> Step:
    what = rng.choice(["copy", "copy", "gemm", "gemm", "add", "sub", "maximum", "neg", "sum", "scalar"])
    kind = rng.choice(kinds)
    shape = rng.choice([(2, 2), (2, 3), (4, 2), (3,), (4,)])
    if what == "copy":
        source, target = rng.choice([("hbm", "tcm"), ("tcm", "hbm"), ("hbm", "hbm")])
        return Step("copy", [_tensor(rng, shape, kind, source)], _tensor(rng, shape, kind, target))
    if what == "gemm":
        return _gemm(rng, kinds)
    if what == "sum":
        return Step("sum", [_tensor(rng, (2, 3), kind)], _tensor(rng, (3,), rng.choice(kinds)), axis=0)
    if what == "neg":
        return Step("neg", [_tensor(rng, shape, kind)], _tensor(rng, shape, rng.choice(kinds)))
    first, out = _tensor(rng, shape, kind), _tensor(rng, shape, rng.choice(kinds))
    if what == "scalar":
        return Step("add", [first], out, scalar=rng.choice([2, -1]) if kind[0] == "i" else 0.5)
    return Step(what, [first, _tensor(rng, shape[-1:], rng.choice(kinds))], out)


def _gemm(rng: random.Random, kinds: list[str]) -> Step:
    m, k, n = rng.choice([(2, 2, 2), (2, 2, 2), (2, 4, 2), (1, 3, 2), (3, 2, 1)])
    flip = rng.random() < 0.3, rng.random() < 0.3
    a = _tensor(rng, (k, m) if flip[0] else (m, k), rng.choice(kinds))
    b = _tensor(rng, (n, k) if flip[1] else (k, n), rng.choice(kinds))
    out = _tensor(rng, (m, n), rng.choice(kinds))
    acc = [rng.choice([out, _tensor(rng, (m, n), rng.choice(kinds))])] if rng.random() < 0.4 else []
    return Step("gemm", [a, b, *acc], out, transpose=flip, tile_k=rng.choice([None, None, 2]))


def handle(tensor: Tensor) -> TensorHandle:
    return TensorHandle("", tensor.addr, tensor.shape, tensor.dtype, tensor.space)


def command(step: Step, op_id: int) -> Any:
    """The message of a step."""
    inputs, out, more = [handle(one) for one in step.inputs], handle(step.out), {"op_id": op_id, "dependency_ids": step.deps}
    if step.op == "copy" and step.out.space == "hbm":
        return DmaWriteCmd(inputs[0], out.addr, out.nbytes, **more)  # type: ignore[arg-type]
    if step.op == "copy":
        return DmaReadCmd(out, inputs[0].addr, out.nbytes, step.inputs[0].space, **more)  # type: ignore[arg-type]
    if step.op == "gemm":
        m, n = step.out.shape
        k = step.inputs[0].shape[0 if step.transpose[0] else 1]
        acc = inputs[2] if len(inputs) > 2 else None
        flips = {"transpose_a": step.transpose[0], "transpose_b": step.transpose[1], "tile_k": step.tile_k}
        return GemmCmd(inputs[0], inputs[1], out, m, k, n, acc=acc, **flips, **more)  # type: ignore[arg-type]
    operands: list[TensorHandle | Scalar] = [*inputs] if step.scalar is None else [*inputs, step.scalar]
    return MathCmd(step.op, operands, out, axis=step.axis, **more)  # type: ignore[arg-type]


def store_of(spaces: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    for name, data in spaces.items():
        store.write(name, 0, np.frombuffer(data, np.uint8).copy())
    return store


def run_phase_1(program: Program, log: OpLogger, store: MemoryStore) -> None:
    """What Phase 1 does of a program: it moves bytes that are known and marks those that are not, and logs every op."""
    assert log.initial_store is not None  # as it is before the first op
    for i, step in enumerate(program.steps):
        msg, out = command(step, log.ids.new()), step.out
        source = step.inputs[0]
        log.record_start(float(program.times[i]), "pe", msg)
        if step.op == "copy" and store.has(source.space, source.addr, source.nbytes):
            data = store.read(source.space, source.addr, source.shape, source.dtype).copy()
        else:
            data = None
        if step.op == "copy" and out.space == "hbm":
            log.record_end(float(program.times[i] + 1), "pe", msg)
        if data is None:
            store.mark_pending(out.space, out.addr, out.nbytes, i)
        else:
            store.write(out.space, out.addr, data)
        if not (step.op == "copy" and out.space == "hbm"):
            log.record_end(float(program.times[i] + 1), "pe", msg)
