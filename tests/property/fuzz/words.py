"""Changes of binary tables: words of 8 to 64 bits, overwritten with edges or with what stands elsewhere in the same table."""

from __future__ import annotations

import struct
from random import Random

from tests.property.fuzz.values import WORDS

_SIGNED = {1: "<b", 2: "<h", 4: "<i", 8: "<q"}


def words_changed(rng: Random, data: bytes, begin: int = 0) -> bytes:
    """A table with one word changed, or some; every other one a word that is not 0 now. Words are aligned."""
    made = bytearray(data)
    count = rng.choice((1, 1, 1, 1, 2, 3, 5, 20))
    for _ in range(count):
        size = rng.choice((8, 8, 8, 8, 4, 4, 1, 2))
        if len(made) - begin < size:
            break
        at = _word(rng, made, size, begin)
        change_word(rng, made, at, size)
        if rng.random() < 0.1:  # the same field of neighbours, or neighbours of one row
            for other in range(at + size, min(len(made) - size, at + size * rng.choice((2, 4, 16))), size):
                change_word(rng, made, other, size)
    return bytes(made)


def _word(rng: Random, data: bytearray, size: int, begin: int) -> int:
    words = (len(data) - begin) // size
    at = begin + rng.randrange(words) * size
    if rng.random() < 0.5:
        return at
    for _ in range(64):
        if any(data[at : at + size]):
            break
        at = begin + rng.randrange(words) * size
    return at


def change_word(rng: Random, data: bytearray, at: int, size: int) -> None:
    """Overwrite a word: with an edge, a value near it, one from elsewhere, its neighbour, or other bits."""
    bits = 8 * size
    was = struct.unpack_from(_SIGNED[size], data, at)[0]
    way = rng.randrange(8)
    if way < 3:
        value = rng.choice(WORDS)
    elif way == 3:
        value = was + rng.choice((1, -1, 2, -2, 8, 64, -64))
    elif way < 6:
        other = rng.randrange(len(data) // size) * size
        for _ in range(16):
            if any(data[other : other + size]):
                break
            other = rng.randrange(len(data) // size) * size
        data[at : at + size] = data[other : other + size]
        return
    elif way == 6:
        value = was ^ 1 << rng.randrange(bits)
    else:
        other = at + size if at + 2 * size <= len(data) else at - size
        if other >= 0:
            data[at : at + size], data[other : other + size] = data[other : other + size], data[at : at + size]
        return
    data[at : at + size] = (value % (1 << bits)).to_bytes(size, "little")
