"""`kbsim ccl`: collectives between PEs; one module for each command."""

from __future__ import annotations

from kernbench.cli.ccl import list as listing
from kernbench.cli.ccl import replay, run, torchrun, tune
from kernbench.cli.ccl.nccl_tests import option_of
from kernbench.cli.commands import Section

app = Section("Run collectives between PEs: measure their time and check their results.")
app.command(name="list")(listing.list_)
app.command(context_settings={"token_normalize_func": option_of})(run.run)
app.command()(replay.replay)
app.command()(tune.tune)
app.command(context_settings={"allow_interspersed_args": False})(torchrun.torchrun)
