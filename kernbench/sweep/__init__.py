"""Sweeps: one spec, many points. Every result is stored, and none is computed twice. `kernbench.sweep(...)` runs one."""

from kernbench.common.callable_package import call_as

call_as(__name__, "kernbench.api.sweep")
