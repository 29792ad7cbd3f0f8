"""`kbsim trace diff`: two runs side by side, and a gate for CI."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import Json

if TYPE_CHECKING:
    from kernbench.trace.diff import Diff

GREW = 1  #: exit code: the run's time grew above the limit


Before = Annotated[str, typer.Argument(metavar="A", help="The trace of the run before.", show_default=False)]
After = Annotated[str, typer.Argument(metavar="B", help="The trace of the run after.", show_default=False)]

FailAbove = Annotated[
    str | None,
    typer.Option(
        "--fail-above", metavar="PERCENT", help="End with code 1 where B takes longer by more: 2%.", show_default=False
    ),
]


def diff(
    a: Before,
    b: After,
    fail_above: FailAbove = None,
    markdown_to: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Also write it as Markdown.", show_default=False)
    ] = None,
    junit_to: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Also write it as a JUnit report.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> int:
    """Compare two runs: what got slower, by how much, and on which resource."""
    from kernbench.common.files import check_apart, check_writable, write_whole
    from kernbench.trace.diff import compare
    from kernbench.trace.diff_forms import junit, markdown, to_dict
    from kernbench.trace.ran import read_run
    from kernbench.trace.reader import open_trace

    limit = None if fail_above is None else _limit(fail_above)
    for place in (markdown_to, junit_to):
        if place is not None:
            check_writable(place)
    check_apart((markdown_to, junit_to), (a, b))
    found = compare(read_run(open_trace(a)), read_run(open_trace(b)))
    if markdown_to is not None:
        write_whole(markdown_to, markdown(found, limit).encode("utf-8", "replace"))
    if junit_to is not None:
        write_whole(junit_to, junit(found, limit).encode("utf-8", "replace"))
    if as_json:
        output.show_json(to_dict(found, limit))
    else:
        from kernbench.cli.render_trace_diff import trace_diff

        output.show(trace_diff(found, output.console(sys.stdout).width))
    if _say_broken(found):
        return output.REFUSED
    return GREW if limit is not None and found.grew_above(limit) else output.OK


def _say_broken(found: Diff) -> bool:
    """Say where a trace breaks off; whether one does."""
    broken = [run for run in (found.a, found.b) if run.broken is not None]
    for run in broken:
        output.note(f"error: {run.path}: {run.broken}")
    return bool(broken)


def _limit(text: str) -> Fraction:
    from kernbench.common.errors import InputError, Problem
    from kernbench.trace.diff import parse_limit

    try:
        return parse_limit(text)
    except ValueError as error:
        raise InputError(Problem("kbsim trace diff", str(error), "--fail-above", text)) from None
