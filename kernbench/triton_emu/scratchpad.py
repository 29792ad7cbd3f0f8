"""Allocates bytes of a PE's scratchpad: first fit, in whole lines, deterministic for the same order of requests."""

from __future__ import annotations

from kernbench.triton_emu.errors import ScratchpadFullError

SHOWN = 12  # number of tiles that an error message lists
Owner = tuple[str, str, tuple[int, ...], str]  #: a tile's name, element type, shape and source line


class Block:
    """Allocated bytes of the scratchpad. They are freed when no handle or command refers to the block any more."""

    def __init__(self, pad: Scratchpad, addr: int, nbytes: int, allocation: Allocation) -> None:
        self.pad = pad
        self.addr = addr
        self.nbytes = nbytes
        self.allocation = allocation  # its entry in the scratchpad's table of allocations

    def __del__(self) -> None:
        self.pad.give_back(self.allocation)


class Hole:
    """Contiguous free bytes."""

    def __init__(self, addr: int, nbytes: int) -> None:
        self.addr = addr
        self.nbytes = nbytes


class Allocation:
    """An entry in the table of allocations. A later allocation reuses the entry of freed bytes."""

    def __init__(self) -> None:
        self.addr = 0
        self.nbytes = 0
        self.owner: Owner | None = None  #: None: the entry is unused
        self.number = 0  #: of a tile without a name
        self._next: Allocation | None = None  # of an unused entry: the next unused entry


class Scratchpad:
    """The free bytes of one scratchpad, from `base` on. Addresses are global."""

    def __init__(self, base: int, size: int, line: int) -> None:
        self.base = base
        self.size = size
        self.held = 0  #: number of allocated blocks
        self._line = line
        self._holes = [Hole(base, size)]  # in order of addresses; adjacent holes are merged
        self._allocations: list[Allocation] = []
        self._free: Allocation | None = None  # the first unused entry of the table

    @property
    def free(self) -> int:
        """Free bytes."""
        return sum([hole.nbytes for hole in self._holes])

    @property
    def largest(self) -> int:
        """[B] The size of the largest hole."""
        return max([hole.nbytes for hole in self._holes], default=0)

    def take(self, nbytes: int, who: Owner, number: int = 0) -> Block | None:
        """Allocate contiguous bytes at a line boundary; None if no hole is large enough. `number`: of a tile without a name."""
        size = (nbytes + self._line - 1) // self._line * self._line
        for i in range(len(self._holes)):
            hole = self._holes[i]
            if hole.nbytes >= size:
                block = Block.__new__(Block)
                block.pad, block.addr, block.nbytes = self, hole.addr, size
                block.allocation = self._enter(hole.addr, size, who, number)
                if hole.nbytes == size:
                    del self._holes[i]
                else:
                    hole.addr += size
                    hole.nbytes -= size
                return block
        return None

    def _enter(self, addr: int, size: int, who: Owner, number: int) -> Allocation:
        """Record the owner of bytes."""
        allocation = self._free
        if allocation is None:
            allocation = Allocation()
            self._allocations.append(allocation)
        else:
            self._free, allocation._next = allocation._next, None
        allocation.addr, allocation.nbytes, allocation.owner, allocation.number = addr, size, who, number
        self.held += 1
        return allocation

    def give_back(self, allocation: Allocation) -> None:
        """Free the bytes of a block."""
        addr, end = allocation.addr, allocation.addr + allocation.nbytes
        allocation.owner, allocation._next = None, self._free
        self._free = allocation
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
            before.nbytes += allocation.nbytes
            if after is not None and after.addr == end:
                before.nbytes += after.nbytes
                del self._holes[i]
        elif after is not None and after.addr == end:
            after.addr = addr
            after.nbytes += allocation.nbytes
        else:
            self._holes.insert(i, Hole(addr, allocation.nbytes))

    def refusal(self, nbytes: int, who: Owner, number: int = 0) -> ScratchpadFullError:
        """The reason why an allocation failed, with the owners of the largest blocks."""
        held = [
            (-allocation.nbytes, allocation.addr, shown(allocation.owner, allocation.number), allocation.owner[3])
            for allocation in self._allocations
            if allocation.owner is not None
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
