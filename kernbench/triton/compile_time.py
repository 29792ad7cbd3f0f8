"""Decorators of functions for Triton's compiler, which are plain functions here."""

from __future__ import annotations

from typing import Any

CONSTANT_MARK = "__kernbench_constexpr_function__"  #: attribute of functions that kernels may call at compile time


def constexpr_function(fn: Any) -> Any:
    """Mark a function that computes constants. The same function is returned, because kernels run as Python."""
    setattr(fn, CONSTANT_MARK, True)
    return fn


def must_use_result(fn: Any, error_message: bool | str = True) -> Any:
    """Mark a function whose result must be used. The mark is for Triton's compiler; the function is returned unchanged."""
    return (lambda given: given) if isinstance(fn, str) else fn
