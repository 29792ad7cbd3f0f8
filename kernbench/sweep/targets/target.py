"""The targets of a sweep: programs, workloads, language models, operations of chips, collectives, benches. Targets are
identified by content and can be sent to other processes.

Lowered programs are cached by content: points share a program if no table of jobs depends on the differences between the
points.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import msgspec

from kernbench.cmdq import Program, load_program
from kernbench.cmdq.shared_plans import Plans
from kernbench.common.errors import InputError, Problem
from kernbench.common.package_digest import package_digest
from kernbench.config import MachineConfig, NpuConfig
from kernbench.config.allowed_code import AllowCode
from kernbench.config.kinds import as_npu
from kernbench.sim_engine.machine import Machine
from kernbench.sweep.store.tables import hash_of_times, measured, with_bound
from kernbench.workloads.catalogue import WORKLOADS

WORKLOAD_SOURCES = ("kernbench.workloads",)
Fields = dict[str, Any]  #: of a row: status, cycles, ns, jobs, jobs_hash, metrics, error


class Target(Protocol):
    """A target, which runs on machines."""

    label: str  #: the name in tables
    native: bool  #: whether the target has no Python components, so that several runs may share a process
    default_machine: str
    notes: Sequence[str]  #: unused keys of the target's files

    def checked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters, with the given values; InputError for an unknown parameter or a value that is not allowed."""
        ...

    def fingerprint(self) -> str:
        """A hash of the target without parameters and machine."""
        ...

    def simulate(self, config: MachineConfig, params: Mapping[str, Any]) -> Fields:
        """Run the target. InputError if the target is not valid on this machine, KernelFailed if its code raised an
        exception."""
        ...

    def longest(self, config: MachineConfig, params: Mapping[str, Any]) -> tuple[str, Machine]:
        """The target on a machine at cycle 0; if the target consists of several programs, the most expensive program and its
        description."""
        ...

    def plain(self) -> dict[str, Any]:
        """The description from which `target_of` makes the target, in plain JSON types."""
        ...


def _none_allowed(label: str, params: Mapping[str, Any]) -> dict[str, Any]:
    if params:
        name, value = next(iter(params.items()))
        raise InputError(
            Problem(
                label, "a target of this kind has no parameters", name, value, "only benches and llm targets have parameters"
            )
        )
    return {}


def _ran(machine: Machine) -> Fields:
    """Run a program to its end."""
    machine.run()
    result = machine.result(entries=False)
    fields = measured(result, machine.config.freq_ghz)
    fields["metrics"] |= with_bound(result)
    fields["jobs"], fields["jobs_hash"] = hash_of_times(machine.time_table())
    return fields


class ProgramTarget:
    """A program of a file; its content is sent to other processes."""

    native = True
    default_machine = "npu_mobile"
    notes: Sequence[str] = ()

    def __init__(self, label: str, program: Program) -> None:
        self.label = label
        self.program = program
        self._plans = Plans(program)

    def checked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return _none_allowed(self.label, params)

    @cached_property
    def _content(self) -> dict[str, Any]:
        return self.program.to_dict()

    def fingerprint(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self._content)).hexdigest()

    def longest(self, config: MachineConfig, params: Mapping[str, Any]) -> tuple[str, Machine]:
        return "", self._machine(config)

    def _machine(self, config: MachineConfig) -> Machine:
        plan = self._plans.of(config) if isinstance(config, NpuConfig) else None
        return Machine(config, self.program, plan=plan)

    def simulate(self, config: MachineConfig, params: Mapping[str, Any]) -> Fields:
        return _ran(self._machine(config))

    def plain(self) -> dict[str, Any]:
        return {"program": self._content, "label": self.label}


class WorkloadTarget:
    """A workload of the package: a program that is generated for each machine."""

    native = True
    default_machine = "npu_mobile"
    notes: Sequence[str] = ()

    def __init__(self, label: str) -> None:
        self.label = label

    def checked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return _none_allowed(self.label, params)

    def fingerprint(self) -> str:
        return f"workload {self.label} {package_digest(*WORKLOAD_SOURCES)}"

    def longest(self, config: MachineConfig, params: Mapping[str, Any]) -> tuple[str, Machine]:
        return "", self._machine(config)

    def _machine(self, config: MachineConfig) -> Machine:
        return Machine(config, WORKLOADS[self.label](as_npu(config)))

    def simulate(self, config: MachineConfig, params: Mapping[str, Any]) -> Fields:
        return _ran(self._machine(config))

    def plain(self) -> dict[str, Any]:
        return {"workload": self.label}


#: The parser of each kind of target, by the key of the kind.
_PLAIN: dict[str, dict[str, type]] = {
    "program": {"program": dict, "label": str},
    "workload": {"workload": str},
    "llm": {"llm": str, "label": str, "params": dict},
    "op": {"op": str, "label": str, "params": dict},
    "ccl": {"ccl": str, "label": str, "params": dict, "verify": bool},
    "serve": {"serve": str, "label": str, "params": dict},
    "bench": {"bench": str, "label": str, "params": dict, "verify": bool},
}


def target_of(plain: Mapping[str, Any], allow_code: AllowCode = ()) -> Target:
    """A target from its plain description.

    InputError if the description is not valid, because it may come from a store or a message, and for a bench's file that is
    not allowed.
    """
    kind = next((kind for kind in _PLAIN if kind in plain), None)
    if kind is None:
        raise InputError(Problem("target", f"it must have one of the keys {', '.join(_PLAIN)}"))
    for name, wanted in _PLAIN[kind].items():
        if not isinstance(plain.get(name), wanted):
            raise InputError(Problem(f"target of a {kind}", f"it must be of type {wanted.__name__}", name, plain.get(name)))
    if kind == "program":
        return ProgramTarget(plain["label"], load_program(plain["program"]))
    if kind == "workload":
        if plain["workload"] not in WORKLOADS:
            raise InputError(Problem("target", "there is no such workload", "workload", plain["workload"]))
        return WorkloadTarget(plain["workload"])
    # Modules of targets are imported only if a target needs them: importing all modules takes longer than a short sweep.
    if kind == "llm":
        from kernbench.sweep.targets.llm import LlmTarget

        return LlmTarget(plain["label"], plain["llm"], plain["params"])
    if kind == "serve":
        from kernbench.sweep.targets.serve import ServeTarget

        return ServeTarget(plain["label"], plain["serve"], plain["params"])
    if kind == "op":
        from kernbench.sweep.targets.chip import OpTarget

        return OpTarget(plain["label"], plain["op"], plain["params"])
    if kind == "ccl":
        from kernbench.sweep.targets.ccl import CclTarget

        return CclTarget(plain["label"], plain["ccl"], plain["params"], plain["verify"])
    from kernbench.sweep.targets.bench import BenchTarget

    return BenchTarget(plain["label"], plain["bench"], plain["params"], plain["verify"], allow_code)
