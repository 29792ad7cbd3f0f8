"""`kbsim ccl`: collectives between PEs: which algorithms there are, and what one takes; one file a command."""

from __future__ import annotations

from kernbench.cli.ccl import list as listing
from kernbench.cli.ccl import run
from kernbench.cli.commands import Section

app = Section("Collectives between PEs: their times, and whether their numbers are right.")
app.command(name="list")(listing.list_)
app.command()(run.run)
