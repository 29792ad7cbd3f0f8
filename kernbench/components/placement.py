"""Which components stand in the place of which engines of an NPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kernbench.common.errors import InputError, Problem

_ENGINE = re.compile(r"(?:dma|te|ve)[0-9]+")


def replaced_engines(engines: Sequence[str], components: Sequence[str]) -> list[int]:
    """For each engine, in the core's order, the position of the component that has its name, or -1.

    A component of any other name is one more part of the machine. InputError for the name of an engine that is not there.
    """
    for name in components:
        if _ENGINE.fullmatch(name) and name not in engines:
            rule = f"the machine has no such engine: it has {', '.join(engines)}"
            raise InputError(Problem("components", rule, "name", name, "name an engine, or a part that is none of dma, te, ve"))
    return [components.index(name) if name in components else -1 for name in engines]


def impl_of(component: Any) -> str:
    """What a component is, as traces and checkpoints name it: `package.module:Class`, or `capsule`."""
    kind = type(component)
    return "capsule" if kind.__name__ == "PyCapsule" else f"{kind.__module__}:{kind.__qualname__}"
