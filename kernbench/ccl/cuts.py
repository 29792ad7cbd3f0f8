"""How elements are cut: into chunks of nearly one size, and these into pieces that fit into a message."""

from __future__ import annotations

Range = tuple[int, int]  #: first element and number of elements
WIDTH = 4  #: messages of a ring that are on their way at a time, where a chunk is large enough
SEGMENT = 8  #: messages of a chunk that go over further rings together
LEAST_BYTES = 2048  #: a smaller message is not cut,
LEAST_MOVED_BYTES = 16384  #: nor this where nothing is added, so that there is nothing to hide behind other messages' ways,
LEAST_FAR_BYTES = 5120  #: nor this on a ring over several SIPs, where a sender has a message's long way to wait before the next


def cut(whole: Range, parts: int) -> list[Range]:
    """`parts` ranges in order, the longer ones first, none longer than another by more than one."""
    first, count = whole
    least, longer = divmod(count, parts)
    found = []
    for number in range(parts):
        size = least + (number < longer)
        found.append((first, size))
        first += size
    return found


def pieces(most: int, itemsize: int, slot_bytes: int, far: bool = False, adds: bool = True) -> int:
    """Into how many messages a chunk of at most so many elements is cut.

    As few as its size allows; but up to `WIDTH`, so that several are on their way at once, where each has `LEAST_BYTES`,
    or, of a ring over SIPs (`far`), `LEAST_FAR_BYTES`, or, where they are only moved on (not `adds`), `LEAST_MOVED_BYTES`.
    """
    fit = max(1, slot_bytes // itemsize)
    least = LEAST_FAR_BYTES if far else LEAST_BYTES if adds else LEAST_MOVED_BYTES
    return max(1, -(-most // fit), min(WIDTH, most * itemsize // least))


def segments(most: int, itemsize: int, slot_bytes: int) -> int:
    """Into how many parts a chunk is cut that go over several rings, one part after the other."""
    return -(-pieces(most, itemsize, slot_bytes) // SEGMENT)
