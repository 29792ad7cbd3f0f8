"""Common behaviour of commands: the layout of help, and options that may be given only once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from kernbench.cli.command_help import show_help
from kernbench.common.errors import InputError, Problem

#: Options that take several values, separated by commas.
LISTS = ("--algo", "--by", "--dtype", "--free", "--rates", "--sizes", "--vary")


class Command(TyperCommand):
    """A command whose options with one value may be given only once."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help of the command."""
        show_help(self, ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as usual. InputError if an option is given twice, because one of the two would have no effect."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        times = Counter(param for param in order if not _may_repeat(param))
        for param, count in times.items():
            if count > 1:
                option = max(param.opts, key=len)
                remedy = _compare_meant(args) if option == "--config" else "give the option once"
                if option in LISTS:
                    remedy = f"did you mean {option} {','.join(_all_given(param.opts, args))}?"
                rule = f"{option} is given {count} times, but takes only one value"
                raise InputError(Problem(ctx.command_path, rule, remedy=remedy))
        return super().parse_args(ctx, args)


def _compare_meant(args: list[str]) -> str:
    """`kbsim compare` with the machines and the target of a command line with several machines."""
    machines, rest = [], iter(args)
    targets = []
    for one in rest:
        if one in ("-c", "--config"):
            machines.append(next(rest, "B"))
        elif one.startswith("--config="):
            machines.append(one.partition("=")[2])
        elif not one.startswith("-"):
            targets.append(one)
    asked = " ".join(f"-c {one}" for one in machines)
    return f"to compare machines: kbsim compare {targets[0] if targets else 'TARGET'} {asked}"


def _all_given(names: Sequence[str], args: Sequence[str]) -> list[str]:
    """All values that were given for an option."""
    after = [value for one, value in pairwise(args) if one in names]
    return after + [one.partition("=")[2] for one in args if one.partition("=")[0] in names and "=" in one]


def _may_repeat(param: Any) -> bool:
    return bool(param.multiple or getattr(param, "is_flag", False) or param.param_type_name == "argument")


class Group(TyperGroup):
    """A command that has commands."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help of the group."""
        show_help(self, ctx)


class Section(typer.Typer):
    """A group of commands."""

    def __init__(self, does: str) -> None:
        super().__init__(cls=Group, help=does, no_args_is_help=True)

    def command(self, name: str | None = None, **given: Any) -> Callable[[Any], Any]:
        """Each is a `Command`."""
        return super().command(name, **{"cls": Command, **given})
