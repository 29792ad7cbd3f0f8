"""`kbsim trace`: what a trace file says; one file a command."""

from __future__ import annotations

import typer

from kernbench.cli.trace_align import align
from kernbench.cli.trace_diff import diff
from kernbench.cli.trace_export import export
from kernbench.cli.trace_report import report
from kernbench.cli.trace_summary import summary
from kernbench.cli.trace_validate import validate
from kernbench.cli.trace_why import why

app = typer.Typer(help="Read traces: check them, sum them up, show them, compare them.", no_args_is_help=True)
app.command()(summary)
app.command()(validate)
app.command()(report)
app.command()(export)
app.command()(diff)
app.command()(align)
app.command()(why)
