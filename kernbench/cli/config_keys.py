"""`kbsim config keys`: the keys of machine files."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.options import Json
from kernbench.cli.text import WIDE, Justify, table
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.config.keys import Key

Pattern = Annotated[
    str,
    typer.Argument(
        metavar="[PATTERN]",
        help="List only keys whose path contains the pattern (bank, dram.*, *.engines). If no path contains the pattern, "
        "list the keys whose meaning contains the pattern.",
        show_default="all",
    ),
]
Kind = Annotated[
    str | None,
    typer.Option("--kind", metavar="KIND", help="List only the keys of this kind of machine: npu or "
        "system.", show_default="all"),
]


def keys(pattern: Pattern = "", kind: Kind = None, as_json: Json = False) -> int:
    """List the keys of machine files: type, default, unit, allowed values, meaning. The option --set
    takes keys in the form that this command prints.
    """
    from kernbench.config.keys import keys_of, machine_kinds, matching

    models = machine_kinds(kind)
    every = {name: keys_of(model) for name, model in models.items()}
    found = {name: matching(some, pattern) for name, some in every.items()}
    if not any(found.values()):
        raise InputError(_nothing(pattern, [key.path for some in every.values() for key in some]))
    if as_json:
        output.show_json({"keys": [{"machine": name, **key.to_dict()} for name, some in found.items() for key in some]})
    else:
        width = output.console(sys.stdout).width
        parts = [part for name, some in found.items() if some for part in _tables(f"schema: {name}", some, width)]
        output.show(parts[1:])
    return output.OK


def _nothing(pattern: str, paths: Sequence[str]) -> Problem:
    from difflib import get_close_matches

    words = dict.fromkeys(word for path in paths for word in (path, *path.split("."), *re.split(r"[._]", path)))
    near = get_close_matches(pattern, words, n=1)
    remedy = f"did you mean {near[0]}?" if near else "to list all keys, use kbsim config keys"
    return Problem("kbsim config keys", "no key has this text in its path or in its meaning", "PATTERN", pattern, remedy)


def _tables(title: str, found: Sequence[Key], width: int) -> Iterator[RenderableType]:
    """A kind of machine: an empty line, a heading, then a table of all keys (wide), or two lines and more for each."""
    yield ""
    yield widgets.Text(title, "bold")
    yield ""
    yield _wide(found, width) if width >= WIDE else _narrow(found, width)


def _wide(found: Sequence[Key], width: int) -> widgets.Table:
    columns: list[tuple[str, Justify]] = [("key", "left"), ("type", "left"), ("default", "left"), ("unit", "left")]
    made = table("", [*columns, ("meaning", "left")])
    made.title = None
    longest = max(len(key.path) for key in found)
    cells = [(key, _short(_default(key), 16)) for key in found]
    used = longest + max(len(key.kind) for key in found) + max(len(text) for _, text in cells)
    room = max(30, width - used - max([4, *(len(key.unit) for key in found)]) - 8)
    for key, default in cells:
        meaning = "\n".join(textwrap.wrap(_meaning(key), room, break_long_words=False, break_on_hyphens=False))
        made.add_row(widgets.Text(key.path, "bold"), key.kind, default, widgets.Text(key.unit, "dim"), meaning)
    return made


def _narrow(found: Sequence[Key], width: int) -> widgets.Text:
    """Path, type, default and unit on a line, the meaning below it."""
    text = widgets.Text()
    longest = min(36, max(len(key.path) for key in found))
    for key in found:
        default = f"{key.default} B" if key.kind == "size" and _default(key).isdigit() else _default(key)
        unit = f" [{key.unit}]" if key.unit and key.unit != "byte" else ""
        text.append(f"{key.path:<{longest}}  ", "bold").append(key.kind).append(f"{unit}, ", "dim")
        said = {"required": "required", "absent": "no default"}.get(default)
        room = width - max(longest, len(key.path)) - len(key.kind) - len(unit) - len(", default ") - 2
        text.append(f"{said or f'default {_short(default, max(8, room))}'}\n")
        for line in textwrap.wrap(_meaning(key), width - 4, break_long_words=False, break_on_hyphens=False):
            text.append(f"    {line}\n", "dim")
    text.right_crop(1)
    return text


def _default(key: Key) -> str:
    """The default as text of a machine file."""
    from kernbench.config.keys import binary_size

    if key.kind != "size" or not key.default.isdigit():
        return key.default
    size, unit = binary_size(int(key.default))
    return key.default if unit == "B" else f"{size} {unit}B"


def _meaning(key: Key) -> str:
    """The meaning, and the allowed values unless they are the usual ones of integers and rationals."""
    usual = key.allowed.startswith("at least ")
    return f"{key.meaning} ({key.values})" if key.values and not usual else key.meaning


def _short(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 3]}..."
