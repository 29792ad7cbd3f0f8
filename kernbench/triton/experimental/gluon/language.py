"""`triton.experimental.gluon.language`: the names that Gluon shares with `triton.language`. All other names raise an error."""

from __future__ import annotations

from typing import Any

import kernbench.triton.language as tl
from kernbench.triton.dtypes import refuse_name


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    found = getattr(tl, name, None)
    return refuse_name(f"gl.{name} is not supported: it belongs to Gluon; use triton.jit") if found is None else found
