"""What a test suite imports: `assert_cycles`, and the hooks by which pytest loads the plugin (`-p kernbench.pytest`)."""

from kernbench.testing.cycles import assert_cycles
from kernbench.testing.plugin import Kbsim, kbsim, pytest_addoption, pytest_configure, pytest_unconfigure

__all__ = ["Kbsim", "assert_cycles", "kbsim", "pytest_addoption", "pytest_configure", "pytest_unconfigure"]
