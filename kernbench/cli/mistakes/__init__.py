"""What a wrong command line probably means: suggestions for unknown commands, options, arguments and values."""

from __future__ import annotations

from kernbench.cli.mistakes.names import option_meant
from kernbench.cli.mistakes.usage import usage_problem

__all__ = ["option_meant", "usage_problem"]
