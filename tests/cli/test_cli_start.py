"""What a command imports before it does its work: what it does not need is left out. Times are rows of `make bench`."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stdout

import pytest
from typer.main import get_command
from typer.rich_utils import rich_format_help

from kernbench.cli.app import app
from kernbench.cli.main import main
from kernbench.cli.overview import COMMANDS, help_text

#: Packages that take long to import.
HEAVY = ("click", "kernbench_core", "ml_dtypes", "numpy", "pydantic", "rich", "scipy", "typer", "yaml")


def imported(*arguments: str) -> set[str]:
    """The modules that a command has imported at its end."""
    code = (
        f"import sys, atexit; sys.argv[1:] = {list(arguments)!r}\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from kernbench.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 2)
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ()])
def test_the_help_of_kbsim_imports_nothing(arguments: tuple[str, ...]) -> None:
    found = {name for name in imported(*arguments) if name.startswith("kernbench")}
    assert {name for name in found if "editable" not in name} <= {
        "kernbench", "kernbench.cli", "kernbench.cli.main", "kernbench.cli.overview", "kernbench.moved", "kernbench.version",
        "kernbench_libraries",
    }  # fmt: skip
    assert not found & {"dataclasses", "inspect", "json", "re", *HEAVY}


def test_a_run_imports_what_it_runs() -> None:
    found = imported("run", "tiles.json", "--config", "small.yaml", "--json")
    assert not {name for name in found if name.partition(".")[0] in ("ml_dtypes", "rich", "scipy", "polars", "matplotlib")}
    left_out = (
        "numpy.ma", "numpy.random", "runpy", "kernbench.components.parts", "kernbench.topology.graph",
        "kernbench.triton_emu", "kernbench.runtime_api", "kernbench.ccl", "kernbench.workloads.llm", "kernbench.sweep",
        "kernbench.trace.why", "kernbench.validate", "kernbench.cli.llm", "kernbench.cli.trace",
    )  # fmt: skip
    assert not {name for name in found for one in left_out if name == one or name.startswith(f"{one}.")}


@pytest.mark.parametrize("width", [60, 72, 80, 100, 120, 161])
def test_the_help_of_kbsim_is_as_typer_draws_it(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The overview is drawn without typer, and is the same text; help of commands is typer's."""
    monkeypatch.setenv("COLUMNS", str(width))
    group = get_command(app)
    context = group.make_context("kbsim", ["run"])
    drawn = io.StringIO()
    with redirect_stdout(drawn):
        rich_format_help(obj=group, ctx=context, markup_mode="rich")
    ours = help_text(width, False).split("\n")
    assert [line.rstrip() for line in ours] == [line.rstrip() for line in drawn.getvalue().split("\n")]


def test_colours_change_no_text() -> None:
    painted = help_text(80, True)
    for code in ("\x1b[1;36m", "\x1b[2m", "\x1b[1;33m", "\x1b[1m", "\x1b[0m"):
        assert code in painted
        painted = painted.replace(code, "")
    assert painted == help_text(80, False)


def test_help_is_printed_by_both_ways(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for arguments, code in ((["--help"], 0), ([], 2), (["--debug", "--help"], 0)):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == code
        assert capsys.readouterr().out == help_text(100, False) + "\n"
    assert all(name in help_text(100, False) for name in COMMANDS)
