"""A step of a language model as the sum of its operations, under a runtime profile.

Kernels run in sequence. The host launches them ahead of the device, so a step takes the longer of the two. The work of the
host for each step is added.
"""

from __future__ import annotations

from collections.abc import Iterable

from kernbench.workloads.ops.decoder import DecoderShape, step_operations
from kernbench.workloads.ops.operation import Operation, Sequences
from kernbench.workloads.ops.timing import OperationTimer


def step_ns(timer: OperationTimer, operations: Iterable[tuple[Operation, int]], sequences: int = 0) -> float:
    """The time of operations by count, and the work of the host for each step and sequence."""
    runtime = timer.runtime
    device = host = 0.0
    for op, times in operations:
        if op.name in runtime.fused:
            continue
        device += times * timer.device_ns(op)
        host += times * float(runtime.launch(op.name, op.kind))
    both = max(device, host) if runtime.ahead > 1 else device + host
    return both + float(runtime.step_ns) + sequences * float(runtime.sequence_ns)


def decode_ns(
    timer: OperationTimer, shape: DecoderShape, batch: int, cached: int, *, tp: int = 1, weight_bytes: float = 2.0
) -> float:
    """A token of each of `batch` sequences with `cached` tokens."""
    groups = (Sequences(batch, 1, cached),)
    return step_ns(timer, step_operations(shape, groups, tp=tp, weight_bytes=weight_bytes), batch)


def prefill_ns(
    timer: OperationTimer, shape: DecoderShape, batch: int, tokens: int, *, tp: int = 1, weight_bytes: float = 2.0
) -> float:
    """`tokens` new tokens of each of `batch` sequences."""
    groups = (Sequences(batch, max(1, tokens), 0),)
    return step_ns(timer, step_operations(shape, groups, tp=tp, weight_bytes=weight_bytes), batch)
