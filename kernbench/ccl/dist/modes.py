"""The state of random generators and of gradients, which each worker has for itself as if it ran in its own process."""

from __future__ import annotations

import sys
from typing import Any


def modes() -> tuple[Any, ...]:
    """Return the current state of the generators of `random`, `numpy.random` and torch, and whether torch records gradients.

    A package that is not imported has no state.
    """
    random, numpy, torch = map(_imported, ("random", "numpy.random", "torch"))
    return (
        None if random is None else random.getstate(),
        None if numpy is None else numpy.get_state(),
        (torch.get_rng_state(), torch.is_grad_enabled()) if hasattr(torch, "get_rng_state") else None,
    )


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
