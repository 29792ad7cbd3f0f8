"""The pytest plugin: `assert_cycles`, the fixture `kbsim`, and the hooks that pytest loads."""

from kernbench.testing.cycles import assert_cycles
from kernbench.testing.plugin import Kbsim, kbsim
from kernbench.testing.plugin import pytest_addoption as pytest_addoption
from kernbench.testing.plugin import pytest_configure as pytest_configure
from kernbench.testing.plugin import pytest_unconfigure as pytest_unconfigure

__all__ = ["Kbsim", "assert_cycles", "kbsim"]
