"""Sweeps: one spec describes many points. Every result is stored, and no result is computed twice. `kernbench.sweep(...)` runs
a sweep."""

from kernbench.common.callable_package import call_as

call_as(__name__, "kernbench.api.sweep")
