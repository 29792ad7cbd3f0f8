"""The fast paths and SIMD instructions that runs use, as far as environment variables choose them.

KERNBENCH_WITHOUT is a comma-separated list of fast paths that are not used. KERNBENCH_ISA selects the SIMD instructions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

PATHS = ("uncontended", "conflict_free", "speculative", "block", "rolling")  #: in the order of the bits of FastPath (paths.pxd)
LEVELS = ("plain", "avx2")  #: SIMD instructions: `plain` is the readable Cython code


def paths_without(names: Iterable[str]) -> int:
    """The bits of all fast paths except the named ones. ValueError for a name that is not a path."""
    left_out = 0
    for name in names:
        if name not in PATHS:
            raise ValueError(f"{name!r} is no fast path: there are {', '.join(PATHS)}")
        left_out |= 1 << PATHS.index(name)
    return (1 << len(PATHS)) - 1 - left_out


def chosen_paths() -> int:
    """The bits of the paths that KERNBENCH_WITHOUT does not name. ImportError if it names something that is not a path."""
    try:
        return paths_without(filter(None, os.environ.get("KERNBENCH_WITHOUT", "").split(",")))
    except ValueError as error:
        raise ImportError(f"KERNBENCH_WITHOUT: {error}") from None


def chosen_level(supported: Sequence[bool]) -> int:
    """The level that KERNBENCH_ISA selects, else the highest level that the processor supports. ImportError if the level cannot
    be used."""
    requested = os.environ.get("KERNBENCH_ISA", "")
    highest = max(level for level, there in enumerate(supported) if there)
    if not requested:
        return highest
    if requested not in LEVELS:
        raise ImportError(f"KERNBENCH_ISA={requested}: allowed are {', '.join(LEVELS)}; unset it to take the best that there is")
    if not supported[LEVELS.index(requested)]:
        raise ImportError(f"KERNBENCH_ISA={requested}: this processor has no such instructions; unset it to take the best that there is")
    return LEVELS.index(requested)
