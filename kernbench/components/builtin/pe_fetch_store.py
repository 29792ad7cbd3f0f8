"""Between the scratchpad and the engines of a PE: hands the tiles of composite ops over.

The bytes themselves travel while an engine computes: it streams its operands
(docs/model/banks_and_arbiters.md). It adds only a fixed time for each tile.
"""

from __future__ import annotations

from kernbench.common.naming import PE_FETCH_STORE
from kernbench.common.pe_commands import TileToken
from kernbench.components.base import Clock, ComponentBase


class PeFetchStore(ComponentBase, kind=PE_FETCH_STORE):
    """Serves FETCH and STORE of tile tokens: `cycles` each, as many tiles at a time as come."""

    def __init__(self, node_id: str, clock: Clock, *, cycles: int) -> None:
        super().__init__()
        self.node_id = node_id
        self.clock = clock
        self.cycles = cycles

    def passed(self, token: TileToken, start: int, end: int) -> None:
        """Log a tile that was handed over."""
        if self._op_logger is not None:
            self._on_process_start(self.clock.at(start), token)
            self._on_process_end(self.clock.at(end), token)
