"""`kbsim serve`: requests arrive at a model on a machine; one file a command."""

from __future__ import annotations

from typing import Any

from kernbench.cli.commands import Group, Section
from kernbench.cli.serve import capacity, run, why


class RunByDefault(Group):
    """`kbsim serve --model ...` means `kbsim serve run --model ...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as usual, with `run` inserted before a leading option, and with all goals after `--goodput`, as in vLLM."""
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, _with_goals(args))


def _with_goals(args: list[str]) -> list[str]:
    """`--goodput ttft:200 tpot:50` with one value."""
    found: list[str] = []
    for one in args:
        goal = ":" in one and not one.startswith("-")
        if goal and found[-2:-1] == ["--goodput"]:
            found[-1] += f",{one}"
        else:
            found.append(one)
    return found


app = Section(
    "Simulate a server that answers requests with a language model, and report latencies, throughput, and what limits both."
)
app.info.cls = RunByDefault


@app.callback()
def serve() -> None:
    """Simulate a server that answers requests with a language model, and report latencies, throughput, and what limits both."""


app.command()(run.run)
app.command()(why.why)
app.command()(capacity.capacity)
