"""Which bytes of a PE's scratchpad are whose: first fit, by whole lines, the same for the same order of requests."""

from __future__ import annotations

from array import array

from kernbench.triton_emu.errors import ScratchpadFullError

SHOWN = 12  # tiles that an error names
ROOM = 16  # of a table, to begin with
Owner = tuple[str, str, tuple[int, ...], str]  #: a tile's name, element type, shape and source line


class Block:
    """Bytes of the scratchpad, given back when the last handle or command that needs them is gone."""

    def __init__(self, pad: Scratchpad, addr: int, nbytes: int, place: int) -> None:
        self.pad = pad
        self.addr = addr
        self.nbytes = nbytes
        self.place = place  # in the scratchpad's table of who has what

    def __del__(self) -> None:
        self.pad.give_back(self.place)


class Scratchpad:
    """The free bytes of one scratchpad, from `base` on. Addresses are global.

    Its tables are arrays of numbers: every tile of a kernel comes by here, twice.
    """

    def __init__(self, base: int, size: int, line: int) -> None:
        self.base = base
        self.size = size
        self.held = 0  #: blocks that somebody has
        self._line = line
        self._starts, self._sizes = array("q", [base] + [0] * ROOM), array("q", [size] + [0] * ROOM)  # of the holes, in order,
        self._holes = 1  # never touching
        self._taken, self._taken_bytes = array("q", [0] * ROOM), array("q", [0] * ROOM)  # by place: address and bytes,
        self._numbers = array("q", [0] * ROOM)  # and the number of a tile without a name
        self._owners: list[Owner | None] = [None] * ROOM
        self._free_places = list(range(ROOM - 1, -1, -1))

    @property
    def free(self) -> int:
        """Free bytes."""
        return sum([self._sizes[i] for i in range(self._holes)])

    @property
    def largest(self) -> int:
        """Bytes of the largest free piece."""
        return max([self._sizes[i] for i in range(self._holes)], default=0)

    def take(self, nbytes: int, who: Owner, number: int = 0) -> Block | None:
        """Allocate contiguous bytes at a line boundary; None if no hole is large enough. `number`: of a tile without a name."""
        size = (nbytes + self._line - 1) // self._line * self._line
        for i in range(self._holes):
            room = self._sizes[i]
            if room >= size:
                addr = self._starts[i]
                if room == size:
                    self._close(i)
                else:
                    self._starts[i] = addr + size
                    self._sizes[i] = room - size
                block = Block.__new__(Block)
                block.pad, block.addr, block.nbytes = self, addr, size
                block.place = self._enter(addr, size, who, number)
                return block
        return None

    def _enter(self, addr: int, size: int, who: Owner, number: int) -> int:
        """Record the owner of bytes; returns the index."""
        if not self._free_places:
            count = len(self._owners)
            self._taken, self._taken_bytes = _longer(self._taken), _longer(self._taken_bytes)
            self._numbers = _longer(self._numbers)
            self._owners += [None] * count
            self._free_places = list(range(2 * count - 1, count - 1, -1))
        place: int = self._free_places.pop()
        self._taken[place], self._taken_bytes[place], self._numbers[place] = addr, size, number
        self._owners[place] = who
        self.held += 1
        return place

    def give_back(self, place: int) -> None:
        """The bytes of a block are free again."""
        addr, nbytes = self._taken[place], self._taken_bytes[place]
        self._owners[place] = None
        self._free_places.append(place)
        self.held -= 1
        i = 0
        while i < self._holes and self._starts[i] < addr:
            i += 1
        before = i > 0 and self._starts[i - 1] + self._sizes[i - 1] == addr
        after = i < self._holes and addr + nbytes == self._starts[i]
        if before:
            self._sizes[i - 1] += nbytes
            if after:
                self._sizes[i - 1] += self._sizes[i]
                self._close(i)
        elif after:
            self._starts[i] = addr
            self._sizes[i] += nbytes
        else:
            self._open(i, addr, nbytes)

    def _close(self, i: int) -> None:
        """Remove a hole."""
        self._holes -= 1
        for k in range(i, self._holes):
            self._starts[k], self._sizes[k] = self._starts[k + 1], self._sizes[k + 1]

    def _open(self, i: int, addr: int, nbytes: int) -> None:
        """A new one, before the others from there on."""
        if self._holes == len(self._starts):
            self._starts, self._sizes = _longer(self._starts), _longer(self._sizes)
        for k in range(self._holes, i, -1):
            self._starts[k], self._sizes[k] = self._starts[k - 1], self._sizes[k - 1]
        self._starts[i], self._sizes[i] = addr, nbytes
        self._holes += 1

    def refusal(self, nbytes: int, who: Owner, number: int = 0) -> ScratchpadFullError:
        """The reason why there is no room, and the owners."""
        held = [
            (-self._taken_bytes[place], self._taken[place], shown(owner, self._numbers[place]), owner[3])
            for place, owner in enumerate(self._owners)
            if owner is not None
        ]
        names = [f"{tile} of {line} ({-size} bytes)" for size, _, tile, line in sorted(held)[:SHOWN]]
        if len(held) > SHOWN:
            names.append(f"{len(held) - SHOWN} more")
        by = f"; it is held by {', '.join(names)}" if names else ""
        return ScratchpadFullError(
            f"{who[3]}: {shown(who, number)} takes {nbytes} bytes, but of the scratchpad's {self.size} bytes "
            f"{self.free} are free, the largest piece {self.largest}, and no command in flight will free more{by}; "
            "use smaller tiles, or let go of handles"
        )


def shown(owner: Owner, number: int) -> str:
    """A tile as errors name it."""
    return f"{owner[0] or f't{number}'} {owner[1]}{list(owner[2])}"


def _longer(table: array[int]) -> array[int]:
    """A table with twice the room."""
    return array("q", [*table, *[0] * len(table)])
