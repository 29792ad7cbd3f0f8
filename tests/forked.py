"""`kbsim` in children of a process that has imported everything: each starts at once, and may do to itself what it likes.

As a program it reads one request a line from stdin (the fields of `Forked.kbsim`), and answers each with a line, the exit code
(below 0: a signal). What the child printed is then in the files `out` and `err` of the folder that is the program's argument.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
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
    """The process that is forked, in our environment or in the given one. It starts with the first command."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = {**(os.environ if environment is None else environment), "COLUMNS": "1000"}
        self._process: subprocess.Popen[str] | None = None
        self._outputs = tempfile.TemporaryDirectory()

    def __enter__(self) -> Forked:
        return self

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            root = Path(__file__).parents[1]
            paths = os.pathsep.join(filter(None, [str(root), self._environment.get("PYTHONPATH", "")]))
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).resolve()), self._outputs.name], cwd=root, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**self._environment, "PYTHONPATH": paths},
            )  # fmt: skip
        return self._process

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None) -> None:
        if self._process is not None:
            assert self._process.stdin is not None and self._process.stdout is not None
            self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait(60)
        self._outputs.cleanup()

    def kbsim(
        self,
        *arguments: str,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        together: bool = False,
        stop: int = 0,
        seconds: float = 30.0,
        teardown: bool = True,
    ) -> Ended:
        """Run one command in a folder.

        `environment`: in the place of the process's. `together`: stderr goes where stdout goes. `stop`: that signal is sent
        when the child has made a file `here`. Without `teardown` the child ends behind its exit functions: Python does not
        delete its modules one by one, which takes longer than most commands.
        """
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        asked = {"arguments": arguments, "folder": str(folder), "environment": environment and dict(environment)}
        asked |= {"together": together, "stop": stop, "seconds": seconds, "teardown": teardown}
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        code = int(process.stdout.readline())
        texts = (Path(self._outputs.name, name).read_text(encoding="utf-8", errors="replace") for name in ("out", "err"))
        return Ended(code, *texts)


def _child(asked: dict[str, Any], outputs: str) -> None:
    """Become `kbsim`; never returns."""
    from kernbench.cli.main import main

    os.chdir(asked["folder"])
    for number, name in ((0, os.devnull), (1, f"{outputs}/out"), (2, f"{outputs}/err")):
        opened = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    if asked["together"]:
        os.dup2(1, 2)
    if asked["environment"] is not None:
        os.environ.clear()
        os.environ.update(asked["environment"])
    sys.stdin, sys.stdout = os.fdopen(0, encoding="utf-8"), os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    sys.argv = ["kbsim", *asked["arguments"]]
    try:
        main()
    except SystemExit as end:
        if asked["teardown"]:
            raise  # Python ends the child as it ends any process
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 0)


def _run(asked: dict[str, Any], outputs: str) -> int:
    here = Path(asked["folder"], "here")
    here.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _child(asked, outputs)
    end, status, told = time.monotonic() + asked["seconds"], None, not asked["stop"]
    while status is None and time.monotonic() < end:
        pid, found = os.waitpid(child, os.WNOHANG)
        if pid:
            status = found
        elif not told and here.exists():
            time.sleep(0.05)  # behind the line that made the file
            os.kill(child, asked["stop"])
            told = True
        else:
            time.sleep(0.005)
    if status is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return OVER if status is None else os.waitstatus_to_exitcode(status)


def _serve(outputs: str) -> None:
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # as a command has it
    gc.disable()  # nothing of what is imported is garbage
    import kernbench

    of_kernbench = [module.name for module in pkgutil.walk_packages(kernbench.__path__, "kernbench.")]
    for name in (*of_kernbench, "rich.jupyter", "rich.panel", "rich.table", "rich.tree", "typer.main"):
        with contextlib.suppress(ImportError):  # of what an extra would install
            importlib.import_module(name)
    gc.freeze()  # children share the pages of what is there now
    gc.enable()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    for line in sys.stdin:
        answers.write(f"{_run(json.loads(line), outputs)}\n")
        answers.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
