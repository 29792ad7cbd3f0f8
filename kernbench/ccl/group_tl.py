"""The `tl` of a collective's kernel that runs in one of several groups, or with another reduction than the sum."""

from __future__ import annotations

import sys
from typing import Any

from kernbench.ccl.reduction import SUM, Reduction
from kernbench.triton_emu.errors import line_of


class GroupTl:
    """A `tl` with the rank, the size and the queues of a group whose planes begin at `base`.

    Several groups have their queues installed at the same time, one after another on the planes of a PE, while a kernel counts
    its planes from 0. All other functions are the functions of the original `tl`.
    """

    def __init__(
        self, tl: Any, rank: int, size: int, slots: int, slot_bytes: int, base: int = 0, reduction: Reduction = SUM
    ) -> None:
        self._tl, self._base = tl, base
        self.rank, self.world_size, self.slots, self.slot_bytes = rank, size, slots, slot_bytes
        self.combine = reduction.kernel(tl)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._tl, name)
        setattr(self, name, found)
        return found

    def neighbour(self, direction: str, plane: int = 0) -> int | None:
        """Do the same as `tl.neighbour`, with the rank from the installed table."""
        found: int | None = self._tl.neighbour(direction, plane + self._base)
        return found

    def send(self, direction: str, tile: Any, *, plane: int = 0, wait: bool = False) -> Any:
        """Do the same as `tl.send`. Errors name the line of the kernel."""
        line = line_of(sys._getframe(1))
        done = self._tl._send(direction, tile, plane + self._base, line)
        if wait:
            self._tl.wait(done)
        return done

    def recv_async(self, direction: str, shape: Any, dtype: str, *, plane: int = 0) -> Any:
        """Do the same as `tl.recv_async`."""
        return self._tl._receive(direction, shape, dtype, plane + self._base, line_of(sys._getframe(1)))

    def recv(self, direction: str, shape: Any, dtype: str, *, plane: int = 0, copy_to: Any = None) -> Any:
        """Do the same as `tl.recv`."""
        return self._tl.recv(direction, shape, dtype, plane=plane + self._base, copy_to=copy_to)
