"""`kbsim ccl`: collectives between PEs: which algorithms there are, and what one takes; one file a command."""

from __future__ import annotations

import typer

from kernbench.cli.ccl_list import list_
from kernbench.cli.ccl_run import run

app = typer.Typer(help="Collectives between PEs: their times, and whether their numbers are right.", no_args_is_help=True)
app.command(name="list")(list_)
app.command()(run)
