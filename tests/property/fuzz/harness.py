"""Runs one input in a forked child, with limits on time and memory, and says how that ended.

The process that forks has imported everything, so that an input takes milliseconds; whatever the child does to itself, the
parent sees its exit code or signal.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import re
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

from tests.property.fuzz.case import Case

RAN, REFUSED = "ran", "refused"
INTERNAL, SIGNAL, TIME, MEMORY = "exit 70", "signal", "over time", "over memory"
SILENT, CODE = "silent", "other code"  #: refused without a word; an exit code that no page names
UNSOUND = "unsound"  #: a file that nothing was done to is refused
FAILURES = (INTERNAL, SIGNAL, TIME, MEMORY, SILENT, CODE, UNSOUND)
CODES = {0: RAN, 1: RAN, 2: REFUSED, 3: RAN, 4: RAN, 5: RAN, 70: INTERNAL}
LOOK = 0.02  # [s] between two looks at the memory of a child
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_PRCTL = ctypes.CDLL(None).prctl
SAID = 1 << 20  # [B] of what a child said that are kept
OUTPUT = 1 << 28  # [B] largest file that a child may write
NO_MEMORY = "there is not enough memory for this run"  #: how `kbsim` tells a MemoryError
#: AddressSanitizer needs all addresses there are, and has a memory of its own.
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one input. None: no limit."""

    seconds: float = 60
    resident: int | None = (4 if SANITIZED else 1) << 30  #: [B] that are in memory at once
    addresses: int | None = None if SANITIZED else 6 << 30  #: [B] a net below: what is asked for beyond it is MemoryError


@dataclass(frozen=True, slots=True)
class Ended:
    """How an input ended."""

    kind: str  #: RAN, REFUSED or one of FAILURES
    code: int  #: exit code, or minus the number of the signal
    seconds: float
    resident: int  #: [B] at the most
    said: str  #: on stderr

    @property
    def failed(self) -> bool:
        """Whether this must not be."""
        return self.kind in FAILURES


def run_case(case: Case, folder: Path, limits: Limits = Limits(), *, debug: bool = False) -> Ended:
    """Run a case in `folder`, which is emptied first."""
    empty(folder)
    case.write(folder)
    return forked(lambda: run_command(case, debug), folder, limits)


def run_command(case: Case, debug: bool = False) -> int:
    """Run the product in this process; the exit code, where it comes back."""
    if debug:
        os.environ["KBSIM_DEBUG"] = "1"
    if case.call is not None:
        return case.call(case.arguments)
    from kernbench.cli.main import main

    main(case.arguments)
    return 0


def empty(folder: Path) -> None:
    """Make a folder, or empty it."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)


def forked(action: Callable[[], int], folder: Path, limits: Limits) -> Ended:
    """How an action ends in a child whose current directory is `folder`."""
    said_at, shown_at = folder.with_name(folder.name + ".err"), folder.with_name(folder.name + ".out")
    begun = time.monotonic()
    with said_at.open("wb") as said, shown_at.open("wb") as shown:
        pid = os.fork()
        if not pid:
            _child(action, folder, shown, said, limits)
    over = _watch(pid, begun, limits)
    _, status, used = os.wait4(pid, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # what it has started and left behind
    seconds, resident = time.monotonic() - begun, used.ru_maxrss * 1024
    with said_at.open("rb") as file:
        text = file.read(SAID).decode("utf-8", "replace")
    code = os.waitstatus_to_exitcode(status)
    kind = over or _kind(code, resident, limits, text)
    if kind == REFUSED and not text.strip() and not shown_at.stat().st_size:
        kind = SILENT
    return Ended(kind, code, seconds, resident, text)


def _kind(code: int, resident: int, limits: Limits, said: str) -> str:
    if "ERROR: AddressSanitizer" in said or "runtime error:" in said:
        return SIGNAL  # what a sanitizer has found would be one, or worse
    if code < 0:
        return SIGNAL
    if limits.resident is not None and resident > limits.resident:
        return MEMORY
    if NO_MEMORY in said:
        return MEMORY  # it asked for more than the limit on addresses
    return CODES.get(code, CODE)


def _watch(pid: int, begun: float, limits: Limits) -> str | None:
    """Wait for a child, and end it where it goes over a limit: which."""
    ended = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        while not poll.poll(LOOK * 1000):
            over = None
            if time.monotonic() - begun > limits.seconds:
                over = TIME
            elif limits.resident is not None and _resident(pid) > limits.resident:
                over = MEMORY
            if over:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGABRT)  # so that it says where it is
                if not poll.poll(2000):
                    os.kill(pid, signal.SIGKILL)
                    poll.poll()
                return over
        return None
    finally:
        os.close(ended)


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):  # it has ended
        return 0


def _child(action: Callable[[], int], folder: Path, shown: IO[bytes], said: IO[bytes], limits: Limits) -> NoReturn:
    code = 70
    try:
        os.setpgid(0, 0)
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)  # whoever ends the fuzzer ends its children
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(shown.fileno(), 1)
        os.dup2(said.fileno(), 2)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(i, "r" if i == 0 else "w", closefd=False) for i in range(3))
        for name in ("NO_COLOR", "FORCE_COLOR", "KBSIM_DEBUG", "PYTHONFAULTHANDLER"):
            os.environ.pop(name, None)
        os.environ |= {"KERNBENCH_CACHE": "off", "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        signal.signal(signal.SIGINT, signal.default_int_handler)
        faulthandler.disable()
        if not SANITIZED:  # a sanitizer has handlers of its own
            faulthandler.enable(file=said.fileno())
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT, OUTPUT))
        if limits.addresses is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limits.addresses, limits.addresses))
        code = action()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 70
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


_FRAME = re.compile(r'File "([^"]*)", line (\d+)(?:,)? in (\S+)')


def reason_of(ended: Ended) -> str:
    """What failures are grouped by: the signal or the error, and the line of the product where it came up."""
    lines = [line for line in ended.said.splitlines() if line.strip()]
    sanitizer = next((line for line in lines if line.startswith("SUMMARY:") or "runtime error:" in line), None)
    if sanitizer:
        return sanitizer.strip()
    if ended.code < 0:
        name = signal.Signals(-ended.code).name
        places = [_place(match) for line in lines if (match := _FRAME.search(line))]  # faulthandler: innermost first
        own = next((place for place in places if "tests/property/fuzz" not in place), "?")
        return f"{name if ended.kind == SIGNAL else ended.kind} at {own}"
    if ended.kind == SILENT:
        return "it is refused without a word"
    if ended.kind == CODE:
        return f"exit code {ended.code}"
    return _of_traceback(ended, lines)


def _of_traceback(ended: Ended, lines: list[str]) -> str:
    places: list[str] = []
    error = ""
    for line in lines:
        if line.startswith("Traceback ("):
            places, error = [], ""
        elif match := _FRAME.search(line):
            places.append(_place(match))
        elif places and not error and re.match(r"[A-Za-z_][\w.]*(:|$)", line):
            error = line
    own = next((place for place in reversed(places) if place.startswith("kernbench")), "?")
    message = error or next((line for line in lines if "kbsim has a bug" in line or NO_MEMORY in line), ended.kind)
    return f"{_general(message)} at {own}"


def _place(match: re.Match[str]) -> str:
    path, line, function = match.groups()
    for top in ("kernbench_core/", "kernbench/"):
        if top in path:
            path = top + path.rsplit(top, 1)[1]
            break
    return f"{path}:{line} {function}"


def _general(message: str) -> str:
    """A message without the values that differ from input to input."""
    short = re.sub(r"0x[0-9a-f]+", "0x...", message)
    short = re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "N", short)
    return re.sub(r"'[^']*'", "'...'", short)[:160]


def api_exit_code(run: Callable[[], int]) -> int:
    """The exit code that `kbsim` would give to what a call of the Python API raises."""
    from kernbench.common.errors import KernbenchError

    try:
        return run()
    except KernbenchError as error:
        traceback.print_exception(error)
        return error.exit_code
    except MemoryError:
        traceback.print_exc()
        print(NO_MEMORY, file=sys.stderr)
        return 2
