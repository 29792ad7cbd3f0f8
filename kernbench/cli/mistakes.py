"""What a wrong command line probably means: suggestions for unknown commands, options, arguments and values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from kernbench.common.errors import ABSENT, Problem, shown
from kernbench.common.spelling import meant, nearest

#: Common mistakes, also from other tools: the intended command, by the parent command.
COMMAND_SYNONYMS: dict[str, dict[str, str]] = {
    "kbsim": {
        "simulate": "run", "exec": "run", "execute": "run", "diff": "trace diff", "why": "trace why", "report": "trace report",
        "summary": "trace summary", "metrics": "trace summary", "stats": "trace summary", "export": "trace export",
        "show": "config show", "list": "config list", "machines": "config list", "machine": "config show",
        "check": "program check", "benches": "bench list", "workloads": "program list", "compile": "program compile",
        "emit": "program emit", "route": "topology route", "draw": "topology draw", "plot": "topology draw",
        "bandwidth": "probe", "collective": "ccl run", "nccl": "ccl run", "all_reduce": "ccl run all_reduce", "model": "llm",
        "help": "--help", "version": "--version", "completions": "completion",
    },
    "kbsim trace": {
        "metrics": "summary", "stats": "summary", "show": "summary", "info": "summary", "check": "validate",
        "verify": "validate", "html": "report", "view": "report", "plot": "report", "convert": "export", "compare": "diff",
        "explain": "why", "critical-path": "why", "open": "report", "timeline": "report",
    },
    "kbsim config": {
        "validate": "check", "presets": "list", "print": "show", "get": "show", "set": "show --set", "edit": "init",
        "new": "init", "create": "init", "ls": "list", "diff": "compare",
    },
    "kbsim bench": {"run": "run", "describe": "show", "info": "show", "ls": "list"},
    "kbsim program": {"run": "run", "validate": "check", "write": "emit", "print": "show"},
    "kbsim topology": {"info": "show", "path": "route", "plot": "draw", "svg": "draw", "build": "compile"},
    "kbsim sweep": {"start": "run", "resume": "run", "plot": "report", "show": "report", "diff": "compare"},
    "kbsim ccl": {"ls": "list", "all_reduce": "run all_reduce", "all_gather": "run all_gather", "bench": "run"},
    "kbsim noc": {"run": "replay"},
}  # fmt: skip
TRACES = (".jsonl", ".jsonl.gz", ".jsonl.zst")  #: endings of trace files
#: Intended commands that belong to `kbsim` itself, not to the group.
TOP = {("kbsim bench", "run"), ("kbsim program", "run"), ("kbsim config", "diff")}
#: Options of other tools: the options of kernbench that they mean, of which the first that the command has is suggested.
OPTION_SYNONYMS: dict[str, tuple[str, ...]] = {
    "--html": ("--report", "--html", "--plot", "--out"),
    "--report": ("--html", "--plot"),
    "--output": ("--out",),
    "--machine": ("--config",),
    "--system": ("--config",),
    "--target": ("--config",),
    "--cfg": ("--config",),
    "--chip": ("--config",),
    "--device": ("--config",),
    "--gpu": ("--config",),
    "--hardware": ("--config",),
    "--hw": ("--config",),
    "--preset": ("--config",),
    "--override": ("--set",),
    "--param": ("--set",),
    "--params": ("--set",),
    "-p": ("--set",),
    "--define": ("--set",),
    "-D": ("--set",),
    "-s": ("--set",),
    "--max-cycles": ("--set max_cycles=N",),
    "--format": ("--to", "--format", "--json"),
    "--csv": ("--csv", "--format", "--json"),
    "--plot": ("--plot", "--report", "--view"),
    "--svg": ("--plot", "--out"),
    "--silent": ("--quiet",),
    "--resource": ("--free",),
    "--trace-file": ("--trace",),
    "--threads": ("--threads", "--jobs"),
    "--workers": ("--jobs",),
    "--size": ("--sizes", "--begin", "--bytes"),
    "--sizes": ("--begin 1KiB --end 1MiB",),
    "--min-bytes": ("--begin",),
    "--max-bytes": ("--end",),
    "--minbytes": ("--begin",),
    "--maxbytes": ("--end",),
    "--stepfactor": ("--factor",),
    "--algorithm": ("--algo",),
    "--seq-len": ("--prompt", "--kv"),
    "--context": ("--prompt", "--kv"),
    "--seq": ("--prompt", "--kv"),
    "--contexts": ("--compare prompt=1k,2k",),
    "--context-len": ("--prompt", "--kv"),
    "--context-length": ("--prompt",),
    "--ctx": ("--prompt",),
    "--seqlen": ("--prompt", "--kv"),
    "--seq-length": ("--prompt",),
    "--isl": ("--prompt", "--random-input-len"),
    "--osl": ("--tokens", "--random-output-len"),
    "--max-new-tokens": ("--tokens",),
    "--new-tokens": ("--tokens",),
    "--bs": ("--batch",),
    "--batch-sizes": ("--compare batch=1,8",),
    "--num-layers": ("--layers",),
    "--batch-size": ("--batch",),
    "--input-len": ("--prompt", "--random-input-len"),
    "--output-len": ("--tokens", "--random-output-len"),
    "--rate": ("--request-rate", "--rates"),
    "--qps": ("--request-rate",),
    "--rps": ("--request-rate",),
    "--num-requests": ("--num-prompts",),
    "--requests": ("--num-prompts",),
    "--concurrency": ("--max-concurrency",),
    "--slo": ("--slo", "--goodput ttft:200"),
    "--iterations": ("--iters", "--runs"),
    "--count": ("--runs",),
    "-n": ("--runs", "--ranks"),
    "--seconds": ("--time-budget",),
    "--timeout": ("--time-budget",),
    "--breakpoint": ('--do "break WHERE"',),
    "--break": ('--do "break WHERE"',),
    "--gpus": ("--ranks",),
    "--nranks": ("--ranks",),
    "--world-size": ("--ranks",),
    "--max-tokens": ("--tokens",),
    "--tensor-parallel": ("--tp",),
    "--tensor-parallel-size": ("--tp",),
    "--pipeline-parallel-size": ("--pp",),
    "--data-parallel-size": ("--dp",),
    "--expert-parallel": ("--ep",),
    "--enable-expert-parallel": ("--ep",),
    "--wbits": ("--w",),
    "--bits": ("--w",),
    "--dtype": ("--dtype", "--w"),
    "--precision": ("--dtype", "--w"),
    "--quantization": ("--w",),
    "--kv": ("--kv-cache-dtype",),
    "--kv-bits": ("--kv", "--kv-cache-dtype"),
    "--kv-cache-dtype": ("--kv",),
    "--verbose": ("--debug",),
}
_RECORD = "to record a trace: kbsim run TARGET --trace run.jsonl"
_RECORD_FULL = f"{_RECORD} --trace-level full"
_TARGET = "name a bench, a workload or a program's file, such as gemm; to list benches: kbsim bench list"
_PARETO = "the output and the page contain the Pareto front of the goals; to write the page: --html FILE"
_COMPARE = "this command draws nothing; to compare machines with a plot: kbsim compare TARGET -c A -c B --plot FILE"
_NETWORK = "--size and --kind describe the network; to measure the links of a machine: kbsim probe -c NAME"
#: The text to suggest if an option is missing or unknown, by command and option.
OPTION_REMEDIES = {
    ("kbsim serve capacity", "--slo"): 'write the latency targets, such as --slo "p99 ttft<200ms, p99 tpot<50ms"',
    ("kbsim calibrate", "--config"): "name the chip and the file of measured kernels: kbsim calibrate DATA.csv -c h100",
    ("kbsim ccl tune", "--algo"):
        "this command shows all algorithms; to time one algorithm: kbsim ccl run COLLECTIVE --algo NAME",
    ("kbsim ccl tune", "COLLECTIVE"): "to compare the algorithms of a collective: kbsim ccl tune all_reduce",
    ("kbsim whatif", "--plot"): _COMPARE,
    ("kbsim whatif", "--report"): "for a page of the run: kbsim run TARGET --report run.html --trace-level full",
    ("kbsim whatif", "--html"): "for a page of the run: kbsim run TARGET --report run.html --trace-level full",
    ("kbsim run", "TARGET"): _TARGET,
    ("kbsim whatif", "TARGET"): _TARGET,
    ("kbsim compare", "TARGET"): _TARGET,
    ("kbsim compare", "--model"): "name the model as the target: kbsim compare llama3-8b -c h100 -c a100",
    ("kbsim whatif", "--model"): "name the model as the target: kbsim whatif llama3-8b -c npu_server",
    ("kbsim op", "--config"): "name a chip, such as -c h100; to list chips: kbsim config list",
    ("kbsim calibrate", "DATA.csv"): "name the file of measured kernels: kbsim calibrate DATA.csv -c h100",
    ("kbsim sweep report", "--pareto"): _PARETO,
    ("kbsim sweep report", "--plot"): _PARETO,
    ("kbsim sweep run", "-c"): "name the file of the sweep as an argument; its key `machine` names the machine",
    ("kbsim sweep run", "--config"): "name the file of the sweep as an argument; its key `machine` names the machine",
    ("kbsim trace summary", "FILE"): _RECORD,
    ("kbsim trace report", "FILE"): _RECORD,
    ("kbsim trace why", "FILE"): _RECORD_FULL,
    ("kbsim program emit", "--out"): "name the file to write: --out program.json",
    ("kbsim program compile", "--out"): "name the file to write: --out program.kbp",
    ("kbsim trace align", "COUNTERS"): "name a file of counters (.csv, .json, .yaml); to compare two traces: kbsim trace diff",
    ("kbsim noc load", "-c"): _NETWORK,
    ("kbsim noc load", "--config"): _NETWORK,
}
def command_meant(group: str, name: str, known: Iterable[str]) -> str:
    """The full command that a name unknown to `group` probably means; empty if none is close."""
    synonym = COMMAND_SYNONYMS.get(group, {}).get(name.lower())
    if synonym is not None:
        return f"kbsim {synonym}" if (group, name.lower()) in TOP else f"{group} {synonym}"
    near = nearest(name, known)
    return f"{group} {near}" if near else ""


def option_meant(name: str, known: Iterable[str]) -> str:
    """The option that an unknown option of a command probably means; empty if none is close."""
    there = list(known)
    if len(name) == 3 and name[1:] in there:  # --m for -m
        return name[1:]
    for option in OPTION_SYNONYMS.get(name, ()):
        if option.partition(" ")[0] in there:
            return option
    words = [one.removeprefix("--") for one in there if one.startswith("--")]
    near = nearest(name, words)
    return f"--{near}" if near else ""


def _of_nccl_tests(path: str, option: str) -> str:
    """What to do instead of an option of nccl-tests."""
    if path != "kbsim ccl run":
        return ""
    from kernbench.cli.ccl.nccl_tests import REMEDIES

    return REMEDIES.get(option, "")


def options_of(command: Any) -> list[str]:
    """All names of a command's options."""
    return [name for param in command.params for name in (*param.opts, *param.secondary_opts) if name.startswith("-")]


def usage_problem(error: Any, arguments: Sequence[str] = ()) -> Problem:
    """A usage error of typer as a problem with the probable intention."""
    context = getattr(error, "ctx", None)
    path = "kbsim" if context is None else context.command_path
    command = None if context is None else context.command
    rule = _sentence(error.format_message())
    remedy = ""
    if type(error).__name__ == "NoSuchOption" and command is not None:
        near = option_meant(error.option_name, options_of(command)) or _setting_meant(error.option_name, command, arguments)
        rule, remedy = f"there is no option {error.option_name}", f"did you mean {near}?" if near else ""
        remedy = OPTION_REMEDIES.get((path, error.option_name), remedy)
        remedy = _of_nccl_tests(path, error.option_name) or remedy or _output_meant(path, error.option_name, command)
        remedy = remedy or _sibling_meant(error.option_name, context)
    elif (found := re.match(r"No such command '(.*?)'", rule)) and command is not None:
        known = [name for name, one in command.commands.items() if not one.hidden]
        near = _target_meant(path, found[1]) or _help_meant(path, found[1], arguments) or command_meant(path, found[1], known)
        rule = f"there is no command {shown(found[1])}" + ("" if near else f"; the commands are {', '.join(known)}")
        remedy = f"did you mean {near}?" if near else ""
    elif (found := re.match(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", rule)) and command is not None:
        rule = f"unexpected argument {shown(found[1])}"
        remedy = _place_of_extra(path, found[1], command, arguments)
    elif type(error).__name__ == "MissingParameter" and error.param is not None:
        rule = _missing(error.param, rule)
        remedy = OPTION_REMEDIES.get((path, rule.split(" ")[0]), "")
    elif found := re.match(r"Option '(.*?)' requires an argument", rule):
        return Problem(_path_of(arguments), f"{found[1]} needs a value", remedy=f"see {_path_of(arguments)} --help")
    elif found := re.match(r"Invalid value for '(.*?)'.*greater than or equal to (-?\d+)", rule):
        names = re.findall(r"'(-.*?)'", rule)
        option, given = next(((name, value) for name in names if (value := _given(name, arguments))), (names[0], ABSENT))
        number = int(given) if isinstance(given, str) and given.lstrip("-").isdigit() else given
        return Problem(path, f"it must be at least {found[2]}", option, number)
    elif (found := re.match(r"Invalid value for (.*?): '?(.*?)'? is not one of (.*)", rule)) is not None:
        choices = re.findall(r"'(.*?)'", found[3])
        near = _value_meant(found[2], choices)
        return Problem(path, f"it must be one of {', '.join(choices)}", found[1].split("'")[1], found[2], near)
    elif (found := re.match(r"Invalid value for '(.*?)'.*(integer|whole number|number|float)", rule)) is not None:
        from kernbench.config.remedies import number_meant

        option = found[1].split(" ")[-1]
        value = _given(option, arguments)
        if re.fullmatch(r"\w+(,\w+)+", value) and command is not None and "--compare" in options_of(command):
            compare = f"to compare runs: --compare {option.strip('-').replace('-', '_')}={value}"
            return Problem(path, "it must be one number", option, value, compare)
        if found[2] == "whole number":
            return Problem(path, "it must be a whole number, like 512 or 8k", option, value)
        number = number_meant(value)
        kind = "an integer" if found[2] == "integer" else "a number"
        return Problem(path, f"it must be {kind}", option, value, f"write {option} {number}" if number else "")
    return Problem(path, rule, remedy=remedy or _parameters_named(command, arguments) or f"see {path} --help")


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


def _help_meant(path: str, name: str, arguments: Sequence[str]) -> str:
    """`kbsim run --help` for `kbsim help run`; otherwise empty."""
    after = list(arguments)[1:]
    return f"kbsim {' '.join(after)} --help" if path == "kbsim" and name == "help" and after and after[0].isalpha() else ""


def _path_of(arguments: Sequence[str]) -> str:
    """The command that a command line names, for an error without a context."""
    import typer
    from typer.main import get_command

    from kernbench.cli.app import app

    path, node = "kbsim", get_command(app)
    context: Any = typer.Context(node)
    for word in arguments:
        found = node.get_command(context, word) if hasattr(node, "get_command") else None
        if found is None:
            break
        path, node = f"{path} {word}", found
    return path


def _sentence(text: str) -> str:
    """On one line, as a clause."""
    return " ".join(text.split()).replace("Value error, ", "").rstrip(".")


#: Names of values in other tools, and the names in kernbench.
VALUE_SYNONYMS = {"npu": "machine", "config": "machine", "pod": "system", "topology": "system", "pftrace": "perfetto",
                  "json": "chrome", "tensorboard": "chrome", "catapult": "chrome", "random": "uniform"}  # fmt: skip


def _value_meant(value: str, choices: list[str]) -> str:
    synonym = VALUE_SYNONYMS.get(value.lower())
    return f"did you mean {synonym}?" if synonym in choices else meant(value, choices)


def _missing(param: Any, said: str) -> str:
    """The missing argument or option and its possible values, from the message of typer."""
    choices = re.search(r"Choose from:? (.*)", said)
    can_be = f": one of {choices[1]}" if choices else ""
    if param.param_type_name == "argument":
        return f"{str(param.metavar or param.human_readable_name).strip('[].')} is missing{can_be}"
    return f"{max(param.opts, key=len)} is missing{can_be}"


def _given(option: str, arguments: Sequence[str]) -> str:
    """The value that was given for an option on a command line."""
    after = dict(zip(arguments, [*arguments[1:], ""], strict=True))
    return next((one.partition("=")[2] for one in arguments if one.startswith(f"{option}=")), after.get(option, ""))


def _output_meant(path: str, name: str, command: Any) -> str:
    """The place of the file to write, for a command that takes the file as its argument."""
    if name not in ("-o", "--out", "--output"):
        return ""
    for param in command.params:
        if param.param_type_name == "argument" and "to write" in (getattr(param, "help", "") or ""):
            return f"write the file as an argument: {path} FILE"
    return ""


def _sibling_meant(option: str, context: Any) -> str:
    """The commands of the same group that have the option; empty if there are none or many, and for commands of `kbsim`."""
    group = context.parent
    if group is None or group.parent is None:
        return ""
    siblings = [name for name, one in group.command.commands.items() if not one.hidden and option in options_of(one)]
    owners = " and ".join(f"{group.command_path} {name}" for name in siblings)
    return f"{option} is an option of {owners}" if 0 < len(siblings) <= 3 else ""


def _setting_meant(name: str, command: Any, arguments: Sequence[str]) -> str:
    """`--set dram.channels=4` for an option `--dram.channels 4`, `--set m=64` for `--m 64` of a bench; empty if the command
    takes no such values.
    """
    if "--set" not in options_of(command):
        return ""
    path, equals, value = name.lstrip("-").partition("=")
    if "." not in name:
        path = next((one for one in _bench_named(arguments)[1] if one in (path, path.lower())), "")
    value = value if equals else _given(name, arguments)
    return f"--set {path}={value if value and not value.startswith('-') else 'VALUE'}" if path else ""


def _bench_named(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The bench of the package that the command line names, with the names of its parameters; empty if there is none."""
    from kernbench.runtime_api.discovery import installed_benches

    known = installed_benches()
    return next(((one, list(known[one].params)) for one in arguments if one in known), ("", []))


def _parameters_named(command: Any, arguments: Sequence[str]) -> str:
    """All parameters of the bench that the command line names, for an option or argument that resembles none of them."""
    name, parameters = _bench_named(arguments)
    if command is None or "--set" not in options_of(command) or not parameters:
        return ""
    return f"set parameters of {name} with --set NAME=VALUE; NAME is one of {', '.join(parameters)}"


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


def _place_of_extra(path: str, text: str, command: Any, arguments: Sequence[str]) -> str:
    """The option to which a superfluous argument may belong."""
    first = text.split()[0]
    options = options_of(command)
    if first.endswith(TRACES) and "--trace" not in options:
        return f"for a trace, use kbsim trace {'why' if path.endswith('why') else 'summary'} {first}"
    if first.endswith(".csv"):
        return "for a list of shapes, use one command for each shape" + (": -m M -n N -k K" if "-k" in options else "")
    if "--compare" in options and re.fullmatch(r"[\dkM ]+", text):
        option, value = ["", "", *arguments[: list(arguments).index(first)]][-2:]
        if option.startswith("--"):
            values = ",".join([value, *text.split()])
            return f"to compare runs: --compare {option.strip('-').replace('-', '_')}={values}"
    if "-k" in options and (found := re.fullmatch(r"(\d+)x(\d+)x(\d+)", first)):
        return f"did you mean -m {found[1]} -n {found[2]} -k {found[3]}?"
    if "-k" in options and re.fullmatch(r"[\d ]+", text):
        return f"did you mean {' '.join(map(' '.join, zip(('-m', '-n', '-k'), text.split(), strict=False)))}?"
    if "--set" in options:
        sizes, parameters = first.split("x"), _bench_named(arguments)[1]
        if len(sizes) == 3 and all(map(str.isdecimal, sizes)) and {"m", "n", "k"}.issubset(parameters):
            return f"did you mean {' '.join(f'--set {one}={size}' for one, size in zip('mnk', sizes, strict=True))}?"
        if re.fullmatch(r"[A-Za-z_][\w.\[\]]*=.*", first):
            return f"did you mean --set {first}?"
        key = _given("--set", arguments)
        if key and "=" not in key:
            return f"did you mean --set {key}={first}?"
        if key and (near := _with_unit(key, first)):
            return near
    if "--config" in options:
        from kernbench.config import machine_names

        machines = [one for one in text.split() if one in machine_names() or one.endswith((".yaml", ".yml"))]
        if machines:
            given = machines if path == "kbsim compare" else machines[:1]
            return f"did you mean {' '.join(f'--config {one}' for one in given)}?"
    if "--model" in options:
        return f"did you mean --model {first}?"
    shows = {"kbsim config list": "kbsim config show", "kbsim bench list": "kbsim bench show"}
    return f"did you mean {shows[path]} {first}?" if path in shows else ""
