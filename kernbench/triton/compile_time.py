"""Decorators of functions for Triton's compiler, which are plain functions here."""

from __future__ import annotations

from typing import Any


def constexpr_function(fn: Any) -> Any:
    """Mark a function that computes constants. The function is returned unchanged, because kernels run as Python."""
    return fn


def must_use_result(fn: Any, error_message: bool | str = True) -> Any:
    """Mark a function whose result must be used. The mark is for Triton's compiler; the function is returned unchanged."""
    return (lambda given: given) if isinstance(fn, str) else fn
