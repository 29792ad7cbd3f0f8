"""The commands with their options and arguments as plain data: for completion, man pages and the reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

#: Options and arguments whose values have names: the kind of `names_of`, by the name of the option or argument.
_OPTIONS = {"--config": "machines", "--from": "machines", "--model": "models", "--runtime": "runtimes", "--algo": "algorithms",
            "--free": "resources", "--device": "devices"}  # fmt: skip
_ARGUMENTS = {"TARGET": "targets", "NAME|FILE": "machines", "BENCH": "benches", "WORKLOAD": "workloads", "SUITE": "suites",
              "COLLECTIVE": "collectives", "OP": "operations", "COMMAND": "commands"}  # fmt: skip
_FILES = ("FILE", "PATH", "DIR", "CKPT", "STORE", "SPEC", "TRACE", "OUT", "MODEL", "DATA.CSV", "COUNTERS", "BASE", "NEW",
          "FROM", "PYTHON", "TARGET", "A", "B")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter:
    """An option or an argument."""

    names: tuple[str, ...]  #: names of an option, the long one first; empty for an argument
    value: str  #: the name of the value in help: `NAME|FILE`, `dot|mermaid`; empty for a flag
    choices: tuple[str, ...]  #: the allowed values, if only some are allowed
    kind: str  #: the kind of names that it accepts (`names_of`); empty if it accepts none
    files: bool  #: whether a value may be a file or a folder
    required: bool
    default: str  #: as text; empty if there is no default to show
    help: str
    limits: str = ""  #: of a number: `at least 1`, `0 to 16`; empty if all are allowed
    panel: str = ""  #: the panel of the help that contains it; empty for `Options` or `Arguments`

    @property
    def flag(self) -> bool:
        """Whether it has no value."""
        return not self.value


HELP = Parameter(("--help", "-h"), "", (), "", False, False, "", "Show this message and exit.")


@dataclass(frozen=True, slots=True)
class CommandNode:
    """A command, or a group of commands."""

    path: str  #: without `kbsim`: `trace summary`; empty for `kbsim` itself
    help: str
    options: tuple[Parameter, ...]
    arguments: tuple[Parameter, ...]
    children: tuple[CommandNode, ...]

    def walk(self) -> Iterator[CommandNode]:
        """This command and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def command_tree() -> CommandNode:
    """`kbsim` with all its commands."""
    from kernbench.cli.app import every_command

    return _node("", every_command())


def names_of(kind: str) -> list[str]:
    """The names that the package has for a kind of object: machines, models, benches, ... KeyError for an unknown kind."""
    from kernbench.analysis.whatif import RESOURCES
    from kernbench.ccl.collectives import COLLECTIVES
    from kernbench.ccl.registry import read_registry
    from kernbench.cli.overview import COMMANDS
    from kernbench.config import machine_names
    from kernbench.config.runtime import runtime_names
    from kernbench.runtime_api.discovery import installed_benches
    from kernbench.validate.run import SUITES
    from kernbench.workloads.catalogue import WORKLOADS
    from kernbench.workloads.models.files import preset_models
    from kernbench.workloads.ops.named import operations

    found: dict[str, Callable[[], Iterable[str]]] = {
        "machines": machine_names,
        "models": preset_models,
        "runtimes": runtime_names,
        "algorithms": lambda: sorted({one.name for one in read_registry().entries}),
        "resources": lambda: list(RESOURCES),
        "devices": lambda: ["wormhole"],
        "targets": lambda: [*installed_benches(), *WORKLOADS],
        "benches": lambda: list(installed_benches()),
        "workloads": lambda: list(WORKLOADS),
        "suites": lambda: list(SUITES),
        "collectives": lambda: list(COLLECTIVES),
        "operations": operations,
        "commands": lambda: list(COMMANDS),
    }
    return list(found[kind]())


def _node(path: str, command: Any) -> CommandNode:
    parameters = [one for one in command.params if not getattr(one, "hidden", False)]
    options = tuple(_option(one) for one in parameters if one.param_type_name != "argument")
    children = getattr(command, "commands", None) or {}
    return CommandNode(
        path,
        _sentence(command.help),
        (*options, HELP),
        tuple(_argument(one) for one in parameters if one.param_type_name == "argument"),
        tuple(_node(f"{path} {name}".strip(), child) for name, child in children.items()),
    )


def _option(option: Any) -> Parameter:
    names = tuple(sorted((*option.opts, *option.secondary_opts), key=lambda name: not name.startswith("--")))
    choices = _choices(option)
    value = "" if option.is_flag else option.metavar or "|".join(choices) or ("N" if _is_number(option) else "VALUE")
    kind = next((_OPTIONS[name] for name in names if name in _OPTIONS), "") if value else ""
    if not choices and re.fullmatch(r"[a-z]+(\|[a-z]+)+", value):
        choices = tuple(value.split("|"))
    return Parameter(
        names, value, choices, kind, _takes_files(value), bool(option.required), default_text(option), _help(option),
        limits_text(option), getattr(option, "rich_help_panel", None) or "",
    )  # fmt: skip


def _argument(argument: Any) -> Parameter:
    name = str(argument.metavar or argument.name.upper())
    bare = name.strip("[].")
    choices = _choices(argument)
    kind = _ARGUMENTS.get(bare.rstrip("].").upper(), "")
    return Parameter(
        (), name, choices, kind, _takes_files(bare), bool(argument.required), default_text(argument), _help(argument)
    )


def parameter_of(given: Any) -> Parameter:
    """An option or an argument of typer as plain data."""
    return _argument(given) if given.param_type_name == "argument" else _option(given)


def limits_text(parameter: Any) -> str:
    """The smallest and the largest allowed number: `at least 1`, `0 to 16`; empty if all are allowed."""
    least, most = parameter.min, parameter.max
    if least is None and most is None:
        return ""
    return f"{least} to {most}" if None not in (least, most) else f"at least {least}" if most is None else f"at most {most}"


def _choices(parameter: Any) -> tuple[str, ...]:
    return tuple(map(str, parameter.type_descriptor.choices or ()))


def _is_number(parameter: Any) -> bool:
    return parameter.type_descriptor.annotation in (int, float)


def _takes_files(value: str) -> bool:
    return any(part.strip("[].").upper() in _FILES for part in value.split("|"))


def default_text(parameter: Any) -> str:
    """The default of an option or argument, as the help shows it; empty if there is no default."""
    default, shown = parameter.default, getattr(parameter, "show_default", None)
    if parameter.secondary_opts:
        default = (parameter.opts if default else parameter.secondary_opts)[0]
    if isinstance(shown, str):
        return shown
    return "" if default is None or default is False or default == () or callable(default) else str(default)


def _help(parameter: Any) -> str:
    return _sentence(getattr(parameter, "help", ""))


def _sentence(text: str | None) -> str:
    return " ".join((text or "").split())
