"""Errors of the library in the words of the command line: the command, and the option that has the refused value.

The library names arguments as Python does: `precision: w = 7`. A user of `kbsim llm` has written `--w 7`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kernbench.cli.mistakes.command_line import node_of
from kernbench.common.errors import InputError, Problem

#: Subjects of the library's errors that no file has, each with the options whose names differ from those of its arguments.
SUBJECTS: dict[str, dict[str, str]] = {
    "Machine.run": {},
    "a network of routers": {"channels": "--vcs", "cols": "--size", "rows": "--size", "torus": "--kind"},
    "capacity": {},
    "engine": {},
    "fleet": {},
    "fuzz": {},
    "precision": {},
    "probe": {},
    "router": {},
    "scenario": {},
    "serving": {},
    "slo": {"target": "--slo"},
    "tenants": {},
    "traffic": {"rate": "--rates", "packet": "--flits", "warm_up": "--warmup"},
    "whatif": {},
}


@dataclass(frozen=True)
class Command:
    """The command that a line names, and the names of its options."""

    path: str  #: such as `kbsim sweep run`
    options: Sequence[str]


def spoken(error: InputError, arguments: Sequence[str]) -> InputError:
    """The error with its values under the names of options; the same error if no problem is about an option."""
    if not any(_is_of_library(problem) for problem in error.problems):
        return error
    command = Command(*node_of(arguments))
    return InputError([_of_option(problem, command) for problem in error.problems])


def _is_of_library(problem: Problem) -> bool:
    return problem.where in SUBJECTS or problem.where.startswith(("--", "kbsim "))


def _of_option(problem: Problem, command: Command) -> Problem:
    if not _is_of_library(problem):
        return problem
    where, field = problem.where, problem.field
    option = SUBJECTS.get(where, {}).get(field, f"--{field.replace('_', '-')}")
    if where in command.options and option != where:  # a part of the option's value, as in `--compare prompt=1k,2k`
        return msgspec.structs.replace(problem, where=f"{command.path} {where}")
    if option in command.options:
        return msgspec.structs.replace(problem, where=command.path, field=option)
    is_group = command.path.startswith(f"{where} ")  # `kbsim serve` for `kbsim serve run`
    return msgspec.structs.replace(problem, where=command.path) if is_group else problem
