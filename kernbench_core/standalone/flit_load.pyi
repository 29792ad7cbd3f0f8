"""A network of routers by itself, under packets that are known beforehand."""

from typing import Any

import numpy as np
import numpy.typing as npt

class FlitLoad:
    """`spec`: tables of a network (`kernbench.noc.network`)."""

    def __init__(self, spec: dict[str, Any]) -> None: ...
    def offer(self, packets: npt.NDArray[np.int64]) -> None:
        """More packets, in order of birth: rows of clock of birth, source, target, first hop, flits."""
    def run(self, until: int, skip: bool = True) -> int:
        """Run the clocks before `until`; the packets that have not ended."""
    def ends(self) -> npt.NDArray[np.int64]:
        """The clock in which the tail of each packet was ejected; -1 before."""
    def outputs(self) -> npt.NDArray[np.int64]:
        """For each output: flits that left, clocks without a credit, heads without a channel, requests that lost."""
    def inputs(self) -> npt.NDArray[np.int64]:
        """For each input: flits in its buffers summed over clocks, and the most at once."""
