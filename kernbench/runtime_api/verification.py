"""Comparison of the outputs of a run with the reference: Phase 2, and then each part of each tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kernbench.common.dtypes import Array
from kernbench.runtime_api.pe_set import PeSet
from kernbench.runtime_api.tensors import DeviceTensor
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger, Output
from kernbench.sim_engine.verify import Failure, Verification, compare

MAX_TRACED = 8  #: number of wrong parts whose ops are looked up; each lookup scans the whole log


def verify_run(
    log: OpLogger, outputs: Mapping[str, DeviceTensor], expected: Mapping[str, Array], places: PeSet, *, debug: bool
) -> Verification:
    """Replay a log, and compare tensors with arrays of the same shapes. The index in a failure is an index of the whole
    tensor."""
    pieces = {
        piece.name: (piece, values, offset)
        for name, array in expected.items()
        for piece, values, offset in _pieces(name, outputs[name], array, places)
    }
    executor = DataExecutor(log, outputs=[piece for piece, _, _ in pieces.values()], debug=debug).run()
    wrong = {
        label: failure
        for label, (piece, values, _) in pieces.items()
        if (failure := _failure(executor.store, piece, values)) is not None
    }
    traced = executor.verify({label: pieces[label][1] for label in list(wrong)[:MAX_TRACED]})
    wrong |= {failure.tensor: failure for failure in traced.failures}
    failures = [_in_whole(one, *(pieces[label][2] if label in pieces else ("", ()))) for label, one in wrong.items()]
    ops = tuple(name for name in traced.checked if name not in pieces)  # tensors that Phase 1 computed too
    return Verification((*pieces, *ops), tuple(failures))


def _failure(store: MemoryStore, piece: Output, values: Array) -> Failure | None:
    try:
        got = store.read(piece.space, piece.addr, piece.shape, piece.dtype)
    except ValueError as error:
        return Failure(piece.name, f"it is not there: {error}")
    return compare(piece.name, got, values, piece.dtype)


def _in_whole(failure: Failure, name: str, offset: tuple[int, ...]) -> Failure:
    """The failure of a shard of the tensor `name`, expressed as a failure of the whole tensor."""
    if failure.index is None or not name:
        return failure
    return replace(failure, tensor=name, index=tuple(at + i for at, i in zip(offset, failure.index, strict=True)))


def _pieces(
    name: str, tensor: DeviceTensor, array: Array, places: PeSet
) -> Iterator[tuple[Output, Array, tuple[str, tuple[int, ...]]]]:
    """The contiguous pieces of a tensor in HBM: each with its expected elements and the offset of its indices in the whole
    tensor. A piece without a name has the indices of the piece itself."""
    for part in tensor.parts:
        label, begin = name, (name, (0,) * len(tensor.shape))
        if part.pe is not None and part.shard is not None:
            label, begin = f"{name}@{places.pes[part.pe]}", (name, part.shard.offset)
        elif len(tensor.parts) > 1:
            label, begin = f"{name}.flat[{part.first}:]", ("", ())
        if part.nbytes:
            yield Output(label, "hbm", part.physical, part.shape, tensor.dtype), part.of(array), begin
