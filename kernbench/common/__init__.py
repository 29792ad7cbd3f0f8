"""Definitions that every layer shares: errors, exact units, names."""

from kernbench.common.errors import ABSENT, InputError, InternalError, KernbenchError, Problem
from kernbench.common.units import cycles_to_ns, parse_rational, parse_size

__all__ = [
    "ABSENT",
    "InputError",
    "InternalError",
    "KernbenchError",
    "Problem",
    "cycles_to_ns",
    "parse_rational",
    "parse_size",
]
