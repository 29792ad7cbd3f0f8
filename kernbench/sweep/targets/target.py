"""The targets of a sweep: programs, workloads, language models, collectives, benches. All are told by content and can be sent.

Lowered programs are cached by content: points share one if no table of jobs depends on their differences.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import msgspec

from kernbench.cmdq import Program, load_program
from kernbench.cmdq.lower import lower_machine
from kernbench.cmdq.plan import Plan, plan_npu
from kernbench.common.errors import InputError, Problem
from kernbench.config import MachineConfig, NpuConfig
from kernbench.config.allowed_code import AllowCode, AllowedCode
from kernbench.config.kinds import as_npu
from kernbench.runtime_api.bench import Bench, checked
from kernbench.runtime_api.discovery import bench_file, load_bench
from kernbench.runtime_api.report import report
from kernbench.sim_engine.engine import GraphEngine, KernelFailed
from kernbench.sim_engine.machine import Machine
from kernbench.sweep.sources import package_digest, source_digest
from kernbench.sweep.store.tables import hash_of_entries, hash_of_records, measured, with_bound
from kernbench.sweep.targets.ccl import CclTarget
from kernbench.sweep.targets.llm import LlmTarget
from kernbench.sweep.targets.serve import ServeTarget
from kernbench.workloads.catalogue import WORKLOADS

#: The sections that a program is checked against and lowered for; clock, allocation, control, limits and energy are not.
SECTIONS = ("dma", "dram", "noc", "spm", "te", "ve", "kv_layouts")
MOST_KEPT = 8


class Plans:
    """The plans of one program, which must not grow any more. Threads may share them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._lock = threading.Lock()
        self._kept: dict[tuple[int, ...], tuple[NpuConfig, Plan]] = {}  # keeps the machine alive whose sections have these ids

    def of(self, config: NpuConfig) -> Plan:
        """What `plan_npu` gives. A section is known again as the same object, as `Machines` hands them out."""
        key = tuple(id(getattr(config, name)) for name in SECTIONS)
        with self._lock:
            known = self._kept.get(key)
        if known is not None:
            return replace(known[1], pe=config, machine=lower_machine(config))
        plan = plan_npu(self.program, config)
        with self._lock:
            while len(self._kept) >= MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = config, plan
        return plan


SPILL = 256 << 20  # [B] size from which the op log of a bench is on disk
WORKLOAD_SOURCES = ("kernbench.workloads",)
Fields = dict[str, Any]  #: of a row: status, cycles, ns, jobs, jobs_hash, metrics, error


class Target(Protocol):
    """Something to run on machines."""

    label: str  #: how tables call it
    native: bool  #: it has no Python components: its runs may share a process
    default_machine: str

    def checked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """All its parameters, with these among them; InputError for one that it has not or does not allow."""
        ...

    def fingerprint(self) -> str:
        """A hash of what it is, without parameters and machine."""
        ...

    def simulate(self, config: MachineConfig, params: Mapping[str, Any]) -> Fields:
        """Run it. InputError if it is not valid on this machine, KernelFailed where its code raised."""
        ...

    def longest(self, config: MachineConfig, params: Mapping[str, Any]) -> tuple[str, Machine]:
        """It on a machine, at cycle 0; where it is many programs the one that costs most, and in words which that is."""
        ...

    def plain(self) -> dict[str, Any]:
        """What `target_of` makes it from, in plain JSON types."""
        ...


def _none_allowed(label: str, params: Mapping[str, Any]) -> dict[str, Any]:
    if params:
        name, value = next(iter(params.items()))
        raise InputError(Problem(label, "it has no parameters", name, value, "benches and llm targets have some"))
    return {}


def _ran(machine: Machine) -> Fields:
    """Run a program to its end."""
    machine.run()
    result = machine.result()
    fields = measured(result, machine.config.freq_ghz)
    fields["metrics"] |= with_bound(result)
    fields["jobs"], fields["jobs_hash"] = hash_of_entries(result.entries)
    return fields


class ProgramTarget:
    """A program of a file; it travels by content."""

    native = True
    default_machine = "npu_mobile"

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
    """A workload of the package: a program that is made for each machine."""

    native = True
    default_machine = "npu_mobile"

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


class BenchTarget:
    """A bench, by its name or file: Python that every process imports for itself."""

    native = False

    def __init__(
        self, label: str, where: str, params: Mapping[str, Any], verify: bool = False, allow_code: AllowCode = ()
    ) -> None:
        """InputError also for a file that `allow_code` does not name: who names it is the spec, or the store, of a sweep."""
        self.label = label
        self.where = where
        self.given = dict(params)
        self.verify = verify
        if (file := bench_file(where)) is not None:
            AllowedCode.of(allow_code).check_file(file, self._refused)
        self.bench: Bench = load_bench(where)
        self.default_machine = self.bench.machine

    def _refused(self, rule: str, remedy: str) -> InputError:
        return InputError(Problem(self.label, rule, "bench", self.where, remedy))

    def checked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return checked(self.bench.where, self.bench.params, {**self.given, **params})

    def fingerprint(self) -> str:
        verified = " verified" if self.verify else ""
        return f"bench {self.bench.name} {source_digest(Path(self.bench.source))}{verified}"

    def longest(self, config: MachineConfig, params: Mapping[str, Any]) -> tuple[str, Machine]:
        return "", GraphEngine(config, op_log=False).prepare(self.bench, **self.checked(params))

    def simulate(self, config: MachineConfig, params: Mapping[str, Any]) -> Fields:
        engine = GraphEngine(config, limit_bytes=SPILL)
        engine.prepare(self.bench, **self.checked(params))
        engine.machine.run()
        error = ""
        try:
            engine.check()
        except KernelFailed as failure:
            error = failure.traceback.rstrip("\n").split("\n")[-1]
        found = report(engine, verify=self.verify)
        fields = measured(found.result, config.freq_ghz)  # type: ignore[attr-defined]
        fields["metrics"] |= {"bound": found.bound.cycles, "bound_by": found.bound.name}
        if found.verification is not None:
            fields["metrics"]["verified"] = found.verification.ok
            if not found.verification.ok:
                fields |= {"status": "failed", "error": str(found.verification.failures[0])}
        if error:
            fields["error"] = error
        assert engine.op_log is not None
        fields["jobs"], fields["jobs_hash"] = hash_of_records(engine.op_log)
        return fields

    def plain(self) -> dict[str, Any]:
        return {"bench": self.where, "label": self.label, "params": self.given, "verify": self.verify}


#: The parser of each kind of target, by the key that identifies it.
_PLAIN: dict[str, dict[str, type]] = {
    "program": {"program": dict, "label": str},
    "workload": {"workload": str},
    "llm": {"llm": str, "label": str, "params": dict},
    "ccl": {"ccl": str, "label": str, "params": dict, "verify": bool},
    "serve": {"serve": str, "label": str, "params": dict},
    "bench": {"bench": str, "label": str, "params": dict, "verify": bool},
}


def target_of(plain: Mapping[str, Any], allow_code: AllowCode = ()) -> Target:
    """A target from its plain form.

    InputError if it is none, as stores and messages are data, and for a bench's file that is not allowed.
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
    if kind == "llm":
        return LlmTarget(plain["label"], plain["llm"], plain["params"])
    if kind == "serve":
        return ServeTarget(plain["label"], plain["serve"], plain["params"])
    if kind == "ccl":
        return CclTarget(plain["label"], plain["ccl"], plain["params"], plain["verify"])
    return BenchTarget(plain["label"], plain["bench"], plain["params"], plain["verify"], allow_code)
