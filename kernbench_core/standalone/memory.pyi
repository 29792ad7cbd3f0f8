"""The core's memory side as the object that a stand-alone DMA engine asks: shares, routes, DRAM channels, banks."""

from collections.abc import Callable
from typing import Any

from kernbench_core.standalone.dma_job import DmaJob

class CoreMemory:
    """The memory side of engine `engine` of a machine (its tables, as `kernbench.cmdq.lower_machine` makes them).

    `flat_address(spm_bank, spm_offset)` gives a job's scratchpad address. Place is kept for `transfers` at a time.
    """

    def __init__(
        self, machine: dict[str, Any], flat_address: Callable[[int, int], int], *, engine: int = 0, transfers: int = 64
    ) -> None: ...
    def bus_can_enqueue(self, job: DmaJob) -> bool:
        """Fewer than queue_depth_per_master transfers of the job's channel are outstanding."""

    def enqueue(self, job: DmaJob, cycle: int) -> None:
        """Start the transfer: head latency, then its flows. ValueError where its bytes do not agree with its rows."""

    def tick(self, cycle: int) -> dict[int, int]:
        """P4 to P7 of the cycle; the bytes that moved, by cmdq_id."""

    def backpressure(self, job: DmaJob) -> bool:
        """A flow of the transfer is out of its resources."""

    def dequeue(self, job: DmaJob) -> None:
        """Forget a transfer that is complete."""
