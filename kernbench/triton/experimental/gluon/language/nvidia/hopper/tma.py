"""`tma`: copies of the blocks of tensor descriptors between memory and shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.triton.block_pointers import make_tensor_descriptor, tensor_descriptor
from kernbench.triton.constants import plain
from kernbench.triton.dtypes import refuse
from kernbench.triton.experimental.gluon.language.nvidia.hopper.mbarrier import barrier_of
from kernbench.triton.experimental.gluon.refused import refused
from kernbench.triton.experimental.gluon.shared import Copies, shared_memory_descriptor
from kernbench.triton.program import current


def async_load(
    tensor_desc: tensor_descriptor, coord: Sequence[Any], barrier: shared_memory_descriptor, result: shared_memory_descriptor,
    pred: Any = True, multicast: bool = False,
) -> None:  # fmt: skip
    """Begin a load of a block to shared memory: one command of the DMA engine. Its bytes count for the barrier.

    Parameters
    ----------
    tensor_desc
        The tensor.
    coord
        The first element of the block along each axis [elements].
    barrier
        The mbarrier whose phase the copy completes.
    result
        The room of the block in shared memory.
    pred
        Whether anything is copied.

    Raises
    ------
    TritonError
        If the shape of the room is not that of the block, and for `multicast`.
    """
    if multicast:
        refuse("tma.async_load(multicast=True): there are no clusters of programs; leave it out")
    if not pred:
        return
    _check(tensor_desc, result)
    result.empty()
    barrier_of(barrier).receive(result.receive(tensor_desc.load(coord)), result.nbytes)


def async_store(tensor_desc: tensor_descriptor, coord: Sequence[Any], src: shared_memory_descriptor) -> None:
    """Begin a store of a block from shared memory. Elements outside of the tensor are not stored."""
    _check(tensor_desc, src)
    own = current()
    own.last_store = None
    tensor_desc.store(coord, src.load())
    if own.last_store is not None:
        Copies.of_program().stores.append(own.last_store)


async_copy_global_to_shared, async_copy_shared_to_global = async_load, async_store


def store_wait(pendings: Any, read_only: bool = True) -> None:
    """Wait until at most this number of stores has not ended; the oldest stores end first."""
    own, stores = current(), Copies.of_program().stores
    while len(stores) > int(plain(pendings)):
        own.wait_for_command(stores.popleft(), "a store of a block")


def _check(described: tensor_descriptor, room: shared_memory_descriptor) -> None:
    if described.block_shape != room.shape or described.dtype != room.dtype:
        refuse(
            f"a block of {described.dtype}{list(described.block_shape)} and shared memory of {room.dtype}{list(room.shape)}; "
            "they must be the same"
        )


def __getattr__(name: str) -> Any:
    return refused("tma", name)


__all__ = [
    "async_copy_global_to_shared",
    "async_copy_shared_to_global",
    "async_load",
    "async_store",
    "make_tensor_descriptor",
    "store_wait",
    "tensor_descriptor",
]
