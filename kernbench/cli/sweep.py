"""`kbsim sweep`: many points from one spec; one file a command."""

from __future__ import annotations

import typer

from kernbench.cli.sweep_compare import compare
from kernbench.cli.sweep_merge import merge
from kernbench.cli.sweep_report import report
from kernbench.cli.sweep_run import run

app = typer.Typer(help="Run many points from one spec, keep every result, and compare them.", no_args_is_help=True)
app.command()(run)
app.command()(merge)
app.command()(report)
app.command()(compare)
