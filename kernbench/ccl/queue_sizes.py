"""The default sizes of queues: between the chips of a board, from the bandwidth and the latency of the links; and in small
scratchpads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernbench.ccl.contract import WIDTH, most_queues, switch_queues
from kernbench.ccl.group import Group
from kernbench.ccl.group_routes import latencies_of
from kernbench.ccl.ring_schedule import LIMIT
from kernbench.ccl.rings import sizes_of_kind
from kernbench.config import SystemConfig

if TYPE_CHECKING:
    from kernbench.ccl.registry import Entry

#: Slots of a queue. Each lane of a ring may hold a slot until it forwards the message, while its next message arrives in
#: another slot. If the scratchpad has room, there is one more slot for each message in flight.
SLOTS = (2 * LIMIT + WIDTH, 2 * LIMIT)
#: Slots of a queue of a schedule that has only a few slots on other machines. A lane may send two messages over a queue, so
#: `WIDTH` lanes need twice as many slots. A slot is free for the next lane only when its credit is back, so a third set of
#: slots keeps the link busy until then. If the scratchpad has less room, the largest number counts that fits.
SLOTS_OF_SCHEDULES = (3 * WIDTH, 2 * WIDTH, 3 * WIDTH // 2, WIDTH)
#: The slots of a rank take at most 1 / ALONE of its scratchpad if the rank runs one collective at a time. They take at most
#: 1 / BESIDE if other groups have queues, or other kernels may run.
ALONE = 2
BESIDE = 8
LARGE = 1 << 20  #: [B] smaller scratchpads may be too small for the sizes of the list of algorithms
LEAST = 64  #: [B] smallest slot
FEWEST = 4  #: smallest number of slots
MAX_RANKS = 2048  #: the queues of each rank are not counted in larger groups

_found: dict[tuple[object, ...], tuple[int, int]] = {}


def of_chips(config: SystemConfig, group: Group) -> bool:
    """Return whether each rank is a chip: a SIP with a single PE, so that messages travel over links between SIPs only."""
    return config.cubes * config.cube.pes == 1 and group.shape.ranks > 1


def sizes_for(
    config: SystemConfig, group: Group, entry: Entry, slots: int | None, slot_bytes: int | None, least: int, parts: int
) -> tuple[int, int]:
    """Return the slots of a queue, and the size [B] of a slot, with which `WIDTH` messages keep a link between two chips busy.

    Algorithms with more than `WIDTH` slots of their own keep this number.

    A message occupies its slot until its credit is back, after twice the latency of the link. In this time, the link carries
    the product of its bandwidth and twice its latency. The size of a slot is a power of two.

    Parameters
    ----------
    config, group
        The machine, and the ranks on it.
    entry
        The algorithm.
    slots, slot_bytes
        A given number of slots, and a given size. The result has these values instead of computed ones.
    least
        The size [B] that a slot of the algorithm has on other machines, and the smallest computed size.
    parts
        The slots of a rank take at most 1 / `parts` of its scratchpad. If the computed size takes more, it is halved.
    """
    key = config.digest(), group, entry.full_name, slots, slot_bytes, least, parts
    if key not in _found:
        _found[key] = _sizes_for(config, group, entry, slots, slot_bytes, least, parts)
    return _found[key]


def _sizes_for(
    config: SystemConfig, group: Group, entry: Entry, slots: int | None, slot_bytes: int | None, least: int, parts: int
) -> tuple[int, int]:
    times, queues = latencies_of(config), _queues(entry, group)
    room = config.pe.spm.size_bytes // (parts * queues)
    held = int(times.in_flight)
    nbytes = max(least, 1 << max(0, -(-held // WIDTH) - 1).bit_length()) if slot_bytes is None else slot_bytes
    numbers = _numbers(entry) if slots is None else (slots,)
    while True:
        for number in numbers:
            if number * nbytes <= room:
                return number, nbytes
        if slot_bytes is not None or nbytes <= least:
            return numbers[-1], nbytes
        nbytes = max(least, nbytes // 2)


def _numbers(entry: Entry) -> tuple[int, ...]:
    """Return the numbers of slots that a queue of an algorithm may have, the best one first."""
    if entry.slots is None:
        return SLOTS
    return SLOTS_OF_SCHEDULES if entry.slots <= WIDTH else (entry.slots,)


def sizes_in(
    config: SystemConfig, group: Group, entry: Entry, slots: int, slot_bytes: int, parts: int
) -> tuple[int, int]:
    """Return the slots of a queue, and the size [B] of a slot, that leave room in a small scratchpad, or beside the queues of
    several dimensions.

    If the queues of a rank do not fit into its scratchpad, the size and then the number of slots are halved until the queues
    take at most 1 / `parts` of the scratchpad.
    """
    there, whole = config.pe.spm.size_bytes, config.pe.spm.size_bytes
    if sizes_of_kind(group.kind):
        whole = 3 * there // 4  # a rank has two queues for each dimension, and needs room for tiles
    elif there >= LARGE:
        return slots, slot_bytes
    key = config.digest(), group, entry.full_name, slots, slot_bytes, "small", parts
    if key not in _found:
        queues, number, nbytes = max(1, _queues(entry, group)), slots, slot_bytes
        if queues * slots * slot_bytes > whole:
            while queues * number * nbytes * parts > there and (nbytes > LEAST or number > FEWEST):
                number, nbytes = (number, nbytes // 2) if nbytes > LEAST else (number // 2, nbytes)
        _found[key] = number, nbytes
    return _found[key]


def _queues(entry: Entry, group: Group) -> int:
    """Return the queues of the rank that has the most."""
    if group.shape.ranks > MAX_RANKS:
        return 2
    made = entry.load()
    return most_queues(made.neighbours(group.kind, group.shape), switch_queues(made, group.kind, group.shape, "add"))
