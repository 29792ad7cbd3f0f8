"""Errors of `dist`. Each is also the built-in exception that torch.distributed raises, so that programs that catch it work."""

from __future__ import annotations

from kernbench.common.errors import InputError, error_text
from kernbench.sim_engine.engine import KernelFailed


class DistError(InputError, RuntimeError):
    """The calls of the ranks do not match, or no rank can continue. The run ends."""


#: The names of torch for errors of its backends: no rank can continue.
DistBackendError = DistNetworkError = DistStoreError = DistError


class ArgumentError(InputError, ValueError, RuntimeError):
    """A call has an argument that is not valid, or the worker has not joined the group of all workers.

    Which of the two exceptions torch raises depends on its backend.
    """


class TensorTypeError(InputError, TypeError):
    """A call gets an object that is not a tensor, or tensors of different types."""


class EmptyListError(InputError, IndexError):
    """A batch has no calls."""


class ProcessRaisedException(KernelFailed):
    """A worker of a script raised an exception: `__cause__` is the exception, and `error_index` is the rank."""

    def __init__(self, failed: KernelFailed, rank: int) -> None:
        cause = failed.__cause__
        assert cause is not None
        super().__init__({**failed.failure, "message": f"rank {rank} raised {error_text(cause)}"}, cause)
        self.error_index = rank


class AxisError(InputError, KeyError, IndexError, RuntimeError):
    """A device mesh has no such axis. torch raises KeyError for a name, IndexError for a number, RuntimeError for None."""
