"""`kbsim trace`: commands on trace files, one module for each."""

from __future__ import annotations

from kernbench.cli.commands import Section
from kernbench.cli.trace import align, diff, energy, export, report, summary, validate, why

app = Section("Check, summarise, show, export and compare traces.")
app.command()(summary.summary)
app.command()(validate.validate)
app.command()(report.report)
app.command()(export.export)
app.command()(diff.diff)
app.command()(align.align)
app.command()(why.why)
app.command()(energy.energy)
