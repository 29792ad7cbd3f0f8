"""Lower bounds of a program, known before it runs; energy and conservation laws, checked after the run."""

from kernbench.bounds.summary import Bounds, ProgramSummary, lower_bounds, summarise

__all__ = ["Bounds", "ProgramSummary", "lower_bounds", "summarise"]
