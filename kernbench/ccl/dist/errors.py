"""Errors of `dist`. Each is also the built-in exception that torch.distributed raises, so that programs that catch it work."""

from __future__ import annotations

from kernbench.common.errors import InputError


class DistError(InputError, RuntimeError):
    """The calls of the ranks do not match, or no rank can continue. The run ends."""


class ArgumentError(InputError, ValueError):
    """A call has an argument that is not valid, or the worker has not joined the group of all workers."""


class TensorTypeError(InputError, TypeError):
    """A call gets an object that is not a tensor, or tensors of different types."""
