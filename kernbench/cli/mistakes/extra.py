"""Where an argument that a command does not take may belong: one function for each place."""

from __future__ import annotations

import re
from collections.abc import Callable

from kernbench.cli.mistakes.command_line import CommandLine
from kernbench.cli.mistakes.names import TRACES


def place_of_extra(text: str, line: CommandLine) -> str:
    """What to write for the superfluous arguments `text`, separated by blanks; empty if nothing fits or all are blank."""
    if not text.strip():
        return ""
    return next((remedy for place in PLACES if (remedy := place(text, line))), "")


def _trace(text: str, line: CommandLine) -> str:
    first = text.split()[0]
    if not first.endswith(TRACES) or "--trace" in line.options:
        return ""
    return f"for a trace, use kbsim trace {'why' if line.path.endswith('why') else 'summary'} {first}"


def _list_of_shapes(text: str, line: CommandLine) -> str:
    if not text.split()[0].endswith(".csv"):
        return ""
    return "for a list of shapes, use one command for each shape" + (": -m M -n N -k K" if "-k" in line.options else "")


def _more_values(text: str, line: CommandLine) -> str:
    """`--batch 1 8 16`."""
    if "--compare" not in line.options or not re.fullmatch(r"[\dkM ]+", text):
        return ""
    words = text.split()
    for option, value, word in zip(line.arguments, line.arguments[1:], line.arguments[2:], strict=False):
        if word == words[0] and option.startswith("--"):
            return line.compared(option, ",".join([value, *words]))
    return ""


def _shape(text: str, line: CommandLine) -> str:
    """`512x512x64`, or three numbers."""
    if "-k" not in line.options:
        return ""
    if found := re.fullmatch(r"(\d+)x(\d+)x(\d+)", text.split()[0]):
        return f"did you mean -m {found[1]} -n {found[2]} -k {found[3]}?"
    if re.fullmatch(r"[\d ]+", text):
        return f"did you mean {' '.join(map(' '.join, zip(('-m', '-n', '-k'), text.split(), strict=False)))}?"
    return ""


def _setting(text: str, line: CommandLine) -> str:
    """A value of `--set`, its key or a unit behind it."""
    if "--set" not in line.options:
        return ""
    first = text.split()[0]
    sizes = first.split("x")
    if len(sizes) == 3 and all(map(str.isdecimal, sizes)) and {"m", "n", "k"}.issubset(line.bench[1]):
        return f"did you mean {' '.join(f'--set {one}={size}' for one, size in zip('mnk', sizes, strict=True))}?"
    if re.fullmatch(r"[A-Za-z_][\w.\[\]]*=.*", first):
        return f"did you mean --set {first}?"
    key = line.given("--set")
    if key and "=" not in key:
        return f"did you mean --set {key}={first}?"
    return _with_unit(key, first) if key else ""


def _with_unit(setting: str, unit: str) -> str:
    """The remedy for a unit behind a value, as in `--set freq_ghz=1.2 GHz`; empty for other words."""
    from kernbench.config.remedies import value_meant

    path, _, value = setting.partition("=")
    if not re.fullmatch(r"[0-9.]+", value) or not re.fullmatch(r"[kMG]?(Hz|i?B|B/s)|[numk]?s|cycles?", unit):
        return ""
    if path.endswith("_bytes") and unit.endswith("B"):
        return f"write --set {setting}{unit}, without a blank"
    known = value_meant(path, "it must be a decimal number", f"{value} {unit}", {})
    return known if " is in " in known else f"write --set {setting}" if unit.startswith("cycle") else ""


def _machine(text: str, line: CommandLine) -> str:
    from kernbench.config import machine_names

    if "--config" not in line.options:
        return ""
    machines = [one for one in text.split() if one in machine_names() or one.endswith((".yaml", ".yml"))]
    given = machines if line.path == "kbsim compare" else machines[:1]
    return f"did you mean {' '.join(f'--config {one}' for one in given)}?" if given else ""


def _model(text: str, line: CommandLine) -> str:
    return f"did you mean --model {text.split()[0]}?" if "--model" in line.options else ""


def _name_of_one(text: str, line: CommandLine) -> str:
    """The name of one machine or bench for a command that lists all."""
    shows = {"kbsim config list": "kbsim config show", "kbsim bench list": "kbsim bench show"}
    return f"did you mean {shows[line.path]} {text.split()[0]}?" if line.path in shows else ""


#: The places, the first that fits counts.
PLACES: tuple[Callable[[str, CommandLine], str], ...] = (
    _trace, _list_of_shapes, _more_values, _shape, _setting, _machine, _model, _name_of_one,
)  # fmt: skip
