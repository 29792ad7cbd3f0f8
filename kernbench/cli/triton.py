"""`kbsim triton`: a file with Triton kernels, run unchanged, and checks of the kernels that a file launches."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import AllowCode, AnyConfig, AnyOverrides, Json, Quiet
from kernbench.common.errors import InputError, KernbenchError, Problem, error_text
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from kernbench.config import MachineConfig

KERNEL_WRONG = 5  #: the exit code
DEFAULT_MACHINE = "single_cube"


def triton(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that launches Triton kernels.", show_default=False)],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS...", help="Arguments for the Python file. Write them after "
            "--.", show_default=False)
    ] = None,
    config: AnyConfig = None,
    overrides: AnyOverrides = None,
    allow_code: AllowCode = None,
    check: Annotated[
        str, typer.Option("--check", metavar="WHAT", help="Checks of the kernels, separated by commas: memory finds memory "
            "errors, and races finds data races.")
    ] = "",
    portable: Annotated[bool, typer.Option("--portable", help="Refuse what Triton's compiler refuses.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run a Python file that imports Triton. In the file, kernbench replaces Triton. The command reports the cycles of each
    kernel launch.
    """
    _check_file(file)
    import kernbench.triton.patch  # noqa: F401  (`import triton` of the file)
    from kernbench.cli.target import load_machine

    machine = load_machine(config or DEFAULT_MACHINE, overrides, quiet=quiet, allow_code=allow_code or ())
    return check_script(file, machine, check, as_json=as_json, quiet=quiet, arguments=arguments or (), portable=portable)


def _check_file(name: str) -> None:
    """InputError for a name that is not that of a Python file."""
    from kernbench.runtime_api.discovery import installed_benches

    if not name.endswith(".py"):
        bench = name in installed_benches()
        rule = f"this is {'a bench' if bench else 'not a Python file'}, but a Python file (.py) with Triton kernels is expected"
        raise InputError(Problem(name, rule, remedy=f"to run the bench: kbsim run {name}" if bench else ""))


def check_script(
    target: str, config: MachineConfig, checks: str, *, as_json: bool, quiet: bool, arguments: Sequence[str] = (),
    portable: bool = False,
) -> int:  # fmt: skip
    """Run a script with its launches checked; 5 where a kernel is wrong. InputError for a target that is not a script."""
    from unittest.mock import patch

    from kernbench.runtime_api.triton.run import CHECKS, machine

    wrong = [one for one in checks.split(",") if one and one not in CHECKS]
    if wrong:
        raise InputError(Problem("--check", f"it must be one or more of {', '.join(CHECKS)}", "check", checks))
    path = _script(target)
    with machine(config, check=checks, portable=portable) as runs, patch.object(sys, "argv", [str(path), *arguments]):
        found = _run_to_the_end(path)
    found += [f"{one.name}: {text}" for one in runs for text in (*one.problems, *map(str, one.races))]
    if as_json:
        launches = [{"kernel": one.name, "cycles": one.cycles} for one in runs]
        output.answer({"checks": [one for one in checks.split(",") if one], "launches": launches, "problems": found})
    elif not quiet:
        for one in runs:
            print(f"{one.name}: {counted(one.cycles, 'cycle')}")
        if found or checks or not runs:
            print("\n".join(_in_lines(one) for one in found) if found else _nothing(len(runs)))
    return KERNEL_WRONG if found else output.OK


def _script(target: str) -> Path:
    """The file of a script. InputError for another target."""
    from kernbench.common.files import near_file, no_file

    path = Path(target)
    if path.suffix == ".py" and not os.path.exists(path):
        raise InputError(Problem(target, no_file(path), remedy=near_file(target)))
    if path.suffix != ".py" or not os.path.isfile(path):
        raise InputError(Problem("--check", "it takes a Python file that launches Triton kernels", "target", target))
    return path


def _run_to_the_end(path: Path) -> list[str]:
    """Run a script; what it raises, as text."""
    import runpy

    try:
        runpy.run_path(str(path), run_name="__main__")
    except (InputError, KeyboardInterrupt):
        raise
    except KernbenchError as error:
        return ["\n".join([str(error), *(f"  {note}" for note in getattr(error, "__notes__", ()))])]
    except SystemExit as error:
        return [f"{path}: it ended with exit({error.code!r})"] if error.code not in (None, 0) else []
    except BaseException as error:  # the script belongs to the user: its exception need not be an Exception
        return [_raised(path, error)]
    return []


def _raised(path: Path, error: BaseException) -> str:
    """The exception of a script, with its line. The traceback is written to stderr."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        raise InputError(Problem(f"{path}:{error.lineno}", f"this is not valid Python: {error.msg}")) from error
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    first = next((i for i, frame in enumerate(frames) if frame.filename == str(path)), 0)
    output.note("".join(traceback.format_list(frames[first:])).rstrip("\n"))
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"{path}:{lines[-1] if lines else 1}: {error_text(error)}"


def _nothing(launches: int) -> str:
    return "nothing is wrong" if launches else "the file launches no kernel, as kernel[grid](...), so nothing was checked"


def _in_lines(text: str) -> str:
    """A text unchanged for a file or a pipe, and wrapped to the width of a terminal (or of `COLUMNS`)."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return text
    import shutil
    import textwrap

    width = max(40, shutil.get_terminal_size().columns)
    wrap = textwrap.TextWrapper(width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(wrap.fill(line) for line in text.split("\n"))
