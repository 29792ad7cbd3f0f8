"""What can be said of a program before it runs, and laws that hold when it has: lower bounds, energy, conservation."""

from kernbench.bounds.summary import Bounds, ProgramSummary, lower_bounds, summarise

__all__ = ["Bounds", "ProgramSummary", "lower_bounds", "summarise"]
