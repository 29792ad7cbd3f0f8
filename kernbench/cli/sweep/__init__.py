"""`kbsim sweep`: many points from one spec; one file a command."""

from __future__ import annotations

import typer

from kernbench.cli.sweep import compare, merge, report, run

app = typer.Typer(help="Run many points from one spec, keep every result, and compare them.", no_args_is_help=True)
app.command()(run.run)
app.command()(merge.merge)
app.command()(report.report)
app.command()(compare.compare)
