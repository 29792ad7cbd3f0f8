"""What allows code beside the option (settings, plug-ins, Python), and what becomes of allowed code that misbehaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernbench import GraphEngine, InputError, load_config, machine
from kernbench.components import load_component
from kernbench.config.allowed_code import AllowedCode
from kernbench.sweep.spec.load import load_spec
from kernbench.topology.builder import read_system
from tests.cli.conftest import Kbsim
from tests.cli.own_parts import CCL, PARTS, forget_parts, ran, write_parts


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The parts, and a home without settings."""
    write_parts()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "200")
    yield
    forget_parts()


# Settings and plug-ins --------------------------------------------------------------------------------------------


def settings(text: str) -> Path:
    file = Path("config/kernbench/settings.yaml").absolute()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_settings_allow_code_once_for_all(kbsim: Kbsim) -> None:
    settings(f"allow_code: [{Path.cwd()}]\n")
    assert kbsim("run", "load.json", "-c", "sys.yaml", "-q") == (0, "", "")
    assert ran()


def test_settings_begin_with_a_home(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without XDG_CONFIG_HOME, or with one that is relative, they are in ~/.config."""
    monkeypatch.setenv("HOME", str(Path.cwd()))
    Path(".config/kernbench").mkdir(parents=True)
    Path(".config/kernbench/settings.yaml").write_text("allow_code: [~/own_parts.py]\n")
    for value in (None, "config"):
        monkeypatch.delenv("XDG_CONFIG_HOME") if value is None else monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert kbsim("run", "load.json", "-c", "sys.yaml", "-q") == (0, "", "")


NOT_THERE = "it must be a directory or a file of Python: No such file or directory"
WRONG = [
    ("allow_cod: []", ":1:1: allow_cod: ", "there is no such key; the keys at this level are allow_code"),
    ("allow_code: /x", ':1:13: allow_code = "/x", but ', "it must be a list of paths"),
    ("allow_code: [3]", ":1:14: allow_code[0] = 3, but ", "it must be a path that begins with / or ~"),
    ("allow_code: [parts]", ':1:14: allow_code[0] = "parts", but ', "it must be a path that begins with / or ~"),
    ("allow_code: [/no/such]", ':1:14: allow_code[0] = "/no/such", but ', NOT_THERE),
    ("- allow_code", ":1:1: ", "the file must contain a mapping of keys to values"),
    ("", ": ", "the file is empty"),
    ("#" * (64 << 10) + "\n", ": ", "the file is larger than the limit of 65536 bytes; raise max_bytes to read it"),
]


@pytest.mark.parametrize(("text", "where", "rule"), WRONG, ids=[text[:20] for text, *_ in WRONG])
def test_settings_that_are_not_valid(kbsim: Kbsim, text: str, where: str, rule: str) -> None:
    """They are read where code is named, and not before."""
    file = settings(text)
    said = kbsim("run", "load.json", "-c", "sys.yaml")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"error: {file}{where}{rule}")
    assert not ran()
    assert kbsim("run", "load.json", "-c", "single_cube", "-q").code == 0


def test_settings_that_are_no_file(kbsim: Kbsim) -> None:
    Path("config/kernbench").mkdir(parents=True)
    os.mkfifo("config/kernbench/settings.yaml")
    file = Path("config/kernbench/settings.yaml").absolute()
    said = f"error: {file}: it must be a settings file\n"
    assert kbsim("run", "load.json", "-c", "sys.yaml") == (2, "", said)


@pytest.mark.parametrize(("group", "code"), [("kernbench.plugins", 0), ("kernbench.others", 2)])
def test_an_installed_plug_in_is_allowed(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch, group: str, code: int) -> None:
    """Its modules below the one that it offers too."""
    site = Path("site").absolute()
    (site / "own_pack").mkdir(parents=True)
    (site / "own_pack/__init__.py").write_text("")
    (site / "own_pack/parts.py").write_text(PARTS)
    (site / "own_pack-1.dist-info").mkdir()
    (site / "own_pack-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: own_pack\nVersion: 1\n")
    (site / "own_pack-1.dist-info/entry_points.txt").write_text(f"[{group}]\nown = own_pack\n")
    monkeypatch.syspath_prepend(str(site))
    said = kbsim("run", "load.json", "-c", "sys.yaml", "-q", "--set", "components.router.impl=own_pack.parts:Slow")
    assert (said.code, ran()) == (code, code == 0), said


# What is allowed and misbehaves -----------------------------------------------------------------------------------

MAY_NOT = "which a module may not do while it is imported"
ENDS = [
    ("raise SystemExit(3)", "the file cannot be imported: SystemExit: 3"),
    ("import sys; sys.exit(0)", "the file cannot be imported: SystemExit: 0"),
    ("raise KeyboardInterrupt", "the file cannot be imported: KeyboardInterrupt"),
    ("raise GeneratorExit", "the file cannot be imported: GeneratorExit"),
    ("import asyncio; raise asyncio.CancelledError", "the file cannot be imported: CancelledError"),
    ("import os; os._exit(0)", f"the file cannot be imported: RuntimeError: it calls os._exit, {MAY_NOT}"),
    ("import os; os.abort()", f"the file cannot be imported: RuntimeError: it calls os.abort, {MAY_NOT}"),
    ("import os; os.fork()", f"the file cannot be imported: RuntimeError: it calls os.fork, {MAY_NOT}"),
    ("raise type('E', (Exception,), {'__str__': lambda self: 1 / 0})", "the file cannot be imported: E"),
    ("import no_such_module", "the file cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
    ("def f(:", "this is not valid Python: invalid syntax"),
]


@pytest.mark.parametrize(("line", "rule"), ENDS, ids=[line for line, _ in ENDS])
def test_a_module_that_ends_the_process_is_refused_with_its_line(kbsim: Kbsim, line: str, rule: str) -> None:
    """A component, an algorithm and a bench alike."""
    text = f"\n{line}\n"
    Path("own_parts.py").write_text(text)
    Path("mine.py").write_text(text)
    Path("mine.yaml").write_text(CCL)
    where = f"in {Path('own_parts.py').absolute()}:2"
    said = f'error: sys.yaml:2:29: components.router.impl = "own_parts:Slow", but {rule}, {where}\n'
    assert kbsim("run", "load.json", "-c", "sys.yaml", "--allow-code", ".") == (2, "", said)
    where = f"in {Path('mine.py').absolute()}:2"
    mine = ("--algo", "mine", "--ccl", "mine.yaml", "-n", "2", "--allow-code", ".")
    said = f'error: mine.yaml:2:33: module = "mine.py", but {rule}, {where}\n'
    assert kbsim("ccl", "run", "all_reduce", *mine) == (2, "", said)
    assert kbsim("run", "mine.py") == (2, "", f"error: mine.py:2: {rule}\n")
    assert os._exit.__module__ == "posix"


def test_one_that_hangs_is_interrupted() -> None:
    Path("own_parts.py").write_text("open('ran', 'a').close()\nwhile True: pass\n")
    kbsim = [sys.executable, "-c", "from kernbench.cli.main import main; main()"]
    command = [*kbsim, "run", "load.json", "-c", "sys.yaml", "--allow-code", "."]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not Path("ran").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == "interrupted\n"
    assert process.returncode == 130


# In Python --------------------------------------------------------------------------------------------------------


def test_allow_code_in_python() -> None:
    rule = "the module own_parts is not installed, and no path of --allow-code contains it"
    with pytest.raises(InputError, match=rule):
        read_system("sys.yaml")
    with pytest.raises(InputError, match=rule):
        GraphEngine("sys.yaml").run(_bench())
    with pytest.raises(InputError, match=rule):
        load_component("own_parts:Slow")
    assert not ran()
    read_system("sys.yaml", allow_code="own_parts.py")
    assert ran()
    GraphEngine("sys.yaml", allow_code=["own_parts.py"]).run(_bench())
    assert ran()
    config = load_config("sys.yaml", allow_code=AllowedCode([Path("own_parts.py")]))
    assert config == load_config("sys.yaml") and not ran()  # to read it imports nothing, and what is allowed is no value of it
    GraphEngine(config).run(_bench())
    assert ran()
    with machine("sys.yaml", allow_code=Path("own_parts.py")):
        pass
    Path("sweep.yaml").write_text("schema: kernbench/sweep/1\ntargets: [load.json]\nmachine: sys.yaml\n")
    with pytest.raises(InputError, match=rule):
        load_spec("sweep.yaml")
    assert load_spec("sweep.yaml", allow_code=".").machines[0].label == "sys.yaml"
    assert not ran()


def _bench() -> object:
    from kernbench.runtime_api.discovery import load_bench

    return load_bench("vector_add")
