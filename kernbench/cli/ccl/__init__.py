"""`kbsim ccl`: collectives between PEs: which algorithms there are, and what one takes; one file a command."""

from __future__ import annotations

import typer

from kernbench.cli.ccl import list as listing
from kernbench.cli.ccl import run

app = typer.Typer(help="Collectives between PEs: their times, and whether their numbers are right.", no_args_is_help=True)
app.command(name="list")(listing.list_)
app.command()(run.run)
