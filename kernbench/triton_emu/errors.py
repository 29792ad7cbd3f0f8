"""What can be wrong with a kernel: it ends the run as failed."""

from __future__ import annotations

import inspect

from kernbench.common.errors import KernbenchError


class KernelError(KernbenchError):
    """A kernel asks for what cannot be; the message begins with its source line."""

    exit_code = 5


def check_ran(made: object, what: str) -> None:
    """KernelError where a function has only made a generator or coroutine, and nothing of it has run."""
    if inspect.isgenerator(made) or inspect.iscoroutine(made):
        remedy = "make it a plain function (no yield, no async)"
        raise KernelError(f"{what} is a {type(made).__name__}, so nothing of it has run; {remedy}")


class StrictWaitError(KernelError):
    """Under strict waits: a kernel uses what has not come yet without a `tl.wait`."""


class ScratchpadFullError(KernelError):
    """No room for a tile, and nothing on its way will make any."""


class PoisonError(KernelError):
    """A kernel reads scratchpad that nothing wrote."""
