"""`mbarrier`: barriers in shared memory that a kernel waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.triton.constants import plain
from kernbench.triton.dtypes import int64, refuse
from kernbench.triton.experimental.gluon.layouts import MBarrierLayout
from kernbench.triton.experimental.gluon.shared import Barrier, allocate_shared_memory, shared_memory_descriptor


def allocate_mbarrier(batch: Any = None, two_ctas: bool = False) -> shared_memory_descriptor:
    """Make room for a barrier, or for a sequence of `batch` barriers."""
    size = plain(batch)
    return allocate_shared_memory(int64, [1] if size is None else [size, 1], MBarrierLayout())


def init(mbarrier: shared_memory_descriptor, count: Any) -> None:
    """Make a barrier whose phases are complete after `count` arrivals."""
    mbarrier.slot.barrier = Barrier(int(plain(count)))


def barrier_of(mbarrier: Any) -> Barrier:
    """Return the barrier. Raises TritonError before `init` and after `invalidate`."""
    found = mbarrier.slot.barrier if isinstance(mbarrier, shared_memory_descriptor) else None
    if found is None:
        refuse("an mbarrier is used before mbarrier.init, or after mbarrier.invalidate")
    return found


def invalidate(mbarrier: shared_memory_descriptor) -> None:
    """End the use of a barrier."""
    barrier_of(mbarrier)
    mbarrier.slot.barrier = None


def expect(mbarrier: shared_memory_descriptor, bytes_per_cta: Any = 0, pred: Any = True) -> None:
    """Arrive once, and announce bytes that copies bring before the phase is complete."""
    if pred:
        barrier_of(mbarrier).arrive(1, int(plain(bytes_per_cta)))


def arrive(mbarrier: shared_memory_descriptor, *, count: Any = 1, pred: Any = True) -> None:
    """Arrive `count` times."""
    if pred:
        barrier_of(mbarrier).arrive(int(plain(count)))


def wait(mbarrier: shared_memory_descriptor, phase: Any, pred: Any = True, deps: Sequence[Any] = ()) -> None:
    """Wait until the phase with this parity, 0 or 1, is complete."""
    if pred:
        barrier_of(mbarrier).wait(int(plain(phase)))


__all__ = ["MBarrierLayout", "allocate_mbarrier", "arrive", "expect", "init", "invalidate", "wait"]
