"""`kbsim run FILE.py --check memory,races`: the Triton kernels that a script launches, and what is wrong with them."""

from __future__ import annotations

import os
import runpy
import shutil
import sys
import textwrap
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from kernbench.cli import output
from kernbench.common.errors import InputError, KernbenchError, Problem, error_text
from kernbench.common.words import counted

if TYPE_CHECKING:
    from kernbench.config import MachineConfig


def check_script(target: str, config: MachineConfig, checks: str, *, as_json: bool, quiet: bool) -> int:
    """Run a script with its launches checked; 5 where a kernel is wrong. InputError for a target that is no script."""
    from kernbench.runtime_api.triton_run import CHECKS, machine

    wrong = [one for one in checks.split(",") if one not in CHECKS]
    if wrong:
        raise InputError(Problem("--check", f"it must be one or more of {', '.join(CHECKS)}", "check", checks))
    path = Path(target)
    if path.suffix == ".py" and not path.exists():
        raise InputError(Problem(target, "it cannot be read: No such file or directory"))
    if path.suffix != ".py" or not path.is_file():
        raise InputError(Problem("--check", "it takes a Python file that launches Triton kernels", "target", target))
    found: list[str] = []
    with machine(config, check=checks) as runs:
        try:
            runpy.run_path(str(path), run_name="__main__")
        except InputError:
            raise
        except KernbenchError as error:
            found.append("\n".join([str(error), *(f"  {note}" for note in getattr(error, "__notes__", ()))]))
        except SystemExit as error:
            found += [f"{path}: it ended with exit({error.code!r})"] if error.code not in (None, 0) else []
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the script is the user's: what it raises need be no Exception
            found.append(_raised(path, error))
    found += [f"{one.name}: {text}" for one in runs for text in (*one.problems, *map(str, one.races))]
    if as_json:
        launches = [{"kernel": one.name, "cycles": one.cycles} for one in runs]
        output.answer({"checks": checks.split(","), "launches": launches, "problems": found})
    elif not quiet:
        for one in runs:
            print(f"{one.name}: {counted(one.cycles, 'cycle')}")
        print("\n".join(_in_lines(one) for one in found) if found else _nothing(len(runs)))
    return KERNEL_WRONG if found else output.OK


def _raised(path: Path, error: BaseException) -> str:
    """What a script raised, with its line; the traceback goes to stderr."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        raise InputError(Problem(f"{path}:{error.lineno}", f"it is not valid Python: {error.msg}")) from error
    frames = traceback.extract_tb(error.__traceback__)
    first = next((i for i, frame in enumerate(frames) if frame.filename == str(path)), 0)
    output.note("".join(traceback.format_list(frames[first:])).rstrip("\n"))
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"{path}:{lines[-1] if lines else 1}: {error_text(error)}"


def _nothing(launches: int) -> str:
    return "nothing is wrong" if launches else "no kernel was launched, so nothing was checked"


def _in_lines(text: str) -> str:
    """A text as it is for a file or a pipe, and in lines of the width of a terminal (or of `COLUMNS`)."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return text
    width = max(40, shutil.get_terminal_size().columns)
    wrap = textwrap.TextWrapper(width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(wrap.fill(line) for line in text.split("\n"))


KERNEL_WRONG = 5  #: the exit code
