"""Files that mean harm are read in a forked child with limits: what it did to the process is seen in how the child ended."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

VALUES = (0, -1, 1, 2, 63, 2**15, 2**31 - 1, 2**31, 2**32, 2**61, 2**62, 2**63 - 1, -(2**63))
MORE = 1 << 30  # [B] of addresses, beyond those of the test's process
SECONDS = 20  # of CPU time


def address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def in_child(job: Callable[[], int], log: Path) -> int:
    """The exit code of a function in a forked child with limits, or minus the signal that ended it."""
    child = os.fork()
    if child:
        status = os.waitpid(child, 0)[1]
        return os.waitstatus_to_exitcode(status)
    code = 99
    try:
        sys.stdout = sys.stderr = log.open("w", encoding="utf-8")
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (address_space() + MORE,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        code = job()
        sys.stdout.flush()
    finally:
        os._exit(code)
