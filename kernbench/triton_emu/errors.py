"""What can be wrong with a kernel: it ends the run as failed."""

from __future__ import annotations

from kernbench.common.errors import KernbenchError


class KernelError(KernbenchError):
    """A kernel asks for what cannot be; the message begins with its source line."""

    exit_code = 5


class StrictWaitError(KernelError):
    """Under strict waits: a kernel uses what has not come yet without a `tl.wait`."""


class ScratchpadFullError(KernelError):
    """No room for a tile, and nothing on its way will make any."""


class PoisonError(KernelError):
    """A kernel reads scratchpad that nothing wrote."""
