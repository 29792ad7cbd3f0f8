"""Parts of a machine that users bring: how they are named, found and given their jobs."""

from kernbench.components.registry import load_component
from kernbench.components.replacements import impl_of, replaced_engines

__all__ = ["impl_of", "load_component", "replaced_engines"]
