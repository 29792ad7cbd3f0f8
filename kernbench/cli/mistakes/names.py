"""Names of commands, options and values in other tools, and what they are called here."""

from __future__ import annotations

from collections.abc import Iterable

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
#: Names of values in other tools, and the names in kernbench.
VALUE_SYNONYMS = {"npu": "machine", "config": "machine", "pod": "system", "topology": "system", "pftrace": "perfetto",
                  "json": "chrome", "tensorboard": "chrome", "catapult": "chrome", "random": "uniform"}  # fmt: skip
_RECORD = "to record a trace: kbsim run TARGET --trace run.jsonl"
_RECORD_FULL = f"{_RECORD} --trace-level full"
_TARGET = "name a bench, a workload or a program's file, such as gemm; to list benches: kbsim bench list"
_PARETO = "the output and the page contain the Pareto front of the goals; to write the page: --report FILE"
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


def value_meant(value: str, choices: list[str]) -> str:
    """The choice of an option that a value probably means, as a question; empty if none is close."""
    synonym = VALUE_SYNONYMS.get(value.lower())
    return f"did you mean {synonym}?" if synonym in choices else meant(value, choices)
