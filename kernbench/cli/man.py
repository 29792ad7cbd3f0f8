"""`kbsim man`: the manual pages, from the same description of the commands as their help."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from kernbench.cli import output
from kernbench.cli.command_tree import CommandNode, Parameter, command_tree
from kernbench.cli.examples import example_lines
from kernbench.cli.overview import EXIT_CODES
from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import meant


def man(
    command: Annotated[
        str | None, typer.Argument(metavar="[COMMAND]", help="The command whose page is printed.", show_default="kbsim itself")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Write all manual pages into this directory.", show_default=False),
    ] = None,
) -> int:
    """Print a manual page, or write all of them.

    The command `kbsim man run | man -l -` shows one page.
    The command `kbsim man -o ~/.local/share/man/man1` installs all pages, so that `man kbsim-run` works.
    """
    from kernbench.common.files import make_folder, write_whole

    pages = manual_pages()
    if out is not None:
        if command is not None:
            raise InputError(Problem("kbsim man", "--out writes all pages", "COMMAND", command, "leave it out"))
        make_folder(out)
        for name, text in pages.items():
            write_whole(out / name, text.encode())
        output.note(f"{out}: {len(pages)} pages")
        return output.OK
    name = f"kbsim-{command}.1" if command else "kbsim.1"
    if name not in pages:
        known = [one.removeprefix("kbsim-").removesuffix(".1") for one in pages if one != "kbsim.1"]
        rule = f"there is no such command; commands are {', '.join(known)}"
        raise InputError(Problem("kbsim man", rule, "COMMAND", command, meant(command, known)))
    output.write(pages[name])
    return output.OK


def manual_pages() -> dict[str, str]:
    """The manual pages by file name: one for `kbsim`, and one for each command together with its subcommands."""
    tree = command_tree()
    pages = {"kbsim.1": "\n".join(_front(tree)) + "\n"}
    return pages | {f"kbsim-{child.path}.1": "\n".join(_page(child)) + "\n" for child in tree.children}


def _front(tree: CommandNode) -> Iterator[str]:
    yield from _head("kbsim", tree.help)
    yield from (".SH SYNOPSIS", r"\fBkbsim\fR [\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGS\fR]...", ".SH COMMANDS")
    for child in tree.children:
        yield from (".TP", rf"\fBkbsim\-{_roff(child.path)}\fR(1)", _roff(child.help))
    yield from _options(tree, ".SH OPTIONS")
    yield from _end()


def _page(node: CommandNode) -> Iterator[str]:
    yield from _head(f"kbsim-{node.path}", node.help)
    yield ".SH SYNOPSIS"
    ends = [one for one in node.walk() if not one.children]
    for k, end in enumerate(ends):
        yield from ([".br"] if k else [])
        yield _synopsis(end)
    yield from (".SH DESCRIPTION", _roff(node.help))
    if not node.children:
        yield from _options(node, ".SH OPTIONS")
    for child in node.children:
        yield from (f".SH {_roff(child.path.upper())}", _roff(child.help))
        yield from _options(child, ".SS Options")
    yield ".SH EXAMPLES"
    for end in ends:
        for does, line in example_lines(end.path):
            yield from (".TP", rf"\fB{_roff(line)}\fR", _roff(does))
    yield from _end()
    yield from (".SH SEE ALSO", r"\fBkbsim\fR(1)")


def _head(name: str, does: str) -> Iterator[str]:
    from kernbench.version import VERSION

    yield f'.TH "{_roff(name.upper())}" 1 "" "kernbench {VERSION}" "kernbench"'
    yield from (".SH NAME", rf"{_roff(name)} \- {_roff(does.split('. ')[0].rstrip('.'))}")


def _end() -> Iterator[str]:
    yield from (".SH EXIT STATUS", _roff(EXIT_CODES.removeprefix("Exit codes: ")))


def _synopsis(node: CommandNode) -> str:
    arguments = []
    for one in node.arguments:
        name = rf"\fI{_roff(one.value.replace('[', '').replace(']', ''))}\fR"
        arguments.append(name if one.required else f"[{name}]")
    return " ".join([rf"\fBkbsim {_roff(node.path)}\fR", r"[\fIOPTIONS\fR]", *arguments])


def _options(node: CommandNode, heading: str) -> Iterator[str]:
    """The arguments and options of one command."""
    yield heading
    for one in (*node.arguments, *node.options):
        yield from (".TP", _named(one), _roff(one.help) + (f" [default: {_roff(one.default)}]" if one.default else ""))


def _named(one: Parameter) -> str:
    names = ", ".join(rf"\fB{_roff(name)}\fR" for name in one.names)
    value = rf"\fI{_roff(one.value)}\fR" if one.value else ""
    return f"{names} {value}".strip()


def _roff(text: str) -> str:
    """Text that roff shows as it is."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
