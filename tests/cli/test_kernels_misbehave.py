"""Kernels, Triton kernels and workers of `dist` that end in ways that no kernel should: exit code, line and message of each.

The command runs in a process of its own with a limit of time: what is tried here used to end, copy or hang it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.forked import Ended, Forked

HEAD = """\
import asyncio, contextlib, multiprocessing, os, posix, signal, sys, threading
import numpy as np
from greenlet import GreenletExit, getcurrent, greenlet
from kernbench.runtime_api import bench
"""
ENDS = {
    "tl": """
def scale(x, tl):
    tl.wait(tl.load(x, (4,), "f32"))
{body}

@bench(name="bad", description="it misbehaves")
def run(ctx):
    ctx.launch("bad", scale, ctx.from_numpy(np.ones(4, np.float32), name="x"), pes=1)
""",
    "triton": """
import kernbench.triton as triton
import kernbench.triton.language as tl

@triton.jit
def scale(x):
    tl.store(x + tl.arange(0, 4), 2 * tl.load(x + tl.arange(0, 4)))
{body}

if __name__ == "__main__":
    scale[(1,)](np.ones(4, np.float32))
else:
    @bench(name="bad", description="it misbehaves")
    def run(ctx):
        ctx.launch("bad", scale, ctx.from_numpy(np.ones(4, np.float32), name="x"), pes=1)
""",
    "dist": """
from kernbench.ccl import dist

def scale(rank):
    dist.init_process_group(backend="kernbench")
    dist.all_reduce(dist.from_numpy(np.full(64, rank, np.float16)))
{body}

@bench(name="bad", description="it misbehaves", machine="single_cube")
def run(ctx):
    dist.spawn(ctx, scale, ranks=2)
""",
}
ENDS["script"] = ENDS["triton"]
WHO = dict.fromkeys(("tl", "triton", "script"), "the kernel scale") | {"dist": "the worker scale of rank 0"}
NO_EXCEPTION = "which is not an Exception; raise one that is"
NO_TEXT = "whose text cannot be had: its __str__ fails"
STRAYED = "switched greenlets by itself; the simulator alone resumes kernels, the host and workers"
ENDED = "it would end the whole simulation; return from it, or raise an exception"
COPIED = "it would make a second simulation; start processes by subprocess, outside of kernels"
DEAF = "the simulator's own handlers could not stop the run any more; do it outside of kernels"
TRACED = "it would trace or change the simulator itself; do it outside of kernels"
THREADS = "the simulator runs all kernels in one thread; do it outside of kernels"
CLOSED = "the result is written there; leave it open"

#: By what it does: its lines, and what is said of it behind `bad.py:9: the kernel scale `; the line is that of its last one.
RAISED: dict[str, tuple[str, str]] = {
    "GreenletExit": ("raise GreenletExit", f"raised GreenletExit, {NO_EXCEPTION}"),
    "GeneratorExit": ("raise GeneratorExit('gone')", f"raised GeneratorExit: gone, {NO_EXCEPTION}"),
    "CancelledError": ("raise asyncio.CancelledError", f"raised CancelledError, {NO_EXCEPTION}"),
    "group": (
        "raise BaseExceptionGroup('two', [KeyboardInterrupt()])",
        f"raised BaseExceptionGroup: two (1 sub-exception), {NO_EXCEPTION}",
    ),
    "str raises": ("class Bad(Exception):\n    def __str__(self): raise ValueError\nraise Bad", f"raised Bad, {NO_TEXT}"),
    "str is none": ("class Bad(Exception):\n    def __str__(self): return 5\nraise Bad", f"raised Bad, {NO_TEXT}"),
    "repr raises": (
        "class Bad(Exception):\n    def __repr__(self): raise ValueError\nraise Bad(Bad(), 1)",
        f"raised Bad, {NO_TEXT}",
    ),
    "str is long": (
        "class Bad(Exception):\n    def __str__(self): return 'long' * 100_000\nraise Bad",
        f"raised Bad, whose text has 400,000 characters: {'long' * 50}...",
    ),
    "no notes": ("bad = ValueError('no notes')\nbad.__notes__ = 5\nraise bad", "raised ValueError: no notes"),
    "no fields": (
        "class Bad(Exception):\n    def __setattr__(self, *_): raise ValueError\nraise Bad('no fields')",
        "raised Bad: no fields",
    ),
    "sys.exit": ("sys.exit(0)", "called exit(0); it ends when it returns"),
    "switches": ("getcurrent().parent.switch()", STRAYED),
    "switches always": ("while True:\n    with contextlib.suppress(Exception): getcurrent().parent.switch()", STRAYED),
    "throws": ("getcurrent().parent.throw(ValueError('thrown'))", STRAYED),
}
#: The same, of calls.
CALLED: dict[str, tuple[str, str]] = {
    "os._exit": ("os._exit(0)", f"called os._exit: {ENDED}"),
    "posix._exit": ("posix._exit(0)", f"called os._exit: {ENDED}"),
    "os._exit of a child": ("greenlet(os._exit).switch(0)", f"called os._exit: {ENDED}"),
    "os.abort": ("os.abort()", f"called os.abort: {ENDED}"),
    "os.execv": ("os.execv('/bin/true', ['true'])", f"called os.execv: {ENDED}"),
    "os.execvp": ("os.execvp('true', ['true'])", f"called os.execv: {ENDED}"),
    "os.kill": ("os.kill(os.getpid(), signal.SIGKILL)", f"called os.kill: {ENDED}"),
    "os.killpg": ("os.killpg(os.getpgrp(), signal.SIGKILL)", f"called os.killpg: {ENDED}"),
    "signal.raise_signal": ("signal.raise_signal(signal.SIGKILL)", f"called signal.raise_signal: {ENDED}"),
    "signal.pthread_kill": ("signal.pthread_kill(threading.get_ident(), 9)", f"called signal.pthread_kill: {ENDED}"),
    "os.fork": ("os.fork()", f"called os.fork: {COPIED}"),
    "os.forkpty": ("os.forkpty()", f"called os.forkpty: {COPIED}"),
    "multiprocessing": (
        "multiprocessing.get_context('fork').Process(target=print).start()",
        f"called os.fork: {COPIED}",
    ),
    "signal.signal": ("signal.signal(signal.SIGINT, signal.SIG_IGN)", f"called signal.signal: {DEAF}"),
    "signal.alarm": ("signal.alarm(1)", f"called signal.alarm: {DEAF}"),
    "signal.setitimer": ("signal.setitimer(signal.ITIMER_REAL, 0.1)", f"called signal.setitimer: {DEAF}"),
    "threads": ("threading.Thread(target=os.getpid).start()", f"called threading.Thread.start: {THREADS}"),
    "sys.settrace": ("sys.settrace(lambda *_: 1 / 0)", f"called sys.settrace: {TRACED}"),
    "sys.setrecursionlimit": ("sys.setrecursionlimit(10**9)", f"called sys.setrecursionlimit: {TRACED}"),
    "sys.stdout.close": ("sys.stdout.close()", f"called sys.stdout.close: {CLOSED}"),
    "with sys.stdout": ("with sys.stdout: pass", f"called sys.stdout.close: {CLOSED}"),
    "sys.stderr.detach": ("sys.stderr.detach()", f"called sys.stderr.detach: {CLOSED}"),
    "os.close": ("os.close(1)", f"called os.close: {CLOSED}"),
    "os.closerange": ("os.closerange(1, 9)", f"called os.closerange: {CLOSED}"),
    "os.dup2": ("os.dup2(os.open('/dev/null', os.O_WRONLY), 1)", f"called os.dup2: {CLOSED}"),
}
#: What stays what it is, with the kernel's frames in the traceback.
PLAIN = {
    "StopIteration": ("raise StopIteration(3)", "StopIteration: 3"),
    "EOFError": ("raise EOFError('no more')", "EOFError: no more"),
    "recursion": ("def again(): return again()\nagain()", "RecursionError: maximum recursion depth exceeded"),
}


def ended(forked: Forked, kind: str, folder: Path, stop: int = 0) -> Ended:
    """`bad.py` there as a command. Only scripts end as Python ends, which deletes modules one by one: that takes time."""
    return forked.kbsim(*options(kind), folder=folder, stop=stop, teardown=kind == "script")


def written(folder: Path, kind: str, body: str) -> int:
    """`bad.py` there; the number of the last line of `body`."""
    lines = "".join(f"    {line}\n" for line in body.splitlines()).removesuffix("\n")
    head, tail = (HEAD + ENDS[kind]).split("{body}")
    (folder / "bad.py").write_text(head + lines + tail, encoding="utf-8")
    return (head + lines).count("\n") + 1


def options(kind: str) -> list[str]:
    return ["run", "bad.py", *(["--check", "memory"] if kind == "script" else [])]


#: Each with a kernel of `tl` and one other; `make nightly` has all four.
EACH: list[Any] = [
    (what, kind) if kind in ("tl", list(ENDS)[1 + number % 3]) else pytest.param(what, kind, marks=pytest.mark.nightly)
    for number, what in enumerate(RAISED)
    for kind in ENDS
]
EACH += [(what, kind) for what in CALLED for kind in ("tl", "dist")]
EACH += [(what, kind) for what in ("os._exit", "os.fork", "os.abort", "signal.alarm") for kind in ("triton", "script")]


@pytest.mark.parametrize(("what", "kind"), EACH)
def test_it_ends_with_5_and_the_line(what: str, kind: str, forked: Forked, tmp_path: Path) -> None:
    body, said = (RAISED | CALLED)[what]
    line = written(tmp_path, kind, body)
    code, out, err = ended(forked, kind, tmp_path)
    told = f"bad.py:{line}: {WHO[kind]} {said}"
    lines = (out if kind == "script" else err).splitlines()
    assert code == 5 and lines[-2].removeprefix("kernbench.triton_emu.errors.KernelError: ") == told
    if kind == "script":
        assert lines == [told, lines[1]] and lines[1].startswith("  in program 0 of scale on sip0.cube0.pe0, cycle ")
    else:
        assert f'bad.py", line {line}, in scale' in err and "failed" in out


@pytest.mark.parametrize("kind", ["tl", "triton", "dist"])
@pytest.mark.parametrize("what", PLAIN)
def test_an_exception_stays_what_it_is(what: str, kind: str, forked: Forked, tmp_path: Path) -> None:
    body, said = PLAIN[what]
    line = written(tmp_path, kind, body)
    code, out, err = ended(forked, kind, tmp_path)
    assert code == 5 and out.startswith("failed") and said in err.splitlines()
    assert f'bad.py", line {line}, in scale' in err


@pytest.mark.parametrize("kind", ENDS)
def test_memory_that_is_not_there(kind: str, forked: Forked, tmp_path: Path) -> None:
    line = written(tmp_path, kind, "np.zeros(10**14)")
    code, out, err = ended(forked, kind, tmp_path)
    rule = f"bad.py:{line}: there is not enough memory for what {WHO[kind]} asks for: Unable to allocate 728. TiB for an array"
    assert code == 5 and rule in (out if kind == "script" else err)


INTERRUPTED = {
    "loop": ("while True: open('here', 'w').close()", signal.SIGINT),
    "loop, SIGTERM": ("while True: open('here', 'w').close()", signal.SIGTERM),
    "raised": ("raise KeyboardInterrupt", 0),
    "endless text": (
        "class Bad(Exception):\n    def __str__(self):\n        open('here', 'w').close()\n        while True: pass\nraise Bad",
        signal.SIGINT,
    ),
}


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("what", INTERRUPTED)
def test_an_interrupt_says_where_it_came(what: str, kind: str, forked: Forked, tmp_path: Path) -> None:
    body, stop = INTERRUPTED[what]
    line = written(tmp_path, kind, body)
    code, out, err = ended(forked, kind, tmp_path, stop)
    assert (code, out) == (130, "")
    launch = "scale" if kind == "script" else "bad"
    where = "in the worker scale of rank 0\n" if kind == "dist" else f"in program 0 of {launch} on "
    assert err.startswith(f"interrupted: bad.py:{line}, {where}")


def test_an_interrupt_while_kernels_wait(forked: Forked, tmp_path: Path) -> None:
    """Kernels without end, all of which mostly wait for the machine: the line where most of them stood."""
    line = written(tmp_path, "tl", "open('here', 'w').close()\nwhile True: tl.wait(tl.load(x, (4,), 'f32'))")
    code, out, err = forked.kbsim("run", "bad.py", "--json", folder=tmp_path, stop=signal.SIGINT)
    assert code == 130 and err.startswith(f"interrupted: bad.py:{line}")
    assert json.loads(out)["place"].startswith(f"bad.py:{line}")


def test_stdout_that_a_kernel_replaced_is_put_back(forked: Forked, tmp_path: Path) -> None:
    written(tmp_path, "tl", "sys.stdout = None")
    code, out, _ = forked.kbsim("run", "bad.py", folder=tmp_path)
    assert code == 0 and out.startswith("done")


#: Of the host: what it does; what comes of that.
HOST = {
    "GreenletExit": ("raise GreenletExit", f"the host's program raised GreenletExit, {NO_EXCEPTION}"),
    "switches": ("getcurrent().parent.switch()", f"the host's program {STRAYED}"),
    "throws": ("getcurrent().parent.throw(ValueError)", f"the host's program {STRAYED}"),
    "exit": ("sys.exit(0)", "the host's program called exit(0); it ends when it returns"),
}


@pytest.mark.parametrize("what", HOST)
def test_the_hosts_program(what: str, forked: Forked, tmp_path: Path) -> None:
    body, said = HOST[what]
    head = HEAD + "\n@bench(name='bad', description='it misbehaves')\ndef run(ctx):\n    "
    (tmp_path / "bad.py").write_text(head + body + "\n", encoding="utf-8")
    code, _, err = forked.kbsim("run", "bad.py", folder=tmp_path)
    assert code == 5 and err.splitlines()[-1] == f"kernbench.triton_emu.errors.KernelError: bad.py:8: {said}"


def test_the_hosts_program_keeps_its_calls(forked: Forked, tmp_path: Path) -> None:
    """It may fork, start threads and install handlers, in the middle of a run too."""
    body = """
def scale(x, tl):
    tl.wait(tl.load(x, (4,), "f32"))

@bench(name="good", description="it forks")
def run(ctx):
    x = ctx.from_numpy(np.ones(4, np.float32), name="x")
    ctx.launch("it", scale, x, pes=1)
    assert ctx.to_numpy(x)[0] == 1
    child = os.fork()
    if child == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    one = threading.Thread(target=os.getpid)
    one.start()
    one.join()
    signal.signal(signal.SIGINT, signal.signal(signal.SIGINT, signal.SIG_IGN))
    ctx.launch("it", scale, x, pes=1)
"""
    (tmp_path / "good.py").write_text(HEAD + body, encoding="utf-8")
    code, out, err = forked.kbsim("run", "good.py", folder=tmp_path)
    assert (code, err) == (0, "") and out.startswith("done")


def test_a_script_that_raises_no_exception(forked: Forked, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise GeneratorExit('gone')\n", encoding="utf-8")
    code, out, _ = forked.kbsim("run", "bad.py", "--check", "memory", folder=tmp_path)
    assert (code, out) == (5, "bad.py:1: GeneratorExit: gone\n")


ITSELF = [("raise GreenletExit", 0, 5), ("os._exit(0)", 0, 5), (INTERRUPTED["loop"][0], signal.SIGINT, 130)]


@pytest.mark.parametrize(("body", "stop", "code"), ITSELF)
def test_the_command_itself(body: str, stop: int, code: int, tmp_path: Path) -> None:
    """Not forked: the installed `kbsim`, as one calls it."""
    line = written(tmp_path, "tl", body)
    command = [str(Path(sys.executable).with_name("kbsim")), "run", "bad.py"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while stop and not (tmp_path / "here").exists() and time.monotonic() < end:
        time.sleep(0.05)
    if stop:
        os.kill(process.pid, stop)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code and f"bad.py:{line}" in err
