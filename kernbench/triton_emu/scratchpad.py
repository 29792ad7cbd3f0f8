"""Which bytes of a PE's scratchpad are whose: first fit, by whole lines, the same for the same order of requests."""

from __future__ import annotations

from bisect import bisect_left, insort

from kernbench.triton_emu.errors import ScratchpadFullError

SHOWN = 12  # tiles that an error names
Owner = tuple[str, str, tuple[int, ...], str]  #: a tile's name, element type, shape and source line


class Block:
    """Bytes of the scratchpad, given back when the last handle or command that needs them is gone."""

    __slots__ = ("addr", "nbytes", "pad")

    def __init__(self, pad: Scratchpad, addr: int, nbytes: int) -> None:
        self.pad = pad
        self.addr = addr
        self.nbytes = nbytes

    def __del__(self) -> None:
        self.pad.give_back(self.addr, self.nbytes)


class Scratchpad:
    """The free bytes of one scratchpad, from `base` on. Addresses are global."""

    def __init__(self, base: int, size: int, line: int) -> None:
        self.base = base
        self.size = size
        self._line = line
        self._holes: list[tuple[int, int]] = [(base, size)]  # address and bytes, in order, never touching
        self.tiles: dict[int, tuple[int, Owner]] = {}  #: by address: bytes, and who has them

    @property
    def free(self) -> int:
        """Bytes that nobody has."""
        return sum(nbytes for _, nbytes in self._holes)

    @property
    def largest(self) -> int:
        """Bytes of the largest free piece."""
        return max((nbytes for _, nbytes in self._holes), default=0)

    def take(self, nbytes: int, who: Owner) -> Block | None:
        """So many bytes in one piece, at a line; None where no hole is large enough."""
        size = -(-nbytes // self._line) * self._line
        for i, (addr, hole) in enumerate(self._holes):
            if hole >= size:
                if hole == size:
                    del self._holes[i]
                else:
                    self._holes[i] = (addr + size, hole - size)
                self.tiles[addr] = (size, who)
                return Block(self, addr, size)
        return None

    def give_back(self, addr: int, nbytes: int) -> None:
        """These bytes are free again."""
        del self.tiles[addr]
        holes = self._holes
        i = bisect_left(holes, (addr,))
        if i < len(holes) and addr + nbytes == holes[i][0]:
            nbytes += holes.pop(i)[1]
        if i and holes[i - 1][0] + holes[i - 1][1] == addr:
            start, before = holes[i - 1]
            holes[i - 1] = (start, before + nbytes)
            return
        insort(holes, (addr, nbytes))

    def refusal(self, nbytes: int, who: Owner) -> ScratchpadFullError:
        """Why there is no room, and who has it."""
        largest = max((hole for _, hole in self._holes), default=0)
        held = sorted(self.tiles.items(), key=lambda tile: (-tile[1][0], tile[0]))
        names = [f"{_shown(owner)} of {owner[3]} ({size} bytes)" for _, (size, owner) in held[:SHOWN]]
        if len(held) > SHOWN:
            names.append(f"{len(held) - SHOWN} more")
        by = f"; it is held by {', '.join(names)}" if names else ""
        return ScratchpadFullError(
            f"{who[3]}: {_shown(who)} takes {nbytes} bytes, but of the scratchpad's {self.size} bytes {self.free} are free, "
            f"the largest piece {largest}, and no command on its way will free more{by}; "
            "use smaller tiles, or let go of handles"
        )


def _shown(owner: Owner) -> str:
    return f"{owner[0]} {owner[1]}{list(owner[2])}"
