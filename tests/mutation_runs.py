"""Runs of `kbsim` on damaged inputs: each in a child of its own with limits on time and memory, and what came of it.

A child is forked from a process that has imported everything, so that a run costs little more than its own work.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ADDRESS_SPACE = 2 << 30  # [byte] that a child may map beside what its parent has
RESIDENT = 3 << 28  # [byte] that a child may have in memory beside what its parent has
SECONDS = 60  # of processor time
PATIENCE = 600  # [s] of the clock: other processes may have the processors
REFUSED, BUG = 2, 70


@dataclass(frozen=True, slots=True)
class Ended:
    """How one run ended. `code` is negative for a signal."""

    code: int
    said: str  #: the last of what it wrote
    seconds: float  #: of processor time
    resident: int  #: [byte] at most, beyond what its parent had

    @property
    def fault(self) -> str:
        """What no input may lead to; empty where there is nothing of it."""
        if self.code < 0:
            name = signal.Signals(-self.code).name
            return "hang" if name in ("SIGXCPU", "SIGKILL") else name
        if self.code == BUG:
            return "exit 70"
        if self.resident > RESIDENT:
            return "memory"
        return "no message" if self.code == REFUSED and not self.said.strip() else ""


@dataclass(slots=True)
class Tally:
    """What a search has seen."""

    seed: int
    codes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0
    largest: int = 0

    def add(self, name: str, ended: Ended) -> None:
        """One run. `name`: how to make its input again."""
        self.slowest, self.largest = max(self.slowest, ended.seconds), max(self.largest, ended.resident)
        self.codes[ended.fault or f"exit {ended.code}"] += 1
        if ended.fault:
            took = f"{ended.seconds:.1f} s, {ended.resident >> 20} MiB"
            self.faults.append(f"{name}: {ended.fault} ({took})\n{ended.said[-1500:]}")

    def __str__(self) -> str:
        counts = ", ".join(f"{kind}: {count}" for kind, count in sorted(self.codes.items()))
        return f"seed {self.seed}: {counts}; slowest {self.slowest:.1f} s, largest {self.largest >> 20} MiB"

    def check(self) -> None:
        """Prints the counts; AssertionError with the first faults."""
        print(self)
        assert not self.faults, "\n".join([str(self), *self.faults[:5]])


def run_forked(call: Callable[[], int], folder: Path, address_space: int = ADDRESS_SPACE) -> Ended:
    """Calls a function in a child in `folder`; what it returns is the child's exit code."""
    log = folder / "said.txt"
    began = time.monotonic()
    inherited = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()  # this process may have run much
    child = os.fork()
    if not child:
        _be_child(call, folder, log, address_space)
    status, usage = _wait(child, began + PATIENCE)
    said = log.read_bytes()[-20_000:].decode(errors="replace") if log.exists() else ""
    resident = max(0, (usage.ru_maxrss << 10) - inherited)
    return Ended(os.waitstatus_to_exitcode(status), said, usage.ru_utime + usage.ru_stime, resident)


def _be_child(call: Callable[[], int], folder: Path, log: Path, address_space: int) -> None:
    code = 99
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        os.environ["KBSIM_DEBUG"] = "1"  # what is a bug has a traceback
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + address_space,) * 2)
        code = call()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _wait(child: int, until: float) -> tuple[int, resource.struct_rusage]:
    pause = 0.001
    while True:
        found, status, usage = os.wait4(child, os.WNOHANG)
        if found:
            return status, usage
        if time.monotonic() > until:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            _, status, usage = os.wait4(child, 0)
            return status, usage
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)


def kbsim(*arguments: str) -> int:
    """A command in this process."""
    from kernbench.cli.main import exit_code

    return exit_code(arguments)


def commands(calls: Iterable[Sequence[str]]) -> Callable[[], int]:
    """Several commands, one after the other: the worst exit code of them."""

    def call() -> int:
        worst = 0
        for arguments in calls:
            code = kbsim(*arguments)
            worst = code if worst != BUG and (code == BUG or worst == 0) else worst
        return worst

    return call
