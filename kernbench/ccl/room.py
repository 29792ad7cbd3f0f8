"""Whether a size has room: its elements in the memory of this computer, and in the HBM of the simulated machine."""

from __future__ import annotations

from collections.abc import Sequence

from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.measure import Asked, bytes_of
from kernbench.ccl.work import memory
from kernbench.common.dtypes import dtype_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.free_memory import free_memory
from kernbench.common.units import ceil_div
from kernbench.runtime_api.address_space import ALIGNMENT
from kernbench.triton_emu.queues import MOST_BYTES, MOST_SLOTS

GIB = 1 << 30
MOST_HELD = 8 * GIB  #: [B] of elements; numpy has them in wider types while they are made and compared


def check_room(asked: Asked, counts: Sequence[int]) -> None:
    """InputError for sizes or queues that have no room, before anything is made."""
    _check_slots(asked)
    largest = max(counts)
    _check_held(asked, bytes_of(asked, largest))
    _check_slice(asked, largest)
    free, needed = free_memory(), memory(asked, largest)
    if free is not None and needed > free:
        rule = f"it takes about {needed / GIB:,.1f} GiB of this computer's memory, and {free / GIB:,.1f} GiB are free"
        remedy = "take a smaller size" + (", fewer ranks, or --no-check" if asked.check else "")
        raise InputError(Problem("kbsim ccl run", rule, "size", bytes_of(asked, largest), remedy))


def _check_slots(asked: Asked) -> None:
    """An element has to fit into a slot, and the slots of a queue into a scratchpad."""
    slots, nbytes = asked.queues.slots or 0, asked.queues.slot_bytes or 0
    least = dtype_of(asked.dtype).bits // 8
    if COLLECTIVES[asked.entry.collective].moves and nbytes < least:
        rule = f"an element of {asked.dtype} has {least}, and a slot has to hold one"
        raise InputError(Problem("kbsim ccl run", rule, "--slot-bytes", nbytes))
    spm = asked.config.pe.spm
    there = spm.num_banks * spm.bank_size_bytes
    wanted = asked.queues.tier == "tcm" and slots <= MOST_SLOTS and nbytes <= MOST_BYTES  # more is refused of any queue
    if wanted and slots * nbytes > there:
        rule = f"{slots:,} slots take {slots * nbytes:,} bytes of a PE's scratchpad of {there:,}"
        remedy = "take fewer or smaller slots (--slots, --slot-bytes), or --tier hbm"
        raise InputError(Problem("kbsim ccl run", rule, "--slot-bytes", nbytes, remedy))


def _check_held(asked: Asked, nbytes: int) -> None:
    """Elements are not to be more than can be held: those of all ranks where they are verified, of one else."""
    held = nbytes * (asked.group.size if asked.check else 1)
    if held > MOST_HELD:
        whose = f"those of {asked.group.size} ranks" if asked.check else "those of a rank"
        size, most = f"{held / GIB:,.0f} GiB", MOST_HELD // GIB
        rule = f"its elements are held while it runs, {whose} are {size}, and at most {most} are taken"
        remedy = "take a smaller size" + (", or --no-check, which holds those of one rank" if asked.check else "")
        raise InputError(Problem("kbsim ccl run", rule, "size", nbytes, remedy))


def _check_slice(asked: Asked, count: int) -> None:
    """A rank's elements and results lie in its PE's slice of the HBM."""
    collective, ranks = COLLECTIVES[asked.entry.collective], asked.group.size
    itemsize, there = dtype_of(asked.dtype).bits // 8, asked.config.slice_bytes
    has, gets = (each * itemsize for each in (collective.has(count, ranks), collective.gets(count, ranks)))
    taken = ceil_div(has, ALIGNMENT) * ALIGNMENT + gets
    if taken > there:
        rule = f"a rank's elements and results take {taken:,} bytes, and a PE's slice of the HBM has {there:,}"
        raise InputError(Problem("kbsim ccl run", rule, "size", bytes_of(asked, count), "take a smaller size"))
