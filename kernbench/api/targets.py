"""Machines and targets as the Python API and the commands accept them: names, files or objects."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kernbench.api.arguments import check_kind, check_params
from kernbench.cmdq import Program, load_program
from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import file_meant, nearest
from kernbench.config.file_kinds import check_file, other_kind
from kernbench.config.load import load_config, machine_names
from kernbench.config.machine import MachineConfig

if TYPE_CHECKING:
    from kernbench.analysis.case import Case
    from kernbench.config.allowed_code import AllowCode
    from kernbench.runtime_api.bench import Bench

#: A machine: the name of a preset or chip, a file, a mapping with the content of a file, or an object that `load_config`
#: returns.
Config: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | MachineConfig"
#: Overrides of values of the machine: `["dram.channels=4"]` or `{"dram.channels": 4}`.
Overrides: TypeAlias = "Mapping[str, Any] | Sequence[str]"
#: A target: the name of a bench or workload, a file (.py, .json, .yaml, .kbp), a `Program`, a `Bench`, or a program as a dict.
Target: TypeAlias = "str | os.PathLike[str] | Program | Bench | Mapping[str, Any]"

DEFAULT_MACHINE = "npu_server"  #: the machine of programs if the user names no machine; a bench names its own default
COMPILED = ".kbp"  #: the suffix of files with compiled programs
SUFFIXES = (".json", ".yaml", ".yml", COMPILED)  #: suffixes of files with programs
GRAPH = ".onnx"
PRODUCTS = ("matmul", "mm", "bmm", "linear", "gemv", "dot")  #: other names of the bench gemm
RUNNABLE = "a bench or a program is expected"


def machine_of(config: Config, overrides: Overrides = (), *, allow_code: AllowCode = ()) -> MachineConfig:
    """The machine, with the overrides applied. The function raises InputError in the same cases as `load_config`."""
    if not isinstance(config, MachineConfig):
        found: MachineConfig = load_config(config, overrides, allow_code=allow_code)
        return found
    if not overrides:
        return config
    changed: MachineConfig = load_config(config.to_dict(), overrides, allow_code=config.allowed_code)
    changed._source = config.source
    return changed


def bench_of(target: Target) -> Bench | None:
    """The bench that a target is or names; None if the target is a program. InputError for a Python file without a bench."""
    if isinstance(target, (Program, Mapping)):
        return None
    if not isinstance(target, (str, os.PathLike)):
        from kernbench.runtime_api.bench import Bench

        remedy = "to run a function, make it a bench with kernbench.bench" if callable(target) else ""
        words = "the name of a bench or workload, a file, a Program, a Bench, or a program as a dict"
        check_kind("target", target, Bench, words, remedy)
        return target
    name = os.fspath(target)
    if name.lower().endswith((*SUFFIXES, GRAPH)) or _is_workload(name):
        return None
    from kernbench.runtime_api.discovery import is_bench_target, load_bench

    return load_bench(name) if is_bench_target(name) else None


def _is_workload(name: str) -> bool:
    from kernbench.workloads.catalogue import WORKLOADS

    return name in WORKLOADS


def is_program_file(target: str) -> bool:
    """Whether a text names a program file, by its suffix, or because a file in another folder has this name."""
    return target.lower().endswith(SUFFIXES) or (
        os.sep in target and not target.partition(":")[0].endswith(".py") and os.path.isfile(target)
    )


def program_of(target: Target, config: MachineConfig) -> Program:
    """The program that a target is or names, for this machine. InputError if it does not exist or is not valid."""
    if isinstance(target, Program):
        return target
    if isinstance(target, Mapping):
        return load_program(dict(target))
    if not isinstance(target, (str, os.PathLike)):
        raise InputError(_only_programs(target.name))
    name = os.fspath(target)
    if is_program_file(name) or isinstance(target, Path):
        if name.lower().endswith(COMPILED):
            from kernbench.cmdq.compiled import load_compiled

            return load_compiled(name, config)
        return load_program(name)
    return workload_of(name, config)


def workload_of(name: str, config: MachineConfig) -> Program:
    """The program of a workload, by name. InputError for an unknown name, and if the program does not fit the machine."""
    if not _is_workload(name):
        raise InputError(_no_program(name))
    from kernbench.config.kinds import as_npu
    from kernbench.workloads.catalogue import WORKLOADS

    return WORKLOADS[name](as_npu(config))


def case_of(
    target: Target, params: Mapping[str, Any], *, allow_code: AllowCode = (), function: Callable[..., Any] | None = None
) -> Case:
    """A target with its parameters, for `compare` and `whatif`; the target may also be a model or a graph.

    `params`: the parameters of the bench; for a model the parameters of `kbsim llm`; for a graph `w`, `a` and its dynamic
    dimensions. `function`: the public function that takes the parameters; its arguments are suggested for misspelt names.
    """

    def check(known: Collection[str]) -> None:
        if function is not None:
            check_params(function, params, known)

    from kernbench.analysis.case import BenchCase, GraphCase, ModelCase, ProgramCase

    bench = bench_of(target)
    if bench is not None:
        from kernbench.runtime_api.bench import checked

        check(bench.params)
        return BenchCase(bench, checked(bench.where, bench.params, params))
    text = os.fspath(target) if isinstance(target, (str, os.PathLike)) else ""
    if text.lower().endswith(GRAPH):
        from kernbench.workloads.graphs.onnx.file import read_onnx

        bits = {"w": 8, "a": 8, **{name: value for name, value in params.items() if name in ("w", "a")}}
        dims = {name: value for name, value in params.items() if name not in bits}
        return GraphCase(read_onnx(text, dims, bits["w"], bits["a"]), bits["a"])
    if _names_a_model(text):
        from kernbench.workloads.llm.params import PARAMS, checked_params
        from kernbench.workloads.models.files import load_model

        check(PARAMS)
        return ModelCase(load_model(text), checked_params(text, params))
    check(())
    if params:
        raise InputError(_no_params(name_of(target), params))
    return ProgramCase(name_of(target), lambda config: program_of(target, config))


def _names_a_model(text: str) -> bool:
    """Whether a text names a language model: the name of a preset, or the path of a model's `config.json`."""
    from kernbench.workloads.models.files import is_model_file, is_model_folder, preset_models

    if text.lower().endswith((".json", ".yaml", ".yml")):
        return is_model_file(text)
    return is_model_folder(text) or (bool(text) and text in preset_models())


def _no_params(name: str, given: Mapping[str, Any]) -> Problem:
    rule = f"{', '.join(given)} is for benches, models and graphs, and {name} is a program"
    return Problem(name, rule, remedy="leave it out; to set a value of the machine, write its path, such as dram.channels=4")


def _only_programs(name: str) -> Problem:
    rule = "this is a bench, but a program or a workload is expected"
    return Problem(name, rule, remedy="kbsim run and kbsim step take benches")


def _no_program(name: str) -> Problem:
    from kernbench.ccl.collectives import COLLECTIVES
    from kernbench.runtime_api.discovery import installed_benches, is_bench_target
    from kernbench.workloads.catalogue import WORKLOADS
    from kernbench.workloads.models.files import is_model_folder, preset_models

    if is_bench_target(name):
        return _only_programs(name)
    if name.lower().endswith(GRAPH):
        return Problem(name, f"this is an ONNX model, but {RUNNABLE}", remedy=f"to run the model: kbsim onnx {name}")
    if name in preset_models() or is_model_folder(name):
        remedy = f'to run the model: kbsim llm --model {name}, or in Python kernbench.llm("{name}")'
        return Problem(name, f"this is a language model, but {RUNNABLE}", remedy=remedy)
    if name in COLLECTIVES:
        return Problem(name, f"this is a collective, but {RUNNABLE}", remedy=f"to run the collective: kbsim ccl run {name}")
    if name in machine_names():
        remedy = f"to run a program on this machine: kbsim run TARGET --config {name}"
        return other_kind(name, "machine", "program", remedy)
    try:
        check_file(name, "program")
    except InputError as error:
        return error.problems[0]
    if os.path.isdir(name):
        return Problem(name, f"this is a directory, but {RUNNABLE}", remedy="give the file of the program or bench in it")
    if name.lower() in PRODUCTS:
        rule = "there is no workload or bench with this name"
        remedy = "to run a kernel: kbsim run gemm; to time one matrix product on a chip: kbsim op matmul -c h100"
        return Problem(name, rule, remedy=remedy)
    model = "" if nearest(name, WORKLOADS, cutoff=0.95) else _model_meant(name, preset_models())
    if model:
        return _is_a_model(name, model)
    if name.lower().endswith(".csv"):
        rule = f"this is a table, but {RUNNABLE}"
        remedy = "for a list of shapes, run a bench once for each shape: kbsim run gemm --set m=M --set n=N --set k=K"
        return Problem(name, rule, remedy=remedy)
    benches = list(installed_benches())
    near = nearest(name, [*WORKLOADS, *benches], cutoff=0.7) or file_meant(name, (*SUFFIXES, ".py"))
    if not near and (model := nearest(name.rpartition("/")[2], preset_models(), cutoff=0.75)):
        return _is_a_model(name, model)
    remedy = f"did you mean {near}?" if near else f"a program's file ends in {', '.join(SUFFIXES)}, a bench's in .py"
    names = f"the workloads are {', '.join(sorted(WORKLOADS))}; the benches are {', '.join(benches)}"
    rule = "there is no workload or bench with this name" + ("" if near else f"; {names}")
    return Problem(name or '""', rule, remedy=remedy)


def _is_a_model(name: str, model: str) -> Problem:
    remedy = f'to run a language model: kbsim llm --model {model}, or in Python kernbench.llm("{model}")'
    return Problem(name, "there is no workload or bench with this name", remedy=remedy)


def _model_meant(name: str, models: Sequence[str]) -> str:
    """The model of a name such as `llama3`, `llama3-8b-decode` or `llama-7b`; empty for names of programs and files."""
    plain = name.lower()
    same = [one for one in models if re.sub("[-_.]", "", one) == re.sub("[-_.]", "", plain.rpartition("/")[2])]
    if same or "." in name:
        return same[0] if same else ""
    starts = [one for one in models if plain.startswith(f"{one}-")] or [one for one in models if one.startswith(f"{plain}-")]
    return min(starts, key=len) if starts and len(plain) >= 4 else ""


def name_of(target: Target) -> str:
    """The name of a target in results."""
    if isinstance(target, Mapping):
        return str(target.get("metadata", {}).get("name", "")) or "a program"
    if isinstance(target, (str, os.PathLike)):
        return os.fspath(target)
    return target.name
