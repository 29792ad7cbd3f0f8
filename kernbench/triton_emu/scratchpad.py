"""Which bytes of a PE's scratchpad are whose: first fit, by whole lines, the same for the same order of requests."""

from __future__ import annotations

from bisect import bisect_left

from kernbench.triton_emu.errors import ScratchpadFullError

SHOWN = 12  # tiles that an error names
Owner = tuple[str, str, tuple[int, ...], str]  #: a tile's name, element type, shape and source line


class Block:
    """Bytes of the scratchpad, given back when the last handle or command that needs them is gone."""

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
        self._starts, self._sizes = [base], [size]  # of the holes, in order, never touching
        self.tiles: dict[int, tuple[int, Owner]] = {}  #: by address: bytes, and who has them

    @property
    def free(self) -> int:
        """Bytes that nobody has."""
        return sum(self._sizes)

    @property
    def largest(self) -> int:
        """Bytes of the largest free piece."""
        return max(self._sizes, default=0)

    def take(self, nbytes: int, who: Owner) -> Block | None:
        """So many bytes in one piece, at a line; None where no hole is large enough."""
        size = -(-nbytes // self._line) * self._line
        starts, sizes = self._starts, self._sizes
        for i in range(len(sizes)):
            room = sizes[i]
            if room >= size:
                addr = starts[i]
                if room == size:
                    del starts[i], sizes[i]
                else:
                    starts[i] = addr + size
                    sizes[i] = room - size
                self.tiles[addr] = (size, who)
                return Block(self, addr, size)
        return None

    def give_back(self, addr: int, nbytes: int) -> None:
        """These bytes are free again."""
        del self.tiles[addr]
        starts, sizes = self._starts, self._sizes
        if starts and addr + nbytes == starts[0]:  # before the first hole, as most tiles are
            starts[0] = addr
            sizes[0] += nbytes
            return
        i = bisect_left(starts, addr)
        if i and starts[i - 1] + sizes[i - 1] == addr:  # it adjoins the hole before it
            sizes[i - 1] += nbytes
            if i < len(starts) and addr + nbytes == starts[i]:
                sizes[i - 1] += sizes[i]
                del starts[i], sizes[i]
        elif i < len(starts) and addr + nbytes == starts[i]:
            starts[i] = addr
            sizes[i] += nbytes
        else:
            starts.insert(i, addr)
            sizes.insert(i, nbytes)

    def refusal(self, nbytes: int, who: Owner) -> ScratchpadFullError:
        """Why there is no room, and who has it."""
        held = sorted(self.tiles.items(), key=lambda tile: (-tile[1][0], tile[0]))
        names = [f"{_shown(owner)} of {owner[3]} ({size} bytes)" for _, (size, owner) in held[:SHOWN]]
        if len(held) > SHOWN:
            names.append(f"{len(held) - SHOWN} more")
        by = f"; it is held by {', '.join(names)}" if names else ""
        return ScratchpadFullError(
            f"{who[3]}: {_shown(who)} takes {nbytes} bytes, but of the scratchpad's {self.size} bytes {self.free} are free, "
            f"the largest piece {self.largest}, and no command on its way will free more{by}; "
            "use smaller tiles, or let go of handles"
        )


def _shown(owner: Owner) -> str:
    return f"{owner[0]} {owner[1]}{list(owner[2])}"
