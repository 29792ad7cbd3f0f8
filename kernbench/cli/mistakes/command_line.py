"""The command line that typer refused: its command, the options and the bench that it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CommandLine:
    """A command line with a mistake."""

    path: str  #: the command that has been reached, such as `kbsim sweep run`
    command: Any  #: the same as an object of typer; None if the error does not say
    context: Any  #: the context of typer; None if the error does not say
    arguments: Sequence[str]  #: all words after `kbsim`

    @classmethod
    def of(cls, error: Any, arguments: Sequence[str]) -> CommandLine:
        """The command line of a usage error."""
        context = getattr(error, "ctx", None)
        if context is None:
            return cls(path_of(arguments), None, None, arguments)
        return cls(context.command_path, context.command, context, arguments)

    @property
    def options(self) -> list[str]:
        """All names of the command's options."""
        return [] if self.command is None else options_of(self.command)

    @property
    def bench(self) -> tuple[str, list[str]]:
        """The bench of the package that the line names, with the names of its parameters; empty if there is none."""
        from kernbench.runtime_api.discovery import installed_benches

        known = installed_benches()
        return next(((one, list(known[one].params)) for one in self.arguments if one in known), ("", []))

    def given(self, option: str) -> str:
        """The value of an option on the line; empty if there is none."""
        after = dict(zip(self.arguments, [*self.arguments[1:], ""], strict=True))
        joined = (one.partition("=")[2] for one in self.arguments if one.startswith(f"{option}="))
        return next(joined, after.get(option, ""))

    def compared(self, option: str, values: str) -> str:
        """The remedy for several values of an option that takes one: an option that compares runs."""
        return f"to compare runs: --compare {option.strip('-').replace('-', '_')}={values}"


def options_of(command: Any) -> list[str]:
    """All names of a command's options."""
    return [name for param in command.params for name in (*param.opts, *param.secondary_opts) if name.startswith("-")]


def path_of(arguments: Sequence[str]) -> str:
    """The command that a command line names, for an error without a context."""
    return node_of(arguments)[0]


def node_of(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The command that a command line names, and all names of its options."""
    import typer
    from typer.main import get_command

    from kernbench.cli.app import Deferred, app

    path, node = "kbsim", get_command(app)
    context: Any = typer.Context(node)
    for word in arguments:
        found = node.get_command(context, word) if hasattr(node, "get_command") else None
        if found is None:
            break
        path, node = f"{path} {word}", found.load() if isinstance(found, Deferred) else found
    return path, options_of(node)
