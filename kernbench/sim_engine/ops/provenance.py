"""The origin of a byte: its last writer, followed back through moves to the op that computed it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernbench.common.dtypes import dtype_of
from kernbench.sim_engine.memory.strides import strides_of
from kernbench.sim_engine.op_log import OpRecord, row_of
from kernbench.sim_engine.ops.ranges import ReplayOp
from kernbench.sim_engine.ops.reaches import copy_size
from kernbench.sim_engine.replay.order import ordered


def blame(log: Iterable[OpRecord], space: str, addr: int) -> list[ReplayOp]:
    """The ops through which the byte at `addr` passed, from the last writer to the op that computed it; empty if no op wrote
    it."""
    found: list[ReplayOp] = []
    for op in reversed(list(ordered(map(row_of, log)))):
        if not any(one == space and start <= addr < end for one, start, end in op.writes):
            continue
        if op.row.op_kind != "memory":
            return [*found, op]
        source = _source(op, addr)
        if source is None:
            continue  # the byte is between the rows that the op wrote
        found.append(op)
        space, addr = source
        if addr < 0:
            break
    return found


def _source(op: ReplayOp, addr: int) -> tuple[str, int] | None:
    """The source of a byte that a memory op wrote: space and address, or -1 for a byte from outside; None if it was not
    written.
    """
    params = op.params
    shape, dtype = copy_size(params)
    plain = strides_of(shape, dtype)
    targets = [params[key] for key in ("dst_addr", "virtual_addr") if params.get(key) is not None]
    offsets = [_ravelled(addr - one, shape, params.get("dst_strides") or plain, dtype) for one in targets]
    offset = next((one for one in offsets if one is not None), None)
    if offset is None:
        return None
    if params.get("src_addr") is None:
        return "", -1
    steps = params.get("src_strides")
    if steps is not None:
        size = dtype_of(dtype).align
        index = offset // size
        far = offset % size
        for count, stride in zip(reversed(shape), reversed(steps), strict=True):
            index, at = divmod(index, count)
            far += at * stride
        offset = far
    return params.get("src_space", "hbm"), params["src_addr"] + offset


def _ravelled(offset: int, shape: Sequence[int], strides: Sequence[int], dtype: str) -> int | None:
    """The byte of a contiguous tensor at this offset of a strided one, or None."""
    size = dtype_of(dtype).align
    found, left = 0, offset
    plain = strides_of(shape, dtype)
    for count, stride, step in sorted(zip(shape, strides, plain, strict=True), key=lambda axis: -axis[1]):
        at = min(max(left // stride, 0), count - 1) if stride > 0 else 0
        left -= at * stride
        found += at * step
    return found + left if 0 <= left < size else None
