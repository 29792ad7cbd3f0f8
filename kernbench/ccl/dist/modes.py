"""The state of random generators and the modes of torch, which each worker has for itself as if it ran in its own process."""

from __future__ import annotations

import sys
from typing import Any


def modes() -> tuple[Any, ...]:
    """Return the current state of the generators of `random`, `numpy.random` and torch, and the modes of torch.

    A package that is not imported has no state.
    """
    random, numpy, torch = map(_imported, ("random", "numpy.random", "torch"))
    return (
        None if random is None else random.getstate(),
        None if numpy is None else numpy.get_state(),
        None if not hasattr(torch, "get_rng_state") else (torch.get_rng_state(), torch.is_grad_enabled(), _autocast(torch)),
    )


def _autocast(torch: Any) -> tuple[bool, Any] | None:
    """Return whether torch computes in a shorter type on the CPU (`torch.autocast`), and in which one."""
    if not hasattr(torch, "get_autocast_dtype"):
        return None  # an older torch
    return torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")


def _imported(name: str) -> Any:
    """Return a module, or None if it is not imported."""
    return sys.modules.get(name)


def restore(state: tuple[Any, ...]) -> None:
    """Set the state that `modes` returned."""
    ours, theirs, of_torch = state
    if ours is not None:
        sys.modules["random"].setstate(ours)
    if theirs is not None:
        sys.modules["numpy.random"].set_state(theirs)
    if of_torch is not None:
        torch = sys.modules["torch"]
        torch.set_rng_state(of_torch[0])
        torch.set_grad_enabled(of_torch[1])
        if of_torch[2] is not None:
            torch.set_autocast_enabled("cpu", of_torch[2][0])
            torch.set_autocast_dtype("cpu", of_torch[2][1])
