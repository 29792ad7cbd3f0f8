"""Parameters of a run of a language model by name, for sweeps, comparisons and `kb.llm`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.config import MachineConfig
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.steps import PHASES, Job, LlmPrograms
from kernbench.workloads.models.precision import uniform_precision
from kernbench.workloads.parallel.layout import Layout
from kernbench.workloads.parallel.programs import ParallelPrograms
from kernbench.workloads.parallel.run import job_programs

#: The default of each parameter, and the smallest value of a number. `kbsim llm` has options with the same names.
PARAMS: dict[str, tuple[Any, int]] = {
    "phase": ("both", 0), "prompt": (128, 1), "tokens": (16, 1), "batch": (1, 1), "layers": (None, 1),
    "w": (None, 1), "a": (None, 1), "kv": (None, 1), "page": (0, 0), "tp": (1, 1),
    "pp": (1, 1), "dp": (1, 1), "micro_batches": (0, 0), "cp": (1, 1),
}  # fmt: skip
PHASE_NAMES = ("both", *PHASES)


def checked_params(where: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters; those that are not given have their defaults. Raises InputError for an unknown name or a wrong value."""
    values = {name: default for name, (default, _) in PARAMS.items()} | dict(given)
    for name, value in values.items():
        if rule := _broken(name, value):
            raise InputError(Problem(where, rule, name, value))
    return values


def _broken(name: str, value: Any) -> str:
    """The rule that a parameter breaks; an empty text if it breaks none."""
    if name not in PARAMS:
        return f"there is no such parameter; there are {', '.join(PARAMS)}"
    if name == "phase":
        return "" if value in PHASE_NAMES else f"it must be one of {', '.join(PHASE_NAMES)}"
    default, least = PARAMS[name]
    if value is None and default is None:
        return ""
    return "" if type(value) is int and value >= least else f"it must be an integer of at least {least}"


def llm_programs(model: Model, config: MachineConfig, params: Mapping[str, Any]) -> LlmPrograms | ParallelPrograms:
    """The programs of a run with checked parameters. Raises InputError if the model does not fit the machine."""
    precision = uniform_precision(model.stated, w=params["w"], a=params["a"], kv=params["kv"])
    numbers = {name: params[name] for name in ("prompt", "tokens", "batch", "layers")}
    phases = PHASES if params["phase"] == "both" else (params["phase"],)
    job = Job(**numbers, phases=phases, page_tokens=params["page"], shards=params["tp"])
    layout = Layout(params["tp"], params["pp"], params["dp"], params["micro_batches"], params["cp"])
    return job_programs(model, precision, config, job, layout)  # type: ignore[arg-type]  # one of the two kinds
