"""`kbsim trace`: what a trace file says; one file a command."""

from __future__ import annotations

import typer

from kernbench.cli.trace import align, diff, export, report, summary, validate, why

app = typer.Typer(help="Read traces: check them, sum them up, show them, compare them.", no_args_is_help=True)
app.command()(summary.summary)
app.command()(validate.validate)
app.command()(report.report)
app.command()(export.export)
app.command()(diff.diff)
app.command()(align.align)
app.command()(why.why)
