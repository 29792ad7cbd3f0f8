"""`kbsim trace why`: where the cycles of a run went, and what was in the way."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import Json
from kernbench.cli.trace_summary import TraceFile


def why(
    file: TraceFile,
    op: Annotated[
        int | None,
        typer.Option("--op", metavar="ID", min=0, help="Tell the story of this command alone.", show_default=False),
    ] = None,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="Show so many rows of a table.")] = 12,
    as_json: Json = False,
) -> int:
    """Say why a run took that long: its critical path, what each resource costs on it, or one command's waits.

    The trace must be one of level full.
    """
    from kernbench.trace.reader import open_trace
    from kernbench.trace.why import explain
    from kernbench.trace.why_json import story_to_dict, why_to_dict

    trace = open_trace(file)
    found = explain(trace)
    story = None if op is None else found.story(op)
    if as_json:
        output.show_json(why_to_dict(found) if story is None else story_to_dict(found, story))
    else:
        from kernbench.cli.render_why import command_story, run_story

        width = output.console(sys.stdout).width
        output.show(run_story(found, top, width) if story is None else command_story(found, story, top, width))
    if trace.broken is None:
        return output.OK
    output.note(f"error: {file}: {trace.broken}")
    return output.REFUSED
