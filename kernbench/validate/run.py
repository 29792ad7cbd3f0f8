"""Runs suites in sequence."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np

from kernbench.cmdq import Program
from kernbench.cmdq.columns import Column
from kernbench.cmdq.footprint import moved_bytes
from kernbench.cmdq.lower import KINDS, resource_tables
from kernbench.cmdq.plan import Plan, plan_program
from kernbench.common.errors import InputError, InternalError, Problem, shown
from kernbench.common.spelling import meant
from kernbench.common.units import ceil_div
from kernbench.config import NpuConfig, SystemConfig
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.recording.options import TraceOptions
from kernbench.sim_engine.result import Result
from kernbench.trace.writer import TraceFile
from kernbench.validate.suite import Figure, Row, Skipped, SuiteData, read_suite_data
from kernbench_core.numbers import EngineType

#: Suites by name: a suite's module has `rows(data, runner)`, and its published figures are in `data/NAME.yaml`.
SUITES: dict[str, str] = {
    "systolic": "kernbench.validate.suites.systolic",
    "scalesim": "kernbench.validate.suites.scalesim",
    "onnxim": "kernbench.validate.suites.onnxim",
    "tensor": "kernbench.validate.suites.tensor",
    "vector": "kernbench.validate.suites.vector",
    "transfers": "kernbench.validate.suites.transfers",
    "dram": "kernbench.validate.suites.dram",
    "noc": "kernbench.validate.suites.noc",
    "noc_mesh": "kernbench.validate.suites.noc_mesh",
    "noc_traces": "kernbench.validate.suites.noc_traces",
    "collectives": "kernbench.validate.suites.collectives",
    "roofline": "kernbench.validate.suites.roofline",
    "plans": "kernbench.validate.suites.plans",
    "chips": "kernbench.validate.suites.chips",
    "caches": "kernbench.validate.suites.caches",
    "serving": "kernbench.validate.suites.serving",
    "energy": "kernbench.validate.suites.energy",
    "energy_parts": "kernbench.validate.suites.energy_parts",
}


def suite_module(name: str) -> ModuleType:
    """The module of a suite."""
    return import_module(SUITES[name])


def chosen(names: list[str]) -> list[str]:
    """The suites with these names, or all suites if no name is given, in their own order. InputError for an unknown name."""
    for name in names:
        if name not in SUITES:
            near = "to run all suites, give no name: kbsim validate" if name.lower() == "all" else meant(name, SUITES)
            rule = f"there is no suite {shown(name)}" + ("" if near else f"; the suites are {', '.join(SUITES)}")
            raise InputError(Problem("kbsim validate", rule, remedy=near))
    return [name for name in SUITES if not names or name in names]


ENGINES = ("dma", "te", "ve", "noc", "dram")  #: engines whose time can be changed on purpose (`plant`)


@dataclass(frozen=True, slots=True)
class Options:
    """The options for all suites."""

    quick: bool = False  #: fewer rows, but of all kinds
    scalesim: Path | None = None  #: the Python interpreter of an environment that has SCALE-Sim
    topologies: Path | None = None  #: the folder of SCALE-Sim's topology files
    traces: Path | None = None  #: the folder of recorded NoC traces
    chip_tables: Path | None = None  #: the folder of measured tables of chips
    ramulator: Path | None = None  #: the folder of Ramulator 2's figures
    booksim: Path | None = None  #: the folder of BookSim2's figures


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs programs for suites. `plant`: for each engine, the factor by which its time is made wrong; only used to test that a
    suite notices the error."""

    options: Options = Options()
    plant: Mapping[str, Fraction] = field(default_factory=dict)

    def machine(self, program: Program, config: NpuConfig | SystemConfig) -> Machine:
        """The machine with the planted errors, at cycle 0."""
        plan = plan_program(program, config)
        return Machine(config, program, plan=planted(plan, self.plant) if self.plant else plan)

    def run(self, program: Program, config: NpuConfig | SystemConfig) -> Result:
        """Run a program to its end. InternalError if it does not end."""
        return self._ran(program, config).result()

    def trace(self, program: Program, config: NpuConfig | SystemConfig, path: Path) -> None:
        """Write a trace of level `full` of a run to its end. InternalError if the run does not end."""
        machine = self.machine(program, config)
        with TraceFile(path) as file:
            tracing = machine.trace(file, TraceOptions("full"))
            machine.run()
            tracing.close()
        self._check(machine)

    def cycles(self, program: Program, config: NpuConfig | SystemConfig) -> int:
        """The cycle in which the program ends. This is faster than `run`, which also builds the result."""
        return self._ran(program, config).cycle

    def _ran(self, program: Program, config: NpuConfig | SystemConfig) -> Machine:
        machine = self.machine(program, config)
        machine.run()
        self._check(machine)
        return machine

    @staticmethod
    def _check(machine: Machine) -> None:
        if machine.status != "done":
            raise InternalError(f"validation: {machine.program.name} ends {machine.status}")


def planted(plan: Plan, plant: Mapping[str, Fraction]) -> Plan:
    """The plan with engines that take `factor` times as long as they should. The factor applies to jobs of te and ve, bytes of
    dma, capacities and bank times of dram, and capacities and latencies of noc."""
    machine, program = dict(plan.machine), dict(plan.program)
    slower = [plant.get("dram", 1) if k < plan.channels else plant.get("noc", 1) for k in range(len(plan.capacities))]
    capacities = tuple(capacity / Fraction(factor) for capacity, factor in zip(plan.capacities, slower, strict=True))
    machine |= resource_tables(capacities)
    if "dram" in plant and machine.get("devices") is not None:
        machine["devices"] = _slower_devices(machine["devices"], plant["dram"])
    if "dram" in plant and machine.get("controllers") is not None:
        machine["controllers"] = slower_controllers(machine["controllers"], plant["dram"])
    if "noc" in plant:
        machine["route_latency"] = _scaled(machine["route_latency"], plant["noc"])
    if "dma" in plant:
        program["dma"] = _more_bytes(program["dma"], plan, plant["dma"])
    for kind in ("te", "ve"):
        if kind in plant:
            program["compute"] = _longer(program["compute"], plan, KINDS[kind], plant[kind])
    return msgspec.structs.replace(plan, machine=machine, program=program, capacities=capacities, _cached={})


def _slower_devices(devices: dict[str, Any], factor: Fraction) -> dict[str, Any]:
    """All times of DRAM banks multiplied and rounded up to whole cycles; the refresh interval is unchanged."""
    rules = devices["rules"].copy()
    rules[:, 3] = _scaled(rules[:, 3], factor)
    times = {name: ceil_div(devices[name] * factor, 1) for name in ("burst_cycles", "to_read", "to_write", "faw")}
    return {**devices, **times, "rules": rules}


def slower_controllers(table: dict[str, Any], factor: Fraction) -> dict[str, Any]:
    """All times of a controller's device multiplied and rounded up to whole clocks; the refresh interval is unchanged."""
    rules = table["rules"].copy()
    rules[:, 4] = _scaled(rules[:, 4], factor)
    times = {name: ceil_div(table[name] * factor, 1) for name in ("burst", "to_read", "to_write", "faw")}
    return {**table, **times, "rules": rules}


def _scaled(values: Column, factor: Fraction) -> Column:
    return np.array([ceil_div(value * factor, 1) for value in values.tolist()], dtype=np.int64)


def _longer(jobs: dict[str, Any], plan: Plan, kind: int, factor: Fraction) -> dict[str, Any]:
    """Jobs of one kind of engine take `factor` times as long. If jobs overlap, they hold the array in the added cycles."""
    of_kind = np.array([engine["kind"] == kind for engine in plan.machine["compute"]])[jobs["engine"]]
    total = jobs["init"] + jobs["body"] + jobs["finalize"]
    longer = "body" if plan.pe.te.overlaps_jobs and kind == EngineType.TE else "finalize"
    return {**jobs, longer: jobs[longer] + np.where(of_kind, _scaled(total, factor) - total, 0)}


def _more_bytes(jobs: dict[str, Any], plan: Plan, factor: Fraction) -> dict[str, Any]:
    """Transfers from and to memory move `factor` times as many bytes, limited by the size of the scratchpad."""
    spm = plan.pe.spm
    room = (spm.num_banks * spm.bank_size_bytes - jobs["spm_addr"]) // jobs["rows"] - 2 * plan.pe.dma.alignment_bytes
    wanted = np.minimum(_scaled(jobs["row_bytes"], factor), np.maximum(room, jobs["row_bytes"]))
    row_bytes = np.where(jobs["peer"] < 0, wanted, jobs["row_bytes"])
    stride = np.maximum(jobs["stride"], row_bytes)
    align = np.array([memory["align"] for memory in plan.machine["memories"]])[jobs["memory"]]
    nbytes = jobs["nbytes"].copy()
    for one in np.unique(align).tolist():
        rows = np.flatnonzero(align == one)
        nbytes[rows] = moved_bytes(jobs["dram_addr"][rows], jobs["rows"][rows], row_bytes[rows], stride[rows], one)
    return {**jobs, "row_bytes": row_bytes, "stride": stride, "nbytes": nbytes}


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """The result of a suite."""

    data: SuiteData
    rows: list[Row]
    skipped: str = ""  #: why there are no rows
    figures: Sequence[Figure] = field(default_factory=list)
    seconds: float = 0.0  #: of wall time; not compared
    details: Sequence[Any] = field(default_factory=list)  #: more details than the rows have, if the suite has `results`
    left_out: str = ""  #: which rows are missing, and why

    @property
    def failed(self) -> list[Row]:
        """The rows with errors that are not allowed."""
        return [row for row in self.rows if row.verdict == "fail"]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        sources = {name: {k: getattr(source, k) for k in source.__slots__} for name, source in self.data.sources.items()}
        return {
            "suite": self.data.suite,
            "title": self.data.title,
            "about": self.data.about,
            "sources": sources,
            "skipped": self.skipped or None,
            "rows": [row.to_dict() for row in self.rows],
            **({"left_out": self.left_out} if self.left_out else {}),
        } | ({"tables": [one.to_dict() for one in self.details]} if self.details else {})


def run_suites(names: Sequence[str], runner: Runner) -> Iterator[SuiteRun]:
    """Run the suites, and yield each when it is complete."""
    for name in names:
        yield run_suite(name, runner)


def run_suite(name: str, runner: Runner) -> SuiteRun:
    """Run one suite. InternalError if it has no rows, or a row without a source."""
    data, module, begin = read_suite_data(name), suite_module(name), time.monotonic()
    try:
        rows = list(module.rows(data, runner))
    except Skipped as reason:
        return SuiteRun(data, [], str(reason))
    wrong = [row.case for row in rows if row.source not in data.sources]
    if wrong or not rows:
        raise InternalError(f"validation: suite {name} has " + (f"rows without a source: {wrong[0]}" if wrong else "no rows"))
    draw = getattr(module, "figures", None)
    more = getattr(module, "results", None)
    details = [] if more is None else more(data, runner)
    missing = getattr(module, "left_out", None)
    left_out = "" if missing is None else missing(data, runner)
    figures = [] if draw is None else draw(data, rows)
    return SuiteRun(data, rows, "", figures, time.monotonic() - begin, details, left_out)
