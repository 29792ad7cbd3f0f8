"""`async_copy`: copies from memory to shared memory, and groups of copies that a kernel waits for."""

from __future__ import annotations

from typing import Any

from kernbench.triton.constants import plain
from kernbench.triton.dtypes import refuse
from kernbench.triton.experimental.gluon.shared import Copies, shared_memory_descriptor, wait_for
from kernbench.triton.tensor import FUNCTIONS


def async_load(
    smem: shared_memory_descriptor, pointer: Any, mask: Any = None, cache_modifier: str = "", eviction_policy: str = "",
    volatile: bool = False,
) -> None:  # fmt: skip
    """Begin a load to shared memory: one command of the DMA engine, as `gl.load`. Lanes with a false mask are 0.

    Parameters
    ----------
    smem
        The room of the tile in shared memory.
    pointer
        A tensor of pointers with the shape of the room.
    mask
        The lanes that are loaded.

    Raises
    ------
    TritonError
        If the shapes or the types of pointers and room differ.
    """
    if pointer.shape != smem.shape or pointer.element_ty != smem.dtype:
        refuse(
            f"async_load of {pointer.element_ty}{list(pointer.shape)} to shared memory of {smem.dtype}{list(smem.shape)}; they "
            "must be the same"
        )
    smem.empty()
    tile = FUNCTIONS["load"](pointer, mask, None if mask is None else 0, cache_modifier=cache_modifier)
    Copies.of_program().open.append(smem.receive(tile))


async_copy_global_to_shared = async_load


def commit_group() -> None:
    """Put the copies since the last group into a group."""
    copies = Copies.of_program()
    copies.groups.append(copies.open)
    copies.open = []


def wait_group(num_outstanding: Any = 0) -> None:
    """Wait until at most this number of groups has not ended; the oldest groups end first."""
    groups = Copies.of_program().groups
    while len(groups) > int(plain(num_outstanding)):
        wait_for(groups.popleft())


__all__ = ["async_copy_global_to_shared", "async_load", "commit_group", "wait_group"]
