"""The order of a replay: by `t_start`, then memory ops before math ops. Every op comes after its explicit dependencies.

A store is visible when it is issued and a load reads when it completes, but the log has the time at which their DMA began. If
these orders differ, the log contains `dependency_ids`. An op that depends on a later op waits for the later op. Ops that need
bytes of a waiting op also wait. All other ops keep their times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from kernbench.common.errors import InputError, Problem
from kernbench.sim_engine.op_log import OpRow
from kernbench.sim_engine.ops.ranges import ReplayOp


def ordered(rows: Iterable[OpRow], skip: Collection[int] = frozenset()) -> Iterator[ReplayOp]:
    """The ops of rows that are in order of `t_start`, as they are replayed in sequence, without the op ids of `skip`.

    A record without an op id is known by its place in the log. Raises InputError if an op depends on one that is not in
    the log or on itself, and where two have the same id.
    """
    done = set(skip)
    waiting: dict[int, tuple[ReplayOp, set[int]]] = {}
    for op in _by_time(rows, skip):
        if op.op_id in done or op.op_id in waiting:
            raise InputError(Problem(str(op), f"another record has the op id {op.op_id} too"))
        awaited = {one for one in op.row.deps if one not in done} if op.row.deps else set()
        if waiting:
            touched = [one for one, (other, _) in waiting.items() if op.conflicts(other)]
            awaited.update(one for one in touched if op.op_id not in _behind(one, waiting))
        if awaited:
            waiting[op.op_id] = op, awaited
            continue
        done.add(op.op_id)
        yield op
        if waiting:
            yield from _released(op.op_id, waiting, done)
    if waiting:
        raise InputError(_stuck(waiting))


def _by_time(rows: Iterable[OpRow], skip: Collection[int]) -> Iterator[ReplayOp]:
    time = 0.0
    ops: list[ReplayOp] = []  # of one time
    for place, row in enumerate(rows):
        if ops and row.t_start != time:
            yield from _memory_first(ops)
            ops = []
        time = row.t_start
        if row.op_id not in skip:
            ops.append(ReplayOp(row, row.op_id if row.op_id >= 0 else place))
    yield from _memory_first(ops)


def _memory_first(ops: list[ReplayOp]) -> list[ReplayOp]:
    if len(ops) > 1:
        ops.sort(key=lambda op: op.row.op_kind != "memory")
    return ops


def _behind(op_id: int, waiting: dict[int, tuple[ReplayOp, set[int]]]) -> set[int]:
    """All that a waiting op waits for, at one remove or more."""
    found: set[int] = set()
    new = [op_id]
    while new:
        entry = waiting.get(new.pop())
        if entry is not None:
            new += entry[1] - found
            found |= entry[1]
    return found


def _released(op_id: int, waiting: dict[int, tuple[ReplayOp, set[int]]], done: set[int]) -> Iterator[ReplayOp]:
    """The ops whose last dependency was this one, and in turn their dependents, the earliest first."""
    ready = [op_id]
    while ready:
        came = ready.pop(0)
        for one, (op, awaited) in list(waiting.items()):
            awaited.discard(came)
            if not awaited:
                del waiting[one]
                done.add(one)
                ready.append(one)
                yield op


def _stuck(waiting: dict[int, tuple[ReplayOp, set[int]]]) -> Problem:
    op, awaited = next(iter(waiting.values()))
    missing = sorted(one for _, all_of_it in waiting.values() for one in all_of_it if one not in waiting)
    if missing:
        op = next(op for op, all_of_it in waiting.values() if missing[0] in all_of_it)
        return Problem(str(op), f"it depends on op {missing[0]}, which is not in the log", "dependency_ids")
    return Problem(str(op), f"it waits for op {min(awaited)}, which in turn waits for it", "dependency_ids")
