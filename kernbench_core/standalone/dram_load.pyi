"""A DRAM controller of row_buffer_v2 by itself, under a load of bursts."""

from typing import Any

class DramLoad:
    """One channel, and bursts that enter its queues in order.

    `spec`: as for `Core` (`kernbench.cmdq.controller_timing`). `bursts`: an int64 array of three columns: number of the burst in the
    channel, 1 for a write, and the clock in which it is offered.
    """

    def __init__(self, spec: dict[str, Any], bursts: Any) -> None: ...
    def run(self, warm: int, clocks: int, first: int = 0) -> dict[str, Any]:
        """`warm` clocks, then so many that are counted: a dict of counts, and `latencies`, the clocks of each read.

        `first`: the number of the first clock, from which refreshes are counted."""
