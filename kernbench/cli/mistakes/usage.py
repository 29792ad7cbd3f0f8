"""Usage errors of typer as problems: one function for each kind of error."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from kernbench.cli.mistakes.command_line import CommandLine, options_of
from kernbench.cli.mistakes.extra import place_of_extra
from kernbench.cli.mistakes.names import COMMAND_SYNONYMS, OPTION_REMEDIES, TRACES, command_meant, option_meant, value_meant
from kernbench.common.errors import ABSENT, Problem, shown


def usage_problem(error: Any, arguments: Sequence[str] = ()) -> Problem:
    """A usage error of typer as a problem with the probable intention."""
    line, said = CommandLine.of(error, arguments), _sentence(error.format_message())
    for kind in KINDS:
        problem = kind(error, said, line)
        if problem is not None:
            return problem
    return _problem(line, said)


def _problem(line: CommandLine, rule: str, remedy: str = "") -> Problem:
    """Without a known remedy: the parameters of the bench that the line names, or the help of the command."""
    return Problem(line.path, rule, remedy=remedy or _parameters_named(line) or f"see {line.path} --help")


def _unknown_option(error: Any, _: str, line: CommandLine) -> Problem | None:
    if type(error).__name__ != "NoSuchOption" or line.command is None:
        return None
    name = error.option_name
    near = option_meant(name, line.options) or _setting_meant(name, line)
    remedy = _of_nccl_tests(line.path, name) or OPTION_REMEDIES.get((line.path, name), "")
    remedy = remedy or (f"did you mean {near}?" if near else _output_meant(name, line) or _sibling_meant(name, line))
    return _problem(line, f"there is no option {name}", remedy)


def _unknown_command(_: Any, said: str, line: CommandLine) -> Problem | None:
    found = re.match(r"No such command '(.*?)'", said)
    if found is None or line.command is None:
        return None
    name = found[1]
    known = [one for one, command in line.command.commands.items() if not command.hidden]
    near = _target_meant(line.path, name) or _help_meant(name, line) or command_meant(line.path, name, known)
    if near:
        return _problem(line, f"there is no command {shown(name)}", f"did you mean {near}?")
    return _problem(line, f"there is no command {shown(name)}; the commands are {', '.join(known)}")


def _extra_argument(_: Any, said: str, line: CommandLine) -> Problem | None:
    found = re.match(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", said)
    if found is None or line.command is None:
        return None
    return _problem(line, f"unexpected argument {shown(found[1])}", place_of_extra(found[1], line))


def _missing_parameter(error: Any, said: str, line: CommandLine) -> Problem | None:
    """The missing argument or option and its possible values, from the message of typer."""
    if type(error).__name__ != "MissingParameter" or error.param is None:
        return None
    param = error.param
    if param.param_type_name == "argument":
        name = str(param.metavar or param.human_readable_name).strip("[].")
    else:
        name = max(param.opts, key=len)
    choices = re.search(r"Choose from:? (.*)", said)
    rule = f"{name} is missing" + (f": one of {choices[1]}" if choices else "")
    return _problem(line, rule, OPTION_REMEDIES.get((line.path, name), ""))


def _missing_value(_: Any, said: str, line: CommandLine) -> Problem | None:
    found = re.match(r"Option '(.*?)' requires an argument", said)
    return found and Problem(line.path, f"{found[1]} needs a value", remedy=f"see {line.path} --help")


def _too_small(_: Any, said: str, line: CommandLine) -> Problem | None:
    found = re.match(r"Invalid value for '(.*?)'.*greater than or equal to (-?\d+)", said)
    if found is None:
        return None
    names = re.findall(r"'(-.*?)'", said)
    option, given = next(((name, value) for name in names if (value := line.given(name))), (names[0], ABSENT))
    number = int(given) if isinstance(given, str) and given.lstrip("-").isdigit() else given
    return Problem(line.path, f"it must be at least {found[2]}", option, number)


def _not_a_choice(_: Any, said: str, line: CommandLine) -> Problem | None:
    found = re.match(r"Invalid value for (.*?): '?(.*?)'? is not one of (.*)", said)
    if found is None:
        return None
    choices = re.findall(r"'(.*?)'", found[3])
    rule = f"it must be one of {', '.join(choices)}"
    return Problem(line.path, rule, found[1].split("'")[1], found[2], value_meant(found[2], choices))


def _not_a_number(_: Any, said: str, line: CommandLine) -> Problem | None:
    from kernbench.config.remedies import number_meant

    found = re.match(r"Invalid value for '(.*?)'.*(integer|whole number|number|float)", said)
    if found is None:
        return None
    option = found[1].split(" ")[-1]
    value = line.given(option)
    if re.fullmatch(r"\w+(,\w+)+", value) and "--compare" in line.options:
        return Problem(line.path, "it must be one number", option, value, line.compared(option, value))
    if found[2] == "whole number":
        return Problem(line.path, "it must be a whole number, like 512 or 8k", option, value)
    number = number_meant(value)
    kind = "an integer" if found[2] == "integer" else "a number"
    return Problem(line.path, f"it must be {kind}", option, value, f"write {option} {number}" if number else "")


#: The kinds of errors. Each function returns None for an error of another kind; the first that knows the error answers.
KINDS: tuple[Callable[[Any, str, CommandLine], Problem | None], ...] = (
    _unknown_option, _unknown_command, _extra_argument, _missing_parameter, _missing_value, _too_small, _not_a_choice,
    _not_a_number,
)  # fmt: skip


def _sentence(text: str) -> str:
    """On one line, as a clause."""
    return " ".join(text.split()).replace("Value error, ", "").rstrip(".")


def _of_nccl_tests(path: str, option: str) -> str:
    """What to do instead of an option of nccl-tests."""
    if path != "kbsim ccl run":
        return ""
    from kernbench.cli.ccl.nccl_tests import REMEDIES

    return REMEDIES.get(option, "")


def _target_meant(path: str, name: str) -> str:
    """The command for a bench, a program, a model, an operation, a machine or a file in the place of a command, or empty."""
    from kernbench.config.load import machine_names
    from kernbench.runtime_api.discovery import installed_benches
    from kernbench.workloads.catalogue import WORKLOADS
    from kernbench.workloads.models.files import preset_models
    from kernbench.workloads.ops.named import operations

    if path in ("kbsim", "kbsim trace") and name.endswith(TRACES):
        return f"kbsim trace summary {name}"
    if path == "kbsim sweep" and name.endswith((".yaml", ".yml", ".json", ".sqlite")):
        return f"kbsim sweep report {name}" if name.endswith(".sqlite") else f"kbsim sweep run {name}"
    if path == "kbsim bench" and name in installed_benches():
        return f"kbsim run {name}"
    if path != "kbsim":
        return ""
    for names, command in (
        ((*installed_benches(), *WORKLOADS), "run"), (preset_models(), "llm --model"), (operations(), "op"),
        (machine_names(), "config show"),
    ):  # fmt: skip
        if name in names and name not in COMMAND_SYNONYMS[path]:
            return f"kbsim {command} {name}"
    if name.endswith((".py", ".kbp")):
        return f"kbsim run {name}"
    return f"kbsim onnx {name}" if name.endswith(".onnx") else ""


def _help_meant(name: str, line: CommandLine) -> str:
    """`kbsim run --help` for `kbsim help run`; otherwise empty."""
    after = list(line.arguments)[1:]
    asked = line.path == "kbsim" and name == "help" and after and after[0].isalpha()
    return f"kbsim {' '.join(after)} --help" if asked else ""


def _output_meant(name: str, line: CommandLine) -> str:
    """The place of the file to write, for a command that takes the file as its argument."""
    if name not in ("-o", "--out", "--output"):
        return ""
    for param in line.command.params:
        if param.param_type_name == "argument" and "to write" in (getattr(param, "help", "") or ""):
            return f"write the file as an argument: {line.path} FILE"
    return ""


def _sibling_meant(option: str, line: CommandLine) -> str:
    """The commands of the same group that have the option; empty if there are none or many, and for commands of `kbsim`."""
    group = line.context.parent
    if group is None or group.parent is None:
        return ""
    siblings = [name for name, one in group.command.commands.items() if not one.hidden and option in options_of(one)]
    owners = " and ".join(f"{group.command_path} {name}" for name in siblings)
    return f"{option} is an option of {owners}" if 0 < len(siblings) <= 3 else ""


def _setting_meant(name: str, line: CommandLine) -> str:
    """`--set dram.channels=4` for an option `--dram.channels 4`, `--set m=64` for `--m 64` of a bench; empty if the command
    takes no such values.
    """
    if "--set" not in line.options:
        return ""
    path, equals, value = name.lstrip("-").partition("=")
    if "." not in name:
        path = next((one for one in line.bench[1] if one in (path, path.lower())), "")
    value = value if equals else line.given(name)
    return f"--set {path}={value if value and not value.startswith('-') else 'VALUE'}" if path else ""


def _parameters_named(line: CommandLine) -> str:
    """All parameters of the bench that the command line names, for an option or argument that resembles none of them."""
    if "--set" not in line.options:
        return ""
    name, parameters = line.bench
    return f"set parameters of {name} with --set NAME=VALUE; NAME is one of {', '.join(parameters)}" if parameters else ""
