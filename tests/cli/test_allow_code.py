"""Code that a file names is not imported unless it is allowed: every way in, every refusal, every way to allow it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import all_reduce_own
from tests.cli.conftest import Kbsim
from tests.cli.own_parts import CCL, MARKER, MODULES, PARTS, SYSTEM, forget_parts, ran, write_parts


def listed(path: str | Path) -> str:
    """How to allow a path."""
    settings = Path("config/kernbench/settings.yaml").absolute()
    return f"give --allow-code {path} (allow_code= in Python), or list the path under allow_code in {settings}"


def refusal(where: str, value: str, rule: str, remedy: str) -> str:
    return f'error: {where} = "{value}", but {rule}; {remedy}\n'


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The parts, and a home without settings."""
    write_parts()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "200")
    yield
    forget_parts()


@pytest.mark.parametrize("value", ["this:x", "antigravity:x", "os:system", "json.tool:main"])
def test_modules_of_python_are_not_imported(kbsim: Kbsim, value: str) -> None:
    Path("sys.yaml").write_text(SYSTEM.replace("own_parts:Slow", value))
    sys.modules.pop(value.partition(":")[0], None) if value.startswith(("this", "anti")) else None
    rule = "it is a module of Python itself, which cannot be allowed"
    remedy = "name a module of your own, and pass --allow-code PATH"
    said = refusal("sys.yaml:2:29: components.router.impl", value, rule, remedy)
    assert kbsim("run", "load.json", "-c", "sys.yaml", "--allow-code", ".") == (2, "", said)
    assert "this" not in sys.modules and "antigravity" not in sys.modules


@pytest.mark.parametrize("place", ["sys.yaml", "--set"])
def test_installed_modules_are_not_imported_either(kbsim: Kbsim, place: str) -> None:
    """Not even those of packages that are loaded already."""
    import msgspec

    file = Path(msgspec.__file__).resolve()
    where, more = "sys.yaml:2:29: components.router.impl", ()
    if place == "--set":
        setting = "components.router.impl=msgspec:Raw"
        where, more = f"override {setting}: components.router.impl", ("--set", setting)
    else:
        Path("sys.yaml").write_text(SYSTEM.replace("own_parts:Slow", "msgspec:Raw"))
    rule = f"it names code that is not allowed, {file}"
    said = refusal(where, "msgspec:Raw", rule, f"if you trust it, {listed(file.parent)}")
    assert kbsim("run", "load.json", "-c", "sys.yaml", *more) == (2, "", said)


COMMANDS = [
    ("run", "load.json", "-c", "sys.yaml"),
    ("step", "load.json", "-c", "sys.yaml", "-n", "5"),
    ("run", "vector_add", "-c", "sys.yaml"),
    ("whatif", "load.json", "-c", "sys.yaml", "--free", "dram"),
    ("probe", "-c", "sys.yaml", "--sizes", "4K", "--only", "own_hbm"),
    ("program", "check", "load.json", "-c", "sys.yaml"),
    ("program", "show", "load.json", "-c", "sys.yaml"),
    ("topology", "show", "-c", "sys.yaml"),
    ("topology", "compile", "-c", "sys.yaml"),
    ("topology", "route", "sip0.cube0.pe0", "sip0.cube0.pe1", "-c", "sys.yaml"),
    ("topology", "draw", "-c", "sys.yaml", "--view", "cube", "-o", "c.svg"),
    ("ccl", "run", "all_reduce", "-n", "2", "--slots", "2", "--slot-bytes", "4K", "-c", "sys.yaml"),
    ("llm", "-c", "sys.yaml", "--layers", "1", "--tokens", "1", "--prompt", "1", "--tp", "1"),
    ("sweep", "run", "sweep.yaml", "--jobs", "1"),
    ("sweep", "run", "sweep.yaml", "--dry-run"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_that_builds_a_machine_asks(
    kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """The directory is on Python's path, so that the module would be found; allowed, the code is run."""
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("sweep.yaml").write_text("schema: kernbench/sweep/1\ntargets: [load.json]\nmachine: sys.yaml\n")
    said = kbsim(*command)
    file = Path("own_parts.py").absolute()
    rule = f"it names code that is not allowed, {file}"
    where = f"{'sweep.yaml:3:10: machine: ' if command[0] == 'sweep' else ''}sys.yaml:2:29: components.router.impl"
    assert said == (2, "", refusal(where, "own_parts:Slow", rule, f"if you trust it, {listed(file)}"))
    assert not ran()
    if command[0] == "llm":
        return  # this small system has no room for a model
    assert kbsim(*command, "--allow-code", "own_parts.py").code == 0
    assert ran() or "--dry-run" in command


def test_neither_is_a_package_around_it(kbsim: Kbsim) -> None:
    """A file allows itself: the packages that would be run with it are allowed with their directory."""
    Path("own_pack").mkdir()
    Path("own_pack/__init__.py").write_text(MARKER)
    Path("own_pack/parts.py").write_text(PARTS)
    Path("sys.yaml").write_text(SYSTEM.replace("own_parts:", "own_pack.parts:"))
    whole = Path("own_pack").absolute()
    rule = f"it names code that is not allowed, {whole}/__init__.py"
    said = refusal("sys.yaml:2:29: components.router.impl", "own_pack.parts:Slow", rule, f"if you trust it, {listed(whole)}")
    run = ("run", "load.json", "-c", "sys.yaml", "-q")
    assert kbsim(*run, "--allow-code", "own_pack/parts.py") == (2, "", said)
    assert not ran()
    for path in ("own_pack", "."):
        assert kbsim(*run, "--allow-code", path) == (0, "", "")
        assert ran()
        for name in MODULES:
            sys.modules.pop(name, None)


def test_a_package_without_a_file_runs_nothing(kbsim: Kbsim) -> None:
    Path("own_name").mkdir()
    Path("own_name/parts.py").write_text(PARTS)
    run = ("run", "load.json", "-c", "sys.yaml", "-q", "--allow-code", ".")
    assert kbsim(*run, "--set", "components.router.impl=own_name.parts:Slow").code == 0
    said = kbsim(*run, "--set", "components.router.impl=own_name:Slow")
    assert (said.code, "it names code that is not allowed, <own_name>" in said.err) == (2, True)


@pytest.mark.parametrize(
    ("path", "reason"),
    [("nowhere", "No such file or directory"), ("", "it is empty"), ("a\0b", "embedded null byte"), ("loop", "Symlink loop")],
)
def test_a_path_that_is_none(kbsim: Kbsim, path: str, reason: str) -> None:
    Path("loop").symlink_to("loop")
    said = kbsim("run", "load.json", "-c", "sys.yaml", "--allow-code", path)
    assert said.code == 2 and said.err.startswith('error: kbsim run --allow-code: PATH = "')
    assert f'", but it must be a directory or a file of Python: {reason}' in said.err or "Too many levels" in said.err


def test_a_link_out_of_what_is_allowed_is_not_followed(kbsim: Kbsim) -> None:
    Path("plugins").mkdir()
    Path("plugins/own_parts.py").symlink_to(Path("own_parts.py").absolute())
    said = kbsim("run", "load.json", "-c", "sys.yaml", "--allow-code", "plugins")
    assert (said.code, f"not allowed, {Path('own_parts.py').absolute()}; " in said.err, ran()) == (2, True, False)


def test_a_module_that_is_not_there(kbsim: Kbsim) -> None:
    rule = "the module own_name is not installed, and no path of --allow-code contains it"
    Path("sys.yaml").write_text(SYSTEM.replace("own_parts", "own_name"))
    said = refusal("sys.yaml:2:29: components.router.impl", "own_name:Slow", rule, listed("PATH"))
    assert kbsim("run", "load.json", "-c", "sys.yaml", "--allow-code", ".") == (2, "", said)
    Path("sys.yaml").write_text(SYSTEM.replace("own_parts", "kernbench.nothing"))
    rule = "there is no module kernbench.nothing"
    said = refusal("sys.yaml:2:29: components.router.impl", "kernbench.nothing:Slow", rule, listed("PATH"))
    assert kbsim("run", "load.json", "-c", "sys.yaml") == (2, "", said)


# Checkpoints and traces -------------------------------------------------------------------------------------------


def test_a_checkpoint_allows_nothing(kbsim: Kbsim) -> None:
    step = ("step", "load.json", "-c", "sys.yaml", "-n", "5")
    assert kbsim(*step, "--save", "c.ckpt", "--allow-code", ".").code == 0
    assert ran()
    rule = "the module own_parts is not installed, and no path of --allow-code contains it"
    said = refusal("sys.yaml:2:29: components.router.impl", "own_parts:Slow", rule, listed("PATH"))
    assert kbsim(*step, "--from", "c.ckpt") == (2, "", said)
    assert not ran()
    assert kbsim(*step, "--from", "c.ckpt", "--allow-code", ".").code == 0


def test_a_trace_is_read_without_its_code(kbsim: Kbsim) -> None:
    """Its first line has the machine, and names the code."""
    traced = ("--trace", "t.jsonl", "--trace-level", "full", "-q")
    assert kbsim("run", "load.json", "-c", "sys.yaml", "--allow-code", ".", *traced).code == 0
    assert ran() and '"impl":"own_parts:Slow"' in Path("t.jsonl").read_text()
    for command in ("why", "summary", "validate"):
        assert kbsim("trace", command, "t.jsonl").code == 0
    assert kbsim("trace", "report", "t.jsonl", "-o", "t.html").code == 0
    assert not ran()


def test_looking_at_a_machine_imports_nothing(kbsim: Kbsim) -> None:
    Path("mine.yaml").write_text(CCL)
    assert kbsim("config", "show", "sys.yaml").code == kbsim("config", "check", "sys.yaml").code == 0
    assert kbsim("ccl", "list", "--ccl", "mine.yaml").code == 0
    assert kbsim("ccl", "list", "--ccl", "mine.yaml", "--json").code == 0
    assert not ran()


# Collectives ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("module", "name"), [("mine.py", "mine.py"), ("own_parts", "own_parts.py")])
def test_algorithms_of_a_file_are_allowed(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> None:
    monkeypatch.syspath_prepend(str(Path.cwd()))
    text = Path(all_reduce_own.__file__).read_text().replace("all_reduce_own", "all_reduce_mine")
    Path(name).write_text(f"{text}\n{MARKER}")
    Path("mine.yaml").write_text(CCL.replace("mine.py", module))
    run = ("ccl", "run", "all_reduce", "--algo", "mine", "--ccl", "mine.yaml", "-n", "2", "-q")
    file = Path(name).absolute()
    where = "mine.yaml:2:33: module"
    said = refusal(where, module, f"it names code that is not allowed, {file}", f"if you trust it, {listed(file)}")
    assert kbsim(*run) == (2, "", said)
    assert not ran()
    assert kbsim(*run, "--allow-code", name) == (0, "", "")
    assert ran()


# Sweeps -----------------------------------------------------------------------------------------------------------

BENCH = MARKER + """
from kernbench import bench


@bench(name="mine", description="nothing", machine="single_cube")
def run(ctx):
    pass
"""


@pytest.mark.parametrize("jobs", [("--jobs", "1"), ("--executor", "dask", "--jobs", "1")], ids=" ".join)
def test_a_sweep_names_benches_and_its_workers_are_told_what_is_allowed(kbsim: Kbsim, jobs: tuple[str, ...]) -> None:
    if "dask" in jobs:
        pytest.importorskip("distributed")
    Path("mine.py").write_text(BENCH)
    Path("sweep.yaml").write_text("schema: kernbench/sweep/1\ntargets: [mine.py, load.json]\nmachine: sys.yaml\n")
    file = Path("mine.py").absolute()
    rule = f"it names code that is not allowed, {file}"
    said = refusal("sweep.yaml:2:11: targets[0]: mine.py: bench", "mine.py", rule, f"if you trust it, {listed(file)}")
    assert kbsim("sweep", "run", "sweep.yaml", *jobs) == (2, "", said)
    assert not ran()
    said_of = kbsim("sweep", "run", "sweep.yaml", "-q", *jobs, "--allow-code", "mine.py")
    assert (said_of.code, "own_parts" in said_of.err) == (2, True), said_of
    said_of = kbsim("sweep", "run", "sweep.yaml", "--lines", *jobs, "--allow-code", "mine.py", "--allow-code", "own_parts.py")
    assert [json.loads(line)["status"] for line in said_of.out.splitlines()] == ["done", "done"], said_of
    assert ran()


def test_a_store_allows_nothing(kbsim: Kbsim) -> None:
    """`--why` runs points again: what the store names needs the option again."""
    Path("sweep.yaml").write_text("schema: kernbench/sweep/1\ntargets: [load.json]\nmachine: sys.yaml\n")
    assert kbsim("sweep", "run", "sweep.yaml", "-q", "--jobs", "1", "--allow-code", ".").code == 0
    ran()
    assert kbsim("sweep", "report", "sweep.sqlite").code == 0
    rule = "the module own_parts is not installed, and no path of --allow-code contains it"
    said = refusal("sys.yaml: components.router.impl", "own_parts:Slow", rule, listed("PATH"))
    assert kbsim("sweep", "report", "sweep.sqlite", "--why", "1") == (2, "", said)
    assert not ran()
    assert kbsim("sweep", "report", "sweep.sqlite", "--why", "1", "--allow-code", ".").code == 0
    assert ran()
