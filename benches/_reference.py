"""Common code of the references: rounding as on the machine, products, placements, and random inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench.common.dtypes import Array, narrow, widen
from kernbench.runtime_api import DPPolicy
from kernbench.runtime_api.bench import Param

#: The element type of a bench's tensors.
DTYPE = Param("f16", "element type of the tensors", choices=("f32", "f16", "bf16"))
SEED = Param(0, "seed of the random inputs", least=0)
#: How many blocks a PE works on at a time.
IN_FLIGHT = Param(0, "blocks that a PE works on at a time; 0: one for each of its engines", least=0)


def rounded(values: Any, dtype: str) -> Array:
    """f32 values as they are after a result of this type was stored."""
    return widen(narrow(np.asarray(values, np.float32), dtype))


def product(a: Array, b: Array, dtype: str = "f32") -> Array:
    """The product of two matrices as the tensor engine computes it: sums in f32, rounded once."""
    return rounded(a.astype(np.float32) @ b.astype(np.float32), dtype)


def wide(values: Array) -> Array:
    """An input as f32."""
    return widen(values)


def spread() -> DPPolicy:
    """The first axis over all PEs of the system."""
    return DPPolicy(sip="row_wise", cube="row_wise", pe="row_wise")


def everywhere() -> DPPolicy:
    """A replica in each PE's own slice."""
    return DPPolicy()


def normal(seed: int, *shape: int, scale: float = 1.0) -> Array:
    """Normally distributed numbers, the same on every machine."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(scale)
