"""The commands of `kbsim`, put together."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from kernbench.cli import output
from kernbench.cli.commands import Command

#: name of the command, which is also that of its module in `kernbench.cli`: first paragraph of its help
COMMANDS = {
    "run": "Run a bench or a program to its end and report how long it took, and why.",
    "step": "Run some cycles and print the state of every engine.",
    "llm": "Run a language model on a machine and report its tokens per second, and what limits them.",
    "onnx": "Lower an ONNX model to a machine's command queue, run it, and report how long each node takes.",
    "op": "Plan one operation for a chip, simulate it, and report how long it takes and why.",
    "calibrate": "Fit a few constants of a chip to measured kernels, and report the errors on rows that the fit did not use.",
    "compare": "Run one target on several machines, compare the results, and explain the differences.",
    "whatif": "Run a target again with one resource unlimited at a time, and report what to change first.",
    "probe": "Measure the links of a system: host copies, near and far loads, sends, and all PEs at once.",
    "validate": "Compare simulated results with closed forms and published figures; "
    "exit with 1 if an error exceeds its tolerance.",
    "schema": "Print a JSON Schema: of an input (program, machine, system, sweep), of a trace line, "
    "or of the JSON that a command prints (result, bench, collectives, language model, graph, comparison, what-if).",
    "bench": "List and describe benches: kernels with inputs, parameters and a reference.",
    "program": "Check, show and compile programs, and write workloads as programs.",
    "config": "Write, check and show machines: their keys, values and origins.",
    "topology": "Show systems of SIPs, cubes and PEs: nodes, routes, pictures.",
    "trace": "Check, summarise, show, export and compare traces.",
    "sweep": "Run many points from one spec, store every result, and compare them.",
    "ccl": "Run collectives between PEs: measure their time and check their results.",
    "noc": "Replay recorded traffic of a chip's network.",
}
#: Modules that typer imports for Markdown help and its own tracebacks; they take half of the time of `kbsim --help`.
UNUSED = (("rich.markdown", "Markdown"), ("rich.traceback", "Traceback"))


class Deferred(TyperCommand):
    """A command, or a group of commands, that is not imported yet."""

    def load(self) -> Any:
        """The command itself."""
        module = import_module(f"kernbench.cli.{self.name}")
        holder = typer.Typer(add_completion=False, rich_markup_mode="rich")
        holder.callback()(_nothing)  # makes it a group with one command
        if hasattr(module, "app"):
            holder.add_typer(module.app, name=self.name)
        else:
            holder.command(self.name, cls=Command)(getattr(module, str(self.name)))
        return get_command(holder).commands[self.name]  # type: ignore[attr-defined]

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Forward the call to the command itself."""
        return self.load().make_context(info_name, args, parent=parent, **extra)


class Interrupted(Exception):
    """An interrupt of a command. typer would turn it into an exit code and lose the location of the interrupted code."""

    def __init__(self, interrupt: KeyboardInterrupt) -> None:
        super().__init__()
        self.interrupt = interrupt


class Commands(TyperGroup):
    """`kbsim`: all COMMANDS. None of them is imported here."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        deferred = {name: Deferred(name, help=does, rich_markup_mode="rich") for name, does in COMMANDS.items()}
        self.commands: dict[str, Any] = dict(deferred)
        self._deferred = deferred

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Its interrupts are passed on unchanged."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise Interrupted(interrupt) from None

    def loaded(self) -> Commands:
        """This, with all commands imported."""
        self.commands = {name: command.load() for name, command in self._deferred.items()}
        return self


def _nothing() -> None:
    """Makes a group of a single command."""


def import_help() -> None:
    """Import the modules with which typer draws help, without UNUSED. A later import of those gets the complete modules."""
    stand_ins = {module: name for module, name in UNUSED if module not in sys.modules}
    for module, name in stand_ins.items():
        sys.modules[module] = ModuleType(module)
        setattr(sys.modules[module], name, type(name, (), {}))
    try:
        import_module("typer.rich_utils")
    finally:
        for module in stand_ins:
            del sys.modules[module]


app = typer.Typer(
    name="kbsim",
    cls=Commands,
    help="Simulate how many cycles a kernel or a command queue program takes on a machine described in YAML, and explain why.",
    epilog="Exit codes: 0 done, 1 a tensor, a validation or a trace fails its check, "
    "2 bad input or usage, 3 stopped at max_cycles, "
    "4 deadlock, 5 a check, a component or a kernel failed, 70 internal error, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
            help="Print the versions of the package, the timing model and the schemas.",
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error. KBSIM_DEBUG=1 does the same.")
    ] = False,
) -> None:
    """The options of all commands. `main` handles --debug itself, at any position."""


def every_command() -> Commands:
    """`kbsim` with all its commands imported: for the reference, which describes each."""
    whole = get_command(app)
    assert isinstance(whole, Commands)
    return whole.loaded()
