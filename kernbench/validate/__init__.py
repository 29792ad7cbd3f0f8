"""Comparison of the simulator with closed forms and published measurements: each module has one suite, and published figures
are data files.

`kernbench.validate(...)` runs suites.
"""

from kernbench.common.callable_package import call_as

call_as(__name__, "kernbench.api.validate")
