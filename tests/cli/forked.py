"""`kbsim` in children of a process that has imported everything: each starts at once, and may do to itself what it likes.

As a program it reads one request a line from stdin (`{"arguments", "folder", "stop", "seconds", "teardown"}`), and answers
each with one line: the exit code (below 0: a signal), stdout and stderr. `stop`: that signal is sent when the child has made a
file `here`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

OVER = 1000  #: the code of one that was killed because its time was over


class Ended(NamedTuple):
    """How a child ended."""

    code: int
    out: str
    err: str


class Forked:
    """The process that is forked, in our environment or in the given one."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment

    def __enter__(self) -> Forked:
        root = Path(__file__).parents[2]
        command = [sys.executable, str(Path(__file__).resolve())]
        given = os.environ if self._environment is None else self._environment
        environment = {**given, "PYTHONPATH": str(root), "COLUMNS": "1000"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=root
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(60)

    def kbsim(self, *arguments: str, folder: Path, stop: int = 0, seconds: float = 30.0, teardown: bool = True) -> Ended:
        """Run one command in a folder; without `teardown` it ends behind its last output, and Python takes nothing down."""
        assert self._process.stdin is not None and self._process.stdout is not None
        asked = {"arguments": arguments, "folder": str(folder), "stop": stop, "seconds": seconds, "teardown": teardown}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return Ended(*json.loads(self._process.stdout.readline()))


def _child(asked: dict[str, Any]) -> None:
    """Become `kbsim`; never returns."""
    from kernbench.cli.main import main

    os.chdir(asked["folder"])
    for number, name in ((0, os.devnull), (1, "out"), (2, "err")):
        opened = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(i, mode, encoding="utf-8") for i, mode in enumerate("rww"))
    sys.argv = ["kbsim", *asked["arguments"]]
    try:
        main()
    except SystemExit as end:
        if asked["teardown"]:
            raise  # Python ends the child as it ends any process
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 0)


def _run(asked: dict[str, Any]) -> list[Any]:
    folder = Path(asked["folder"])
    with contextlib.suppress(FileNotFoundError):
        (folder / "here").unlink()
    child = os.fork()
    if child == 0:
        _child(asked)
    end, status, told = time.monotonic() + asked["seconds"], None, not asked["stop"]
    while status is None and time.monotonic() < end:
        pid, found = os.waitpid(child, os.WNOHANG)
        if pid:
            status = found
        elif not told and (folder / "here").exists():
            time.sleep(0.05)  # behind the line that made the file
            os.kill(child, asked["stop"])
            told = True
        else:
            time.sleep(0.005)
    if status is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    code = OVER if status is None else os.waitstatus_to_exitcode(status)
    return [code, *((folder / name).read_text(encoding="utf-8", errors="replace") for name in ("out", "err"))]


def _serve() -> None:
    import kernbench.ccl.dist
    import kernbench.cli
    import kernbench.cmdq.compiled
    import kernbench.cmdq.lower
    import kernbench.runtime_api.triton.run
    import kernbench.triton.language

    for module in pkgutil.iter_modules(kernbench.cli.__path__, "kernbench.cli."):
        importlib.import_module(module.name)
    gc.freeze()  # children share the pages of what is there now
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    for line in sys.stdin:
        asked = json.loads(line)
        answers.write(json.dumps(_run(asked)) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
