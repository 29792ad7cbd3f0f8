"""How long a run of a whole model may be."""

from __future__ import annotations

from kernbench.common.errors import KernbenchError

ENDLESS = 10**15  #: [cycle] no limit for the run of a whole model, unless the user sets one


class StoppedError(KernbenchError):
    """A run of a model was stopped at `max_cycles`; it has no figures."""

    exit_code = 3

    def __init__(self, name: str, limit: int, where: str = "") -> None:
        """`where`: the point at which it stopped."""
        place = f" {where}" if where else ""
        super().__init__(f"{name}: stopped at max_cycles = {limit:,}{place}; allow more with --set max_cycles={2 * limit}")
