"""`kbsim sweep`: many points from one spec; one file a command."""

from __future__ import annotations

from kernbench.cli.commands import Section
from kernbench.cli.sweep import compare, merge, report, run, submit

app = Section("Run the many points of a sweep file, store every result, and compare the results.")
app.command()(run.run)
app.command()(submit.submit)
app.command()(merge.merge)
app.command()(report.report)
app.command()(compare.compare)
