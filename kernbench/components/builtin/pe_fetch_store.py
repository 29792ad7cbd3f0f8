"""Between the scratchpad and the engines of a PE: hands the tiles of composite ops over.

By default the bytes themselves travel while an engine computes: it streams its operands
(docs/model/banks_and_arbiters.md), and this part adds only a fixed time for each tile. With a bandwidth, the tiles
go through one port, one after the other (docs/model/kernels.md).
"""

from __future__ import annotations

from fractions import Fraction

from kernbench.common.naming import PE_FETCH_STORE
from kernbench.common.pe_commands import TileToken
from kernbench.common.units import ceil_div
from kernbench.components.base import Clock, ComponentBase


class PeFetchStore(ComponentBase, kind=PE_FETCH_STORE):
    """Serves FETCH and STORE of tile tokens: `cycles` each, and the time of their bytes in the port if it has a bandwidth."""

    def __init__(self, node_id: str, clock: Clock, *, cycles: int, bytes_per_cycle: Fraction | None = None) -> None:
        super().__init__()
        self.node_id = node_id
        self.clock = clock
        self.cycles = cycles
        self.bytes_per_cycle = bytes_per_cycle
        self._free_at = 0  # the port is free from this cycle on

    def serve(self, nbytes: int, now: int) -> tuple[int, int]:
        """Take a tile in cycle `now`, after all earlier ones: its start in the port, and the end of its stage."""
        rate = self.bytes_per_cycle
        if rate is None:
            return now, now + self.cycles
        start = max(now, self._free_at)
        self._free_at = start + ceil_div(nbytes * rate.denominator, rate.numerator)
        return start, self._free_at + self.cycles

    def passed(self, token: TileToken, start: int, end: int) -> None:
        """Log a tile that was handed over."""
        if self._op_logger is not None:
            self._on_process_start(self.clock.at(start), token)
            self._on_process_end(self.clock.at(end), token)
