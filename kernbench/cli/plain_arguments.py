"""Plain command lines of `kbsim run`, read without typer, whose import takes as long as a short run.

A line is plain if it has one target, known options that are given at most once (lists may be repeated), and a value after each
option that takes one. Every other line is passed to typer, which reads it or refuses it with its usage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernbench.cli.run_target import RunOptions

FLAGS = {
    "--json": "as_json", "--no-skip": "no_skip", "--verify": "verify", "--strict-wait": "strict_wait", "--all": "whole",
    "--quiet": "quiet", "-q": "quiet",
}  # fmt: skip
VALUES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "--config": ("config", str), "-c": ("config", str), "--out": ("out", Path), "-o": ("out", Path),
    "--trace": ("trace", Path), "--report": ("report", Path), "--trace-level": ("trace_level", str),
    "--trace-cycles": ("trace_cycles", str), "--trace-only": ("trace_only", str), "--check": ("check", str),
}  # fmt: skip
LISTS = {"--set": "overrides", "--allow-code": "allow_code"}


def plain_run(arguments: Sequence[str]) -> RunOptions | None:
    """The options of a plain command line of `kbsim run`; None for any other line."""
    if arguments[:1] != ["run"]:
        return None
    found: dict[str, Any] = {}
    rest = iter(arguments[1:])
    for one in rest:
        name, equals, value = one.partition("=") if one.startswith("--") else (one, "", "")
        if (name in VALUES or name in LISTS) and not equals:
            value = next(rest, "-")
            if value.startswith("-"):
                return None
        if name in LISTS:
            found.setdefault(LISTS[name], []).append(value)
            continue
        if name in VALUES:
            field, kind = VALUES[name]
            given: Any = kind(value)
        elif name in FLAGS and not equals:
            field, given = FLAGS[name], True
        elif not one.startswith("-"):
            field, given = "target", one
        else:
            return None
        if field in found:
            return None
        found[field] = given
    if "target" not in found:
        return None
    from kernbench.cli.run_target import RunOptions

    return RunOptions(**found)
