"""`sampled_from` of Hypothesis for strategies that draw one value after another: the same values are one strategy.

Hypothesis keeps other strategies by their arguments, and looks at a strategy once: whether it is valid, empty, and so on. A new
one for every draw takes longer than the draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st


def sampled_from(values: Sequence[Any]) -> st.SearchStrategy[Any]:
    """One of some values."""
    found = tuple(values)
    try:
        return _kept(found, tuple(map(type, found)))  # 1 is no True
    except TypeError:  # of values that cannot be looked up, such as dicts
        return st.sampled_from(found)


@lru_cache(4096)
def _kept(values: tuple[Any, ...], types: tuple[type, ...]) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)
