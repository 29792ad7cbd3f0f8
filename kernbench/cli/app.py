"""The commands of `kbsim`, combined."""

from __future__ import annotations

import functools
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from kernbench.cli import output
from kernbench.cli.commands import Command
from kernbench.cli.overview import COMMANDS, EXIT_CODES, OPTIONS, PURPOSE, coloured, help_text, terminal_width


class Deferred(TyperCommand):
    """A command, or a group of commands, whose module is not imported yet."""

    def load(self) -> Any:
        """The command itself."""
        return _built(import_module(f"kernbench.cli.{self.name}"), str(self.name))

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Forward the call to the command itself."""
        return self.load().make_context(info_name, args, parent=parent, **extra)


@functools.cache  # typer takes 10 to 50 ms to read the options of a command, which a process may call often
def _built(module: ModuleType, name: str) -> Any:
    """The command, or the group of commands, of a module."""
    holder = typer.Typer(add_completion=False, rich_markup_mode=None)
    holder.callback()(_nothing)  # makes it a group with one command
    if hasattr(module, "app"):
        holder.add_typer(module.app, name=name)
    else:
        holder.command(name, cls=Command)(getattr(module, name))
    return get_command(holder).commands[name]  # type: ignore[attr-defined]


class Interrupted(Exception):
    """An interrupt of a command. typer would turn it into an exit code and lose the location of the interrupted code."""

    def __init__(self, interrupt: KeyboardInterrupt) -> None:
        super().__init__()
        self.interrupt = interrupt


class Commands(TyperGroup):
    """`kbsim`: all COMMANDS. None of them is imported here."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        deferred = {name: Deferred(name, help=does, rich_markup_mode=None) for name, does in COMMANDS.items()}
        self.commands: dict[str, Any] = dict(deferred)
        self._deferred = deferred

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the overview."""
        output.write(help_text(terminal_width(), coloured()))

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Its interrupts are passed on unchanged."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise Interrupted(interrupt) from None

    def loaded(self) -> Commands:
        """This group, with all commands imported."""
        self.commands = {name: command.load() for name, command in self._deferred.items()}
        return self


def _nothing() -> None:
    """Makes a group of a single command."""


app = typer.Typer(
    name="kbsim",
    cls=Commands,
    help=PURPOSE,
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if not asked:
        return
    from kernbench.cmdq.program import VERSION as PROGRAM_VERSION
    from kernbench.config.load import KINDS
    from kernbench.sim_engine.result import MODEL_VERSION
    from kernbench.version import VERSION

    output.write(f"kernbench {VERSION}\ntiming model {MODEL_VERSION}\nschemas {', '.join(KINDS)}, program {PROGRAM_VERSION}\n")
    raise typer.Exit(output.OK)


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            help=OPTIONS["--version"],
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help=OPTIONS["--debug"])
    ] = False,
) -> None:
    """The options of all commands. `main` handles --debug itself, at any position."""


def every_command() -> Commands:
    """`kbsim` with all its commands imported: for the reference, which describes each."""
    whole = get_command(app)
    assert isinstance(whole, Commands)
    return whole.loaded()
