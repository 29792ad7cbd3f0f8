"""Ctrl-C in a traced run: it waits until what the core recorded is written, and the file is a valid trace."""

from __future__ import annotations

import importlib
import itertools
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernbench.cli import signals
from kernbench.cli.signals import interrupt_between_imports
from kernbench.cli.tracing import traced
from kernbench.common.interrupts import interrupts_held
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.reader import open_trace
from kernbench.trace.validate import validate
from kernbench.triton_emu.errors import raised_line
from tests.kernels import Run

SLOW = "dram.peak_bw_bytes_per_cycle=1/1000"
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def _as_the_command_has_it(monkeypatch: pytest.MonkeyPatch) -> Any:
    """SIGTERM and SIGHUP are Ctrl-C."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in SIGNALS[1:]}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def between_imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder of modules, and the handlers of the command."""
    monkeypatch.syspath_prepend(tmp_path)
    before = {one: signal.getsignal(one) for one in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    interrupt_between_imports()
    yield tmp_path
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_it_waits_for_the_end_of_an_import(between_imports: Path, number: signal.Signals) -> None:
    name = f"interrupted_{number.name}"
    text = f"import signal, time\nsignal.raise_signal({number:d})\ntime.sleep(0.1)\nwhole = True\n"
    (between_imports / f"{name}.py").write_text(text)
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module(name)
        time.sleep(10)
    assert sys.modules.pop(name).whole


def test_an_import_that_does_not_end_is_interrupted(between_imports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "GRACE", 0.2)
    (between_imports / "endless.py").write_text("import signal, time\nsignal.raise_signal(2)\ntime.sleep(10)\n")
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module("endless")
    assert 0.2 <= time.monotonic() - begin < 10


def test_an_import_of_installed_modules_is_not_interrupted(between_imports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C code that an import calls could swallow the interrupt, and on a busy computer it takes longer than GRACE."""
    monkeypatch.setattr(signals, "GRACE", 0.0)
    monkeypatch.setattr(signals, "INSTALLED", (*signals.INSTALLED, str(between_imports), str(Path(__file__).parent)))
    (between_imports / "slow.py").write_text("import signal, time\nsignal.raise_signal(2)\ntime.sleep(0.2)\nwhole = True\n")
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module("slow")
        time.sleep(10)
    assert sys.modules.pop("slow").whole


@pytest.mark.parametrize(
    ("file", "of_user"), [("/x.py", False), ("_core/x.py", False), ("_mine/x.py", True), ("_mine.py", True)]
)
def test_files_beside_the_package_are_of_the_user(file: str, of_user: bool) -> None:
    code = SimpleNamespace(co_filename=str(Path(signals.__file__).parents[1]) + file)
    frame: Any = SimpleNamespace(f_code=code, f_globals={}, f_back=None)
    assert signals._runs_users_code(frame) == of_user


def test_it_waits_while_types_are_hashed(between_imports: Path) -> None:
    """A dictionary of msgspec swallows the exceptions of `typing`'s `__hash__`."""
    reached: list[int] = []
    code = compile("signal.raise_signal(2)\nreached.append(1)\n", "typing.py", "exec")
    with pytest.raises(KeyboardInterrupt):
        exec(code, {"__name__": "typing", "signal": signal, "reached": reached})
        time.sleep(10)
    assert reached == [1]


@pytest.mark.parametrize("number", SIGNALS)
def test_it_comes_after_a_callback_that_swallows_it(
    between_imports: Path, number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    """C code only reports the exceptions of callbacks of weak references, of finalizers and of ctypes."""
    lasting = {1}
    watched = weakref.ref(lasting, lambda _: signal.raise_signal(number))
    with pytest.raises(KeyboardInterrupt):
        del lasting
        until = time.monotonic() + 2
        while time.monotonic() < until:
            pass
    assert watched() is None and capsys.readouterr().err == ""


def test_other_exceptions_of_callbacks_are_reported_as_before(
    between_imports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lasting = {1}
    watched = weakref.ref(lasting, lambda _: 1 / 0)
    del lasting
    assert watched() is None and "ZeroDivisionError" in capsys.readouterr().err


def test_the_line_of_the_interrupted_code_is_not_that_of_the_handler(between_imports: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        exec(compile("signal.raise_signal(2)", "loop.py", "exec"), {"__name__": "kernbench.loop", "signal": signal})
    frames = caught.value.__traceback__
    assert frames is not None and raised_line(frames.tb_next) == "loop.py:1"


def test_a_signal_that_is_ignored_stays_ignored(between_imports: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupt_between_imports()
    signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_command_that_ends_before_the_interrupt_is_interrupted(tmp_path: Path) -> None:
    """The thread that sends the signal again may be late."""
    code = (
        "import os, sys\n"
        "class Sends:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'numpy':\n"
        "            sys.meta_path.remove(self)\n"
        "            os.kill(os.getpid(), 2)\n"
        "from kernbench.cli import signals\n"
        "signals.AGAIN = 1000\n"
        "from kernbench.cli.main import main\n"
        "sys.meta_path.insert(0, Sends())\n"
        "main(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", code, "run", "llama2-7b-decode", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("module", ["kernbench.cli.run_target", "kernbench.sim_engine.machine", "numpy", "msgspec"])
def test_a_command_that_imports_ends_as_interrupted(tmp_path: Path, module: str, number: signal.Signals) -> None:
    """The run takes 6 s of CPU time, because the thread that sends the signal again may be late on a busy computer."""
    code = (
        "import os, signal, sys\n"
        "class Sends:\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {module!r}:\n"
        "            sys.meta_path.remove(self)\n"
        f"            os.kill(os.getpid(), {number:d})\n"
        "from kernbench.cli.main import main\n"
        "sys.meta_path.insert(0, Sends())\n"
        "main(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", code, "run", "llama2-7b-decode", "--no-skip", "-q", "--set", SLOW]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100, check=False)
    assert done.returncode == 130
    assert done.stderr.startswith("interrupted") and done.stderr.count("\n") == 1


def test_a_command_that_reports_an_error_ends_as_interrupted(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "class Sends:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'kernbench.cli.mistakes.spoken':\n"
        "            sys.meta_path.remove(self)\n"
        "            os.kill(os.getpid(), 2)\n"
        "from kernbench.cli.main import main\n"
        "sys.meta_path.insert(0, Sends())\n"
        "main(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", code, "run", "no_such_target"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_an_interrupt_after_the_end_of_a_command_has_no_traceback(tmp_path: Path) -> None:
    code = (
        "import gc, signal, sys\n"
        "gc.freeze = lambda: signal.raise_signal(2)\n"
        "from kernbench.cli.main import main\n"
        "main(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", code, "program", "list"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n") and "llama2-7b-decode" in done.stdout


@pytest.mark.parametrize("number", SIGNALS)
def test_it_waits_to_be_asked_for(number: signal.Signals) -> None:
    before, reached = [signal.getsignal(one) for one in SIGNALS], []
    with pytest.raises(KeyboardInterrupt), interrupts_held() as tell:
        tell()  # nothing came
        signal.raise_signal(number)
        reached.append("held")
        tell()
        reached.append("told")
    assert reached == ["held"] and [signal.getsignal(one) for one in SIGNALS] == before


@pytest.mark.parametrize("number", SIGNALS)
def test_the_handler_is_told_which_signal_came(number: signal.Signals) -> None:
    seen: list[int] = []
    before = signal.signal(number, lambda told, _: seen.append(told))
    try:
        with interrupts_held():
            signal.raise_signal(number)
            assert seen == []
        assert seen == [number]
    finally:
        signal.signal(number, before)


def test_it_comes_at_the_end_where_nobody_asks() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt):
        with interrupts_held():
            signal.raise_signal(signal.SIGINT)
            reached.append("end")
        reached.append("after")
    assert reached == ["end"]


def test_a_second_one_does_not_wait() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        signal.raise_signal(signal.SIGINT)
        reached.append("once")
        signal.raise_signal(signal.SIGTERM)
        reached.append("twice")
    assert reached == ["once"]


def test_what_never_ends_is_left_after_a_while() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts_held(grace=0.01):
        signal.raise_signal(signal.SIGINT)
        for _ in itertools.count():
            pass


def test_other_threads_have_no_interrupts() -> None:
    seen: list[Any] = []

    def work() -> None:
        with interrupts_held() as tell:
            tell()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def kernel(way: str, at: int, tl: Any) -> None:
    """Loads, and an interrupt behind one of them: a signal, or one that does not wait."""
    for number in range(40):
        tile = tl.load(8192 * (number % 4), (64, 64), "f16", wait=number % 3 == 0)
        if number == at:
            if way == "signal":
                signal.raise_signal(signal.SIGINT)
            else:
                raise KeyboardInterrupt
        tl.dot(tile, tile)


@pytest.mark.parametrize("level", ["summary", "full", "access"])
@pytest.mark.parametrize("at", [0, 7, 20, 39])
def test_a_signal_leaves_a_whole_trace(at: int, level: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    run = Run(kernel, "signal", at, memory={0: np.ones((4, 64, 64), np.float16)})
    with pytest.raises(KeyboardInterrupt), traced(run.machine, path, TraceOptions(level, window=64)):
        run.machine.run()
    trace = open_trace(path)
    report = validate(trace)
    assert report.valid and not report.violations, report.violations[:3]
    assert path.read_text(encoding="utf-8").splitlines()[-1].startswith('{"event_type":"TRACE_END"')


@pytest.mark.parametrize("at", [0, 7, 20, 39])
def test_one_that_does_not_wait_leaves_a_beginning(at: int, tmp_path: Path) -> None:
    """Inside of a cycle nothing that fits can follow: the file has what was sure before, and no end."""
    path = tmp_path / "run.jsonl"
    run = Run(kernel, "raise", at, memory={0: np.ones((4, 64, 64), np.float16)})
    with pytest.raises(KeyboardInterrupt), traced(run.machine, path, TraceOptions("full", window=64)):
        run.machine.run()
    report = validate(open_trace(path))
    assert not report.valid and not report.violations and "without TRACE_END" in str(report.broken)
