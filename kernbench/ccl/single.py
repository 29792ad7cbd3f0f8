"""One call of a collective on a machine of its own: its time, and whether its numbers are right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernbench.ccl.blame import place_in
from kernbench.ccl.call import Call, Launcher, Queues
from kernbench.common.dtypes import Array, dtype_of, narrow
from kernbench.common.errors import InputError, Problem
from kernbench.config.machine import MachineConfig
from kernbench.runtime_api import Bench, Context, DPPolicy
from kernbench.sim_engine.engine import Around, GraphEngine
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.memory_store import MemoryStore


@dataclass(frozen=True)
class Outcome:
    """What a call came to."""

    status: str  #: done, aborted or deadlock
    cycles: int  #: from the first rank's first cycle to the end of the last rank's last command; 0: it has not ended
    wrong: int | None  #: elements that are not, bit by bit, what the reference says; None: not verified
    engine: GraphEngine


def run_call(
    config: MachineConfig,
    call: Call,
    sizes: tuple[int, int],
    queues: Queues,
    *,
    check: bool,
    seed: int = 0,
    progress: Callable[[Machine], None] | None = None,
    around: Around = nullcontext,
) -> Outcome:
    """Run it once. `sizes`: elements that each rank has, and gets. Unless it is verified, all ranks have the same elements.

    InputError and KernelFailed as `GraphEngine.run`.
    """
    inputs = [_random(call.dtype, sizes[0], seed + rank) for rank in range(call.group.size if check else 1)]
    found: dict[str, Any] = {}
    engine = GraphEngine(config, op_log=check)
    engine.run(_bench(call, sizes, queues, inputs, found), progress=progress, around=around)
    status, launch, wrong = engine.machine.status, found["launch"], None
    if status != "done":
        return Outcome(status, 0, None, engine)
    if check:
        from kernbench.sim_engine.data_executor import DataExecutor  # Phase 2, only where it is asked for

        assert engine.op_log is not None
        wrong = _wrong(call, inputs, found["out"], DataExecutor(engine.op_log).run().store)
    return Outcome(status, launch.end - launch.start, wrong, engine)


def call_machine(config: MachineConfig, call: Call, sizes: tuple[int, int], queues: Queues) -> Machine:
    """The same at cycle 0, without a log and not verified. InputError as `GraphEngine.prepare`."""
    return GraphEngine(config, op_log=False).prepare(_bench(call, sizes, queues, [_random(call.dtype, sizes[0], 0)], {}))


def _bench(call: Call, sizes: tuple[int, int], queues: Queues, inputs: Sequence[Array], found: dict[str, Any]) -> Bench:
    """What runs it, with the elements of each rank or those of all; `found` gets its results' tensor and its launch."""
    group, (has, gets) = call.group, sizes

    def run(ctx: Context) -> None:
        found["out"] = ctx.empty((group.size, gets), call.dtype, name="out", placement=_rows(group.shape))
        if len(inputs) == group.size:
            host = np.empty((group.size, has), dtype_of(call.dtype).numpy)
            for rank, row in enumerate(group.rows):
                host[row] = inputs[rank]
            x = ctx.from_numpy(host, name="in", dtype=call.dtype, placement=_rows(group.shape))
        else:
            x = ctx.from_numpy(inputs[0].reshape(1, has), name="in", dtype=call.dtype, placement=_same(group.shape))
        found["launch"] = Launcher(ctx, queues)(call, x, found["out"])

    return Bench(call.name, "a collective", run, None)


def _rows(shape: Any) -> DPPolicy:
    """A row a rank."""
    return DPPolicy("row_wise", "row_wise", "row_wise", *shape)


def _same(shape: Any) -> DPPolicy:
    """The same row for every rank."""
    return DPPolicy(sips=shape.sips, cubes=shape.cubes, pes=shape.pes)


def _random(dtype: str, count: int, seed: int) -> Array:
    """Elements of about 1, or integers of all sizes."""
    random, kind = np.random.default_rng(seed), dtype_of(dtype)
    if kind.kind == "float":
        return narrow(random.standard_normal(count, np.float32), dtype)
    return random.integers(int(kind.least), int(kind.most) + 1, count, np.int64).astype(kind.numpy)


def _expected(call: Call, inputs: Sequence[Array]) -> list[Array]:
    """What an algorithm's own reference says, by rank. InputError, with the line of its file, where it fails."""
    group = call.group
    try:
        given = call.algorithm.reference(inputs, group.kind, group.shape, call.slot_bytes)
        found = [np.asarray(given[rank]) for rank in range(group.size)]
    except Exception as error:
        place = place_in(call.algorithm, error)
        rule = f"its reference failed: {place and place + ': '}{type(error).__name__}: {error}"
        remedy = "" if place else f"it must return the elements of each of {group.size} ranks"
        raise InputError(Problem(call.name, rule, remedy=remedy)) from error
    return found


def _wrong(call: Call, inputs: Sequence[Array], out: Any, store: MemoryStore) -> int:
    """Elements that differ in a bit from the reference's; NaN is as good as any NaN."""
    group = call.group
    expected = _expected(call, inputs)
    total = 0
    for rank, row in enumerate(group.rows):
        right = expected[rank]
        if right.size:
            try:
                got = store.read("hbm", out.parts[row].physical, right.shape, call.dtype)
            except ValueError:  # not all of it was ever written
                total += int(right.size)
                continue
            same = (got == right) | ((got != got) & (right != right))
            total += int(right.size - np.count_nonzero(same))
    return total
