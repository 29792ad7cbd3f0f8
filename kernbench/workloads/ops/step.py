"""A step of a language model as the sum of its operations, under a runtime profile.

Kernels run in sequence. If the host launches them ahead of the device, a step takes the longer of the two, otherwise the sum of
both. The work of the host for each step is added.
"""

from __future__ import annotations

from collections.abc import Iterable

from kernbench.workloads.models.parts import Description
from kernbench.workloads.ops.blocks import Widths
from kernbench.workloads.ops.decoder import step_operations
from kernbench.workloads.ops.networks import Network
from kernbench.workloads.ops.operation import Operation, Sequences
from kernbench.workloads.ops.timing import OperationTimer


def step_ns(
    timer: OperationTimer, operations: Iterable[tuple[Operation, int]], sequences: int = 0, vocab: int = 0, *,
    prompt: bool = False,
) -> float:  # fmt: skip
    """The time of operations by count, and the work for each step, sequence and entry of the vocabulary.

    `prompt`: the step has new sequences.
    """
    return kernels_ns(timer, operations) + timer.runtime.host_ns(sequences, vocab, prompt=prompt)


def kernels_ns(timer: OperationTimer, operations: Iterable[tuple[Operation, int]]) -> float:
    """The time of operations by count: of the device, and of the launches as far as they do not run ahead of it."""
    runtime = timer.runtime
    device = host = 0.0
    names = set()
    for op, times in operations:
        if op.name not in runtime.fused:
            names.add(op.name)
            device += times * timer.device_ns(op)
            host += times * float(runtime.step_launch(op.name, op.kind))
    return max(device, host) if runtime.runs_ahead(names) else device + host


def decode_ns(
    timer: OperationTimer, model: Description, batch: int, cached: int, *, tp: int = 1, widths: Widths | None = None,
    room: int = 0, shards: int | None = None, sequences: int | None = None,
) -> float:  # fmt: skip
    """A token of each of `batch` sequences with `cached` tokens, in a cache that has `room` for so many of each.

    `shards` as in `step_operations`. `sequences`: those that the host serves in the step, if the chips are copies of one model.
    """
    groups = (Sequences(batch, 1, max(cached, room) if timer.runtime.attention.whole_cache else cached),)
    operations = step_operations(model, groups, timer.runtime, tp=tp, shards=shards, widths=widths)
    return step_ns(timer, operations, batch if sequences is None else sequences, model.vocab)


def prefill_ns(
    timer: OperationTimer, model: Description, batch: int, tokens: int, *, tp: int = 1, widths: Widths | None = None
) -> float:
    """`tokens` new tokens of each of `batch` sequences."""
    operations = step_operations(model, (Sequences(batch, max(1, tokens), 0),), timer.runtime, tp=tp, widths=widths)
    return step_ns(timer, operations, batch, model.vocab, prompt=True)


def network_ns(timer: OperationTimer, net: Network, batch: int, *, element: float = 1.0, weight: float = 1.0) -> float:
    """A forward pass over a batch: bytes of an element of the maps and of the weights.

    Maps stay in the memory that the cores share if both of a layer fit: in the cache, or without one in the scratchpad.
    """
    machine = timer.machine
    on_chip = float(timer.view.chip.cache_bytes or machine.spm.num_banks * machine.spm.bank_size_bytes)
    results = batch * element * net.results * float(timer.runtime.result_byte_ns)
    return step_ns(timer, ((layer.operation(batch, on_chip, element, weight), 1) for layer in net.layers)) + results
