"""Parts of a machine that users bring: how they are named, found and given their jobs."""

from kernbench.components.placement import impl_of, replaced_engines
from kernbench.components.registry import load_component

__all__ = ["impl_of", "load_component", "replaced_engines"]
