"""The commands of `kbsim`, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from kernbench.cli import output
from kernbench.cli.bench import app as bench_app
from kernbench.cli.ccl import app as ccl_app
from kernbench.cli.config import app as config_app
from kernbench.cli.llm import llm
from kernbench.cli.noc import app as noc_app
from kernbench.cli.onnx import onnx
from kernbench.cli.probe import probe
from kernbench.cli.program import app as program_app
from kernbench.cli.run import run
from kernbench.cli.schema import schema
from kernbench.cli.step import step
from kernbench.cli.sweep import app as sweep_app
from kernbench.cli.topology import app as topology_app
from kernbench.cli.trace import app as trace_app
from kernbench.cli.validate import validate
from kernbench.cli.whatif import whatif

app = typer.Typer(
    name="kbsim",
    help="How many cycles a kernel or a command queue program takes on a machine described in YAML, and why.",
    epilog="Exit codes: 0 done, 1 a tensor is wrong, a validation is outside, or a trace breaks a law or a limit, "
    "2 bad input or usage, 3 stopped at max_cycles, "
    "4 deadlock, 5 a check, a component or a kernel failed, 70 our bug, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run)
app.command()(step)
app.add_typer(bench_app, name="bench")
app.add_typer(program_app, name="program")
app.add_typer(config_app, name="config")
app.add_typer(topology_app, name="topology")
app.add_typer(trace_app, name="trace")
app.add_typer(sweep_app, name="sweep")
app.add_typer(ccl_app, name="ccl")
app.command()(llm)
app.command()(onnx)
app.command()(whatif)
app.command()(probe)
app.add_typer(noc_app, name="noc")
app.command()(validate)
app.command()(schema)


def _version(asked: bool) -> None:
    if not asked:
        return
    from kernbench.cmdq.program import VERSION as PROGRAM_VERSION
    from kernbench.config.load import KINDS
    from kernbench.sim_engine.result import MODEL_VERSION
    from kernbench.version import VERSION

    output.write(f"kernbench {VERSION}\ntiming model {MODEL_VERSION}\nschemas {', '.join(KINDS)}, program {PROGRAM_VERSION}\n")
    raise typer.Exit(output.OK)


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            help="Print the versions of package, timing model and schemas.",
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error, as KBSIM_DEBUG=1 does.")
    ] = False,
) -> None:
    """The options of all commands; `main` looks at --debug itself, wherever it stands."""
