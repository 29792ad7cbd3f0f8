"""Sweeps: one spec, many points, every result kept and none computed twice. `kernbench.sweep(...)` runs one."""

from kernbench.common.callable_package import call_as

call_as(__name__, "kernbench.api.sweep")
