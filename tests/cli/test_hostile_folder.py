"""Python files of the current directory are not imported: not by a command, nor by a process that it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from kernbench.common.errors import InputError
from kernbench.sweep.executors import pool
from kernbench.sweep.executors.pool import search_path, worker_command
from kernbench.sweep.spec.load import load_spec
from kernbench.sweep.work import Context
from kernbench.validate.suites import scalesim
from tests.sweep_samples import run_spec, write_spec

KBSIM = Path(sys.executable).with_name("kbsim")
needs_kbsim = pytest.mark.skipif(not KBSIM.exists(), reason="kbsim is not installed beside this Python")
THIRD = ("numpy", "yaml", "msgspec", "pydantic", "typer", "rich", "kernbench", "kernbench_core", "dask", "distributed")
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module that leaves a file beside itself when it is imported."""
    file = tmp_path_factory.mktemp("hostile") / "hostile.py"
    file.write_text("open(__file__.removesuffix('.py') + '.ran', 'w').close()\nraise SystemExit('hostile')\n")
    return file


@pytest.fixture(autouse=True)
def _hostile(hostile: Path, tmp_path: Path) -> None:
    """A sweep, and that module under every name that somebody may import."""
    write_spec(tmp_path)
    for name in {*sys.stdlib_module_names, *THIRD}:
        (tmp_path / f"{name}.py").hardlink_to(hostile)
    for name in ("benches", "kernbench_plugins", "own-1.dist-info"):
        (tmp_path / name).mkdir()
    (tmp_path / "benches/mine.py").write_text(f"open({str(tmp_path / 'mine.ran')!r}, 'w').close()\n")
    (tmp_path / "own-1.dist-info/entry_points.txt").write_text("[kernbench.plugins]\nown = json\n")


def imported() -> list[str]:
    return sorted(path.stem for path in Path().glob("*.ran"))


def kbsim(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    keep = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    return subprocess.run(
        [KBSIM, *arguments], env={**keep, **ONE_THREAD, **environment}, capture_output=True, text=True, timeout=300, check=False
    )


EXECUTORS = [
    ("--jobs", "2"),
    ("--threads", "2"),
    pytest.param(
        ("--executor", "dask", "--jobs", "2"),
        marks=pytest.mark.skipif(find_spec("distributed") is None, reason="distributed is not installed"),
    ),
]


@needs_kbsim
@pytest.mark.parametrize("how", EXECUTORS, ids=" ".join)
def test_a_sweep_runs_to_its_end(how: tuple[str, ...]) -> None:
    said = kbsim("sweep", "run", "s.yaml", "--json", *how)
    assert imported() == []
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["ran"] == 6


@needs_kbsim
@pytest.mark.parametrize(
    "command", ["bench list", "run tiles.json -c small.yaml -q", "topology show single_cube", "ccl list", "run vector_add -q"]
)
def test_commands_find_nothing_there(command: str) -> None:
    said = kbsim(*command.split())
    assert (imported(), said.returncode) == ([], 0), said.stderr


@needs_kbsim
def test_an_empty_python_path_is_no_directory() -> None:
    """`PYTHONPATH=` is as if it were not set. An empty entry in it (`PYTHONPATH=:`) is the current directory to Python."""
    assert kbsim("sweep", "run", "s.yaml", "--jobs", "1", PYTHONPATH="").returncode == 0
    assert imported() == []
    for path in Path().glob("*.py"):
        if path.name != "json.py":
            path.unlink()  # Python itself does not begin with all of them
    assert kbsim("config", "list", PYTHONPATH=":").returncode != 0
    assert imported() == ["json"]


def test_workers_find_what_their_parent_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the current directory, by whatever name; kernbench stays where it is found."""
    root = str(pool.package_folder().parent)
    monkeypatch.setattr(sys, "path", ["", ".", "/a", "lib", "/b"])
    assert search_path() == ["/a", "/b"]
    assert json.loads(worker_command("7", "8")[4]) == ["/a", "/b"]
    assert worker_command("7", "8")[:3] == [sys.executable, "-P", "-c"] and worker_command("7", "8")[5:] == ["7", "8"]
    monkeypatch.chdir(root)
    assert search_path() == ["/a", "/b", root]


def test_a_worker_with_another_kernbench_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = str(pool.package_folder())
    monkeypatch.setattr(pool, "package_folder", lambda: Path("/another/kernbench"))
    path = Path("s.yaml").absolute()
    spec = load_spec(path)
    with pytest.raises(InputError) as refused:
        run_spec(path, Path("s.sqlite"), pool.Pool(Context.of(spec), 1, spec.limits))
    rule = f"it imports kernbench from {found}, and the sweep is run by that in /another/kernbench"
    remedy = "install one of them, and leave the other one out of Python's path"
    assert str(refused.value) == f"sweep: worker: {rule}; {remedy}"


def test_scale_sim_is_started_elsewhere() -> None:
    """Its Python may be older than 3.11, and has the same modules to find."""
    code = scalesim._RUN.partition("from scalesim")[0] + "import json; print(json.__name__)"
    scalesim._call([sys.executable, "-c", code])
    assert imported() == []


@needs_kbsim
@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
@pytest.mark.parametrize(
    "command", ["ccl run all_reduce -n 2 --no-check", "llm --layers 1 --tokens 1 --prompt 4 --compare w=4,8"]
)
def test_settings_of_matplotlib_there_start_no_program(command: str) -> None:
    Path("matplotlibrc").write_text("text.usetex: True\n")
    Path("bin").mkdir()
    for name in ("latex", "dvipng", "kpsewhich"):
        tool = Path("bin", name)
        tool.write_text(f"#!/bin/sh\ntouch {Path(name).absolute()}.ran\nexit 1\n")
        tool.chmod(0o755)
    said = kbsim(*command.split(), "--plot", "p.svg", "-q", PATH=f"{Path('bin').absolute()}:{os.environ['PATH']}")
    assert (imported(), said.returncode) == ([], 0), said.stderr
