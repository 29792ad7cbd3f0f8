"""The simulator against closed forms and published measurements: one suite a module, the figures of others as data.

`kernbench.validate(...)` runs suites.
"""

from kernbench.common.callable_package import call_as

call_as(__name__, "kernbench.api.validate")
