"""The help of `kbsim` itself: its commands and what each does. It is formatted without typer, so that it appears at once."""

from __future__ import annotations

import os
import sys

from kernbench.cli.panels import indented, page

PURPOSE = (
    "Simulate a kernel or a command queue on an accelerator that a YAML file describes, and report how many cycles "
    "the run takes and why."
)
OPTIONS = {
    "--version": "Print the versions of the package, the timing model and the schemas.",
    "--debug": "Show the traceback of an error. KBSIM_DEBUG=1 does the same.",
    "--help": "Show this message and exit.",
}
EXIT_CODES = (
    "Exit codes: 0 done, 1 a tensor, a validation or a trace fails its check, 2 bad input or usage, 3 stopped at max_cycles, "
    "4 deadlock, 5 a check, a component or a kernel failed, 70 internal error, 130 interrupted."
)
#: The name of each command, which is also that of its module in `kernbench.cli`, and its purpose, which is the first paragraph
#: of its help
COMMANDS = {
    "run": "Run a bench or a program to the end, and report how many cycles the run took and what limited the run.",
    "step": "Run some cycles and print the state of every engine.",
    "debug": "Go forward and back through a run, and look at its state at any cycle.",
    "llm": "Run a language model on a machine, and report the tokens per second and what limits this rate.",
    "serve": "Simulate a server that answers requests with a language model, and report latencies, throughput, and what "
    "limits both.",
    "onnx": "Lower an ONNX model to a command queue, run the command queue, and report how long each node takes.",
    "torch": "Lower a PyTorch model to a command queue, run the command queue, and report how long each node takes.",
    "triton": "Run a Python file that imports Triton. In the file, kernbench replaces Triton. The command reports the "
    "cycles of each kernel launch.",
    "op": "Plan one operation for a chip, simulate it, and report how long it takes and why.",
    "calibrate": "Fit a few constants of a chip to measured kernels, and report the errors for kernels outside the fit.",
    "compare": "Run one target on several machines, compare the results, and explain the differences.",
    "whatif": "Run a target again without the limit of one resource (DRAM, NoC, ...), and report what to change first.",
    "tenants": "Run several programs or benches at once on one machine, with quotas, and report the slowdown of each tenant.",
    "fuzz": "Run a target under many legal timings and report races, lost waits and deadlocks.",
    "probe": "Measure the links of a system with host copies, loads from near and far memories, sends, and simultaneous "
    "loads of all PEs.",
    "validate": "Compare simulated results with closed forms and published figures; "
    "exit with 1 if an error exceeds its tolerance.",
    "schema": "Print a JSON Schema of an input file, of the lines of a trace, or of the JSON that a command prints.",
    "bench": "List and describe benches: kernels with inputs, parameters and a reference.",
    "program": "Check, show and compile programs, and write workloads as programs.",
    "config": "Write, check and show machines: the keys, the values, and where each value comes from.",
    "topology": "Show systems of SIPs, cubes and PEs: nodes, routes, pictures.",
    "trace": "Check, summarise, show, export and compare traces.",
    "sweep": "Run the many points of a sweep file, store every result, and compare the results.",
    "ccl": "Run collectives between PEs: measure their time and check their results.",
    "noc": "Replay recorded traffic of a chip's network, or simulate synthetic load on a network of routers.",
    "completion": "Print a shell script for the completion of commands, options, and names of machines, models and benches.",
    "man": "Print a manual page, or write all of them.",
}


def help_text(width: int, colours: bool) -> str:
    """The help of `kbsim`, for a terminal with this number of columns."""
    options = [(f"-h, {one}" if one == "--help" else f"    {one}", "", does) for one, does in OPTIONS.items()]
    commands = [(name, "", does) for name, does in COMMANDS.items()]
    panels = (("Options", options), ("Commands", commands))
    text = page("kbsim [OPTIONS] COMMAND [ARGS]...", [PURPOSE], panels, width, colours)
    return "\n".join([text, "", *indented(EXIT_CODES, width), ""]) + "\n"


def terminal_width() -> int:
    """[column] The width of the terminal, or `COLUMNS`; 80 without a terminal. At least 40, which a page of help needs."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit():
        return max(40, int(given))
    for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        try:
            return max(40, os.get_terminal_size(stream.fileno()).columns)  # type: ignore[union-attr]  # None is caught
        except (AttributeError, OSError, ValueError):
            continue
    return 80


def coloured() -> bool:
    """Whether stdout shows colours: a terminal with colours, without NO_COLOR; FORCE_COLOR overrides this."""
    if os.environ.get("NO_COLOR"):
        return False
    terminal = sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
    return terminal or bool(os.environ.get("FORCE_COLOR"))
