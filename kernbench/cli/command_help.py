"""The help of a command: its usage, its purpose, and a panel for each kind of its arguments and options."""

from __future__ import annotations

from typing import Any

from kernbench.cli import output
from kernbench.cli.command_tree import HELP, Parameter, parameter_of
from kernbench.cli.examples import example_lines
from kernbench.cli.overview import coloured, terminal_width
from kernbench.cli.panels import Row, examples, page


def show_help(command: Any, context: Any) -> None:
    """Print the help of a command, or of a group of commands."""
    output.write(help_text(command, context, terminal_width(), coloured()) + "\n")


def help_text(command: Any, context: Any, width: int, colours: bool) -> str:
    """The help of a command as lines of at most `width` columns."""
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    paragraphs = [" ".join(part.split()) for part in (command.help or "").split("\n\n")]
    panels: dict[str, list[Row]] = {}
    for one in map(parameter_of, (each for each in command.params if not getattr(each, "hidden", False))):
        panels.setdefault(one.panel or ("Options" if one.names else "Arguments"), []).append(_row(one))
    panels.setdefault("Options", []).append(_row(HELP))
    for name, child in (getattr(command, "commands", None) or {}).items():
        panels.setdefault("Commands", []).append((name, "", " ".join((child.help or "").split("\n\n")[0].split())))
    lines = example_lines(context.command_path.partition(" ")[2])
    shown = "\n" + examples(lines, width, colours) if lines else ""
    return page(usage, paragraphs, panels.items(), width, colours) + "\n" + shown


def _row(one: Parameter) -> Row:
    """`-c, --config` with its value, and what it does. A long name without a short name is aligned with other long names."""
    notes = [text for text in ("required" if one.required else "", one.limits) if text]
    notes += [f"default: {one.default}"] if one.default else []
    does = f"{one.help} [{', '.join(notes)}]" if notes else one.help
    if not one.names:
        return one.value, "", does
    short = [name for name in one.names if not name.startswith("--")]
    names = ", ".join([*short, *(name for name in one.names if name.startswith("--"))])
    return (names if short else f"    {names}"), one.value, does
