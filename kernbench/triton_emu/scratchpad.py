"""Which bytes of a PE's scratchpad are whose: first fit, by whole lines, the same for the same order of requests."""

from __future__ import annotations

from kernbench.triton_emu.errors import ScratchpadFullError

SHOWN = 12  # tiles that an error names
Owner = tuple[str, str, tuple[int, ...], str]  #: a tile's name, element type, shape and source line


class Block:
    """Bytes of the scratchpad, given back when the last handle or command that needs them is gone."""

    def __init__(self, pad: Scratchpad, addr: int, nbytes: int, taken: Taken) -> None:
        self.pad = pad
        self.addr = addr
        self.nbytes = nbytes
        self.taken = taken  # its place in the scratchpad's table of who has what

    def __del__(self) -> None:
        self.pad.give_back(self.taken)


class Hole:
    """Contiguous free bytes."""

    def __init__(self, addr: int, nbytes: int) -> None:
        self.addr = addr
        self.nbytes = nbytes


class Taken:
    """A place in the table of who has what; the next owner of the place writes over it."""

    def __init__(self) -> None:
        self.addr = 0
        self.nbytes = 0
        self.owner: Owner | None = None  #: None: nobody has it
        self.number = 0  #: of a tile without a name
        self._next: Taken | None = None  # of a place that nobody has: the next such place


class Scratchpad:
    """The free bytes of one scratchpad, from `base` on. Addresses are global."""

    def __init__(self, base: int, size: int, line: int) -> None:
        self.base = base
        self.size = size
        self.held = 0  #: blocks that somebody has
        self._line = line
        self._holes = [Hole(base, size)]  # in order of addresses, never touching
        self._taken: list[Taken] = []
        self._free: Taken | None = None  # the first place of the table that nobody has

    @property
    def free(self) -> int:
        """Free bytes."""
        return sum([hole.nbytes for hole in self._holes])

    @property
    def largest(self) -> int:
        """Bytes of the largest free piece."""
        return max([hole.nbytes for hole in self._holes], default=0)

    def take(self, nbytes: int, who: Owner, number: int = 0) -> Block | None:
        """Allocate contiguous bytes at a line boundary; None if no hole is large enough. `number`: of a tile without a name."""
        size = (nbytes + self._line - 1) // self._line * self._line
        for i in range(len(self._holes)):
            hole = self._holes[i]
            if hole.nbytes >= size:
                block = Block.__new__(Block)
                block.pad, block.addr, block.nbytes = self, hole.addr, size
                block.taken = self._enter(hole.addr, size, who, number)
                if hole.nbytes == size:
                    del self._holes[i]
                else:
                    hole.addr += size
                    hole.nbytes -= size
                return block
        return None

    def _enter(self, addr: int, size: int, who: Owner, number: int) -> Taken:
        """Record the owner of bytes."""
        taken = self._free
        if taken is None:
            taken = Taken()
            self._taken.append(taken)
        else:
            self._free, taken._next = taken._next, None
        taken.addr, taken.nbytes, taken.owner, taken.number = addr, size, who, number
        self.held += 1
        return taken

    def give_back(self, taken: Taken) -> None:
        """The bytes of a block are free again."""
        addr, end = taken.addr, taken.addr + taken.nbytes
        taken.owner, taken._next = None, self._free
        self._free = taken
        self.held -= 1
        i, count = 0, len(self._holes)
        while i < count:
            hole = self._holes[i]
            if hole.addr >= addr:
                break
            i += 1
        before = self._holes[i - 1] if i else None
        after = self._holes[i] if i < count else None
        if before is not None and before.addr + before.nbytes == addr:
            before.nbytes += taken.nbytes
            if after is not None and after.addr == end:
                before.nbytes += after.nbytes
                del self._holes[i]
        elif after is not None and after.addr == end:
            after.addr = addr
            after.nbytes += taken.nbytes
        else:
            self._holes.insert(i, Hole(addr, taken.nbytes))

    def refusal(self, nbytes: int, who: Owner, number: int = 0) -> ScratchpadFullError:
        """The reason why there is no room, and the owners."""
        held = [
            (-taken.nbytes, taken.addr, shown(taken.owner, taken.number), taken.owner[3])
            for taken in self._taken
            if taken.owner is not None
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
