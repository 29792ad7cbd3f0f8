"""Between the scratchpad and the engines of a PE: passes on the tiles of composite ops.

By default the bytes move while an engine computes, because the engine streams its operands (docs/model/banks_and_arbiters.md),
and this component adds only a fixed time for each tile. With a bandwidth, the tiles pass a single port one after another
(docs/model/kernels.md).
"""

from __future__ import annotations

from fractions import Fraction

from kernbench.common.naming import PE_FETCH_STORE
from kernbench.common.pe_commands import TileToken
from kernbench.common.units import ceil_div
from kernbench.components.base import Clock, ComponentBase


class PeFetchStore(ComponentBase, kind=PE_FETCH_STORE):
    """Serves FETCH and STORE of tile tokens: `cycles` for each tile, plus the time of its bytes in the port if the port has a
    bandwidth."""

    def __init__(self, node_id: str, clock: Clock, *, cycles: int, bytes_per_cycle: Fraction | None = None) -> None:
        super().__init__()
        self.node_id = node_id
        self.clock = clock
        self.cycles = cycles
        self.bytes_per_cycle = bytes_per_cycle
        self._free_at = 0  # the first cycle in which the port is free

    def serve(self, nbytes: int, now: int) -> tuple[int, int]:
        """Accept a tile in cycle `now`, after all earlier ones; return its start in the port and the end of its stage."""
        rate = self.bytes_per_cycle
        if rate is None:
            return now, now + self.cycles
        start = max(now, self._free_at)
        self._free_at = start + ceil_div(nbytes * rate.denominator, rate.numerator)
        return start, self._free_at + self.cycles

    def passed(self, token: TileToken, start: int, end: int) -> None:
        """Log a tile that was passed on."""
        if self._op_logger is not None:
            self._on_process_start(self.clock.at(start), token)
            self._on_process_end(self.clock.at(end), token)
