"""Parts of tiles: some elements of a tensor in the scratchpad, as a separate tensor."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kernbench.common.dtypes import dtype_of
from kernbench.triton_emu.errors import KernelError, line_of
from kernbench.triton_emu.handle import KernelTensor


class TlParts:
    """The part of `tl` that makes parts."""

    if TYPE_CHECKING:  # what TLContext gives

        def _placed(self, value: Any, line: str) -> KernelTensor: ...

    def part(self, tile: KernelTensor, first: int, count: int) -> KernelTensor:
        """Elements `[first, first + count)` of a tile, counted in row-major order, as a tensor with one axis. The call takes no
        time.

        A part shares the bytes of its tile: `out=` with a part writes into the tile. The kernel waits until the tile is
        complete. The elements of a part are pending, because other parts may have been written. Raises KernelError for elements
        outside of the tile. A part of a tile that no command has written can be used only as an `out=`.

        >>> def kernel(x, tl):
        ...     return tl.part(tl.load(x, (4,), "f32"), 1, 2)
        >>> evaluate(kernel, np.array([1, 2, 3, 4], np.float32))
        array([2., 3.], dtype=float32)
        """
        line = line_of(sys._getframe(1))
        unwritten = tile.poison if isinstance(tile, KernelTensor) and tile._tl is self else ""
        if not unwritten:
            tile = self._placed(tile, line)
        bits = dtype_of(tile.dtype).bits
        elements = tile.nbytes * 8 // bits
        if not 0 <= first < first + count <= elements or first * bits % 8 or count * bits % 8:
            rule = f"{count} elements from {first} on are no part of {tile.handle_id} {tile.dtype}{list(tile.shape)}"
            raise KernelError(f"{line}: {rule} ({tile.line}), which has {elements}")
        made = KernelTensor.__new__(KernelTensor)
        made.handle_id, made.number, made.shape = f"{tile.handle_id}[{first}:]", 0, (count,)
        made.dtype, made.line = tile.dtype, line
        made.nbytes = count * bits // 8  # type: ignore[misc]  # no property there
        made.space, made.op, made.op_id = tile.space, tile.op, tile.op_id
        made.addr, made.block, made._tl = tile.addr + first * bits // 8, tile.block, tile._tl
        made.value = made.flight = None
        made.poison, made.shared = unwritten, True
        made.whole, tile.shared = tile if tile.whole is None else tile.whole, True
        return made
