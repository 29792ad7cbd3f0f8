"""Tensors whose values depend on no input."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from kernbench.workloads.graphs.torch.aten.rules import CannotTranslate, Maker, Names, rule


@rule("full", "full_like", "empty", "empty_strided", "scalar_tensor", "fill", "arange")
def _filled(at: Maker, a: dict[str, Any], out: Names) -> None:
    """Values that depend on no input, and exist before the run."""
    shape, kind = at.shape(out[0]), at.kind(out[0])
    if "start" in a:
        start, end, step = a["start"], a["end"], a.get("step", 1)
        made = np.arange(start, end, step)
        if made.size != prod(shape):
            made = start + np.arange(prod(shape)) * step
    else:
        value = a.get("fill_value", a.get("value", a.get("s", 0)))
        if isinstance(value, str):
            known = at.value(value)
            if known is None:
                raise CannotTranslate("its value depends on the inputs")
            value = known
        made = np.broadcast_to(np.asarray(value), shape)
    at.node("Identity", at.constant(made.reshape(shape), kind), out=out)
