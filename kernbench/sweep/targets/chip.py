"""Operations and language models on real chips as targets: kernels under a runtime profile."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.package_digest import package_digest
from kernbench.common.spelling import meant
from kernbench.common.units import plain_number
from kernbench.config import MachineConfig, NpuConfig
from kernbench.config.machine import plain_value
from kernbench.config.runtime import load_runtime, runtime_names
from kernbench.sim_engine.machine import Machine
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.params import PHASE_NAMES
from kernbench.workloads.llm.steps import PHASES
from kernbench.workloads.ops.named import DEFAULTS, check_name, operation_of
from kernbench.workloads.ops.operation import Product
from kernbench.workloads.ops.timing import OperationTimer
from kernbench.workloads.serving.board import Spelling
from kernbench.workloads.serving.generation import generate
from kernbench.workloads.serving.machine_step import bits_on_chip, cause_text, check_bits_on_chip

SOURCES = ("kernbench.workloads",)
#: The default of each parameter of a model's run, and the smallest value of a number. `kbsim llm --runtime` has these options.
MODEL_PARAMS: dict[str, tuple[Any, int]] = {
    "runtime": ("vllm", 0), "phase": ("both", 0), "prompt": (128, 1), "tokens": (16, 1), "batch": (1, 1), "w": (None, 1),
    "a": (None, 1), "kv": (None, 1), "tp": (1, 1),
}  # fmt: skip


class OpTarget:
    """One operation of a chip, with the parameters of `kbsim op`."""

    native = True
    default_machine = "a100"
    notes: Sequence[str] = ()

    def __init__(self, label: str, name: str, params: Mapping[str, Any]) -> None:
        self.label = label
        self.name = name
        self.given = dict(params)
        check_name(name, label, "op")

    def checked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        values = DEFAULTS | {"runtime": "none"} | self.given | dict(params)
        for name, value in values.items():
            if name not in DEFAULTS and name != "runtime":
                rule = f"there is no such parameter; there are {', '.join((*DEFAULTS, 'runtime'))}"
                raise InputError(Problem(self.label, rule, name, value, meant(name, DEFAULTS)))
        _check_profile(self.label, values["runtime"], self.given)
        operation_of(self.name, {name: values[name] for name in DEFAULTS}, self.label)
        return values

    def fingerprint(self) -> str:
        return f"op {self.name} {package_digest(*SOURCES)} {profiles_digest(self.given)}"

    def longest(self, config: MachineConfig, params: Mapping[str, Any]) -> tuple[str, Machine]:
        raise without_program(self.label)

    def simulate(self, config: MachineConfig, params: Mapping[str, Any]) -> dict[str, Any]:
        values = self.checked(params)
        chip = _chip(self.label, config)
        found = operation_of(self.name, {name: values[name] for name in DEFAULTS}, self.label)
        timer = OperationTimer(chip, load_runtime(values["runtime"]))
        timed, causes = timer.time(found), timer.causes(found)
        metrics: dict[str, Any] = {"bound_by": cause_text(found, max(causes, key=lambda part: causes[part]))}
        if isinstance(found, Product):
            metrics["tflop_per_s"] = 2 * found.macs / timed.ns / 1e3
        nbytes = timed.kernel.nbytes
        return _fields(chip, timed.ns, 1, metrics | {"dram_bytes": round(nbytes)}, repr(timed.causes))

    def plain(self) -> dict[str, Any]:
        return {"op": self.name, "label": self.label, "params": self.given}


def checked_model_params(where: str, own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of a model's run under a runtime profile: those of the point, else `own` of the target, else the defaults.

    Raises InputError for an unknown name or a wrong value.
    """
    values = {name: default for name, (default, _) in MODEL_PARAMS.items()} | dict(own) | dict(given)
    for name, value in values.items():
        if name not in MODEL_PARAMS:
            rule = f"with a runtime profile, a run has only the parameters {', '.join(MODEL_PARAMS)}"
            raise InputError(Problem(where, rule, name, value, "leave it out, or leave out runtime"))
        if name == "phase" and value not in PHASE_NAMES:
            raise InputError(Problem(where, f"it must be one of {', '.join(PHASE_NAMES)}", name, value))
        default, least = MODEL_PARAMS[name]
        number = name not in ("phase", "runtime") and not (value is None and default is None)
        if number and (type(value) is not int or value < least):
            raise InputError(Problem(where, f"it must be an integer of at least {least}", name, value))
    _check_profile(where, values["runtime"], own)
    check_bits_on_chip(where, values["a"], values["kv"], ("a", "kv"))
    return values


def generated(label: str, model: Model, config: MachineConfig, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a row: a prompt and the decode steps after it on a chip."""
    chip = _chip(label, config)
    bits = bits_on_chip(model, values["w"], values["a"], values["kv"])
    phases = PHASES if values["phase"] == "both" else (values["phase"],)
    made = generate(
        model, chip, load_runtime(values["runtime"]), phases=phases, spelling=Spelling(label, "{name}: {value}"),
        **{name: values[name] for name in ("prompt", "tokens", "batch", "tp")}, **bits,
    )  # fmt: skip
    ns = sum(phase.ns for phase in made.phases)
    shares: dict[str, float] = {}
    for phase in made.phases:
        for op in phase.operations:
            shares[op.limit] = shares.get(op.limit, 0.0) + phase.steps * op.count * op.ns
    metrics: dict[str, Any] = {"tokens_per_s": made.tokens_per_s, "bound_by": max(shares, key=lambda name: shares[name])}
    metrics |= {name: found for name, found in (("ttft_ns", made.ttft_ns), ("tpot_ns", made.tpot_ns)) if found is not None}
    launches = sum(phase.steps * sum(op.count for op in phase.operations) for phase in made.phases)
    return _fields(chip, ns, launches, metrics, repr([phase.ns for phase in made.phases]))


def profiles_digest(given: Mapping[str, Any]) -> str:
    """A hash of all runtime profiles by name, and of the file that the parameter `runtime` of a target names."""
    digest = hashlib.sha256()
    names = [*runtime_names(), *([given["runtime"]] if _is_file(given.get("runtime")) else [])]
    for name in names:
        digest.update(f"{name} {plain_value(load_runtime(name), whole=True)!r}\n".encode())
    return digest.hexdigest()


def _is_file(name: Any) -> bool:
    return isinstance(name, str) and name.endswith((".yaml", ".yml", ".json"))


def _check_profile(where: str, name: Any, given: Mapping[str, Any]) -> None:
    """InputError if there is no such runtime profile. Only the target itself may name a file, because the file's content is
    part of the target.
    """
    if not isinstance(name, str):
        raise InputError(Problem(where, "it must be the name of a runtime profile", "runtime", name))
    if _is_file(name) and name != given.get("runtime"):
        rule = "an axis of runtime profiles takes names, not files"
        raise InputError(Problem(where, rule, "runtime", name, "name the file in the params of a target"))
    load_runtime(name)


def _chip(where: str, config: MachineConfig) -> NpuConfig:
    if isinstance(config, NpuConfig) and config.chip is not None:
        return config
    rule = "a runtime profile times the kernels of a chip, and this machine is no chip"
    raise InputError(Problem(where, rule, "machine", getattr(config, "source", ""), "take a100, or another real chip"))


def without_program(label: str) -> InputError:
    """The error about a target whose run is no single program."""
    rule = "a run under a runtime profile consists of kernels that are timed one by one, and no single program is the result"
    return InputError(Problem(label, rule, remedy="show the kernels: kbsim llm --runtime, or kbsim op"))


def _fields(chip: NpuConfig, ns: float, jobs: int, metrics: Mapping[str, Any], times: str) -> dict[str, Any]:
    exact = Fraction(round(ns * 1000), 1000)
    return {
        "status": "done", "cycles": round(exact * chip.freq_ghz), "ns": plain_number(exact), "jobs": jobs,
        "jobs_hash": hashlib.sha256(times.encode()).hexdigest(), "metrics": dict(metrics), "error": "",
    }  # fmt: skip
