"""A whole question: a model on a machine, an engine, and a workload."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernbench.cmdq.program_cache import folder
from kernbench.common.errors import InputError, Problem
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig
from kernbench.workloads.llm.model import Model
from kernbench.workloads.routing import EVEN, Routing
from kernbench.workloads.serving.continuous import ContinuousBatching
from kernbench.workloads.serving.machine_step import MachineStep, machine_step
from kernbench.workloads.serving.options import DEFAULT_BLOCK, EngineOptions
from kernbench.workloads.serving.result import ServingResult
from kernbench.workloads.serving.simulate import simulate
from kernbench.workloads.serving.step_time import ExactTimer, MachineTimer, TableTimer
from kernbench.workloads.serving.step_trace import StepTrace
from kernbench.workloads.serving.table_store import TableStore
from kernbench.workloads.serving.workload import Workload

_LONGEST = 8192  #: [token] of max_model_len where the model's file does not say it


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What `kbsim serve` runs. `engine`: options of `EngineOptions` that are not the default.

    `num_gpu_blocks`, `max_model_len`: by default from the memory and the model. `exact`: every distinct step is simulated,
    without a table. `sample`: steps of the run that are simulated to measure the table's error.
    """

    model: Model
    machine: NpuConfig | SystemConfig
    workload: Workload
    engine: dict[str, Any] = field(default_factory=dict)
    num_gpu_blocks: int | None = None
    max_model_len: int | None = None
    gpu_memory_utilization: float = 0.9
    max_concurrency: int | None = None
    w: int | None = None
    a: int | None = None
    kv: int | None = None
    tp: int = 1
    ep: bool = False
    layers: int | None = None
    routing: Routing = EVEN
    runtime: str | None = None
    exact: bool = False
    sample: int = 8
    tables: Path | None = None  #: folder in which tables are kept; None: where programs are kept

    def step(self) -> MachineStep:
        """What times a step."""
        return machine_step(
            self.model, self.machine, w=self.w, a=self.a, kv=self.kv, tp=self.tp, layers=self.layers, routing=self.routing,
            ep=self.ep, runtime=self.runtime,
        )  # fmt: skip

    def engine_options(self, step: MachineStep) -> EngineOptions:
        """The options of the engine; InputError if the KV cache does not hold a request."""
        size = self.engine.get("block_size", DEFAULT_BLOCK)
        blocks = self.num_gpu_blocks
        if blocks is None:
            if not 0 < self.gpu_memory_utilization <= 1:
                rule = "it must be more than 0 and at most 1"
                raise InputError(Problem("engine", rule, "gpu_memory_utilization", self.gpu_memory_utilization))
            room = step.memory_bytes() * self.gpu_memory_utilization - step.weight_bytes()
            if not step.token_bytes():
                raise InputError(Problem("engine", "the model has no KV cache", "model", self.model.name))
            blocks = int(room // (size * step.token_bytes()))
            if blocks < 2:
                share, memory = self.gpu_memory_utilization, step.memory_bytes()
                rule = f"{self.model.name} takes {step.weight_bytes()} bytes, and {share:g} of {memory} leave no room for KV"
                remedy = "take fewer bits (--w), more PEs (--tp) or memory"
                raise InputError(Problem(self.machine.source, rule, remedy=remedy))
        longest = self.max_model_len or min(self.model.positions or _LONGEST, (blocks - 1) * size)
        return EngineOptions(num_gpu_blocks=blocks, max_model_len=longest, **self.engine)

    def timer(self, step: MachineStep) -> MachineTimer:
        """Exact, or with the table of before."""
        if self.exact:
            return ExactTimer(step, step.capture_sizes)
        kept = self.tables
        if kept is None:
            programs = folder()
            kept = None if programs is None else programs.parent / "serving"
        return TableTimer(step, step.capture_sizes, store=TableStore(kept, step.content()), sample=self.sample)

    def run(self, trace: StepTrace | None = None) -> ScenarioResult:
        """Serve the workload. `trace`: where each step is written."""
        step = self.step()
        options, timer = self.engine_options(step), self.timer(step)
        result = simulate(
            self.workload.requests(), ContinuousBatching(options), timer, max_concurrency=self.max_concurrency, trace=trace
        )
        if isinstance(timer, TableTimer):
            timer.store.save()
        return ScenarioResult(self, options, timer, result)

    def at_rate(self, rate: float, seed: int = 0) -> Scenario:
        """The same with another rate of requests and seed."""
        arrivals = replace(self.workload.arrivals, request_rate=rate)
        return replace(self, workload=replace(self.workload, arrivals=arrivals, seed=seed))


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """A run with what it was of."""

    scenario: Scenario
    options: EngineOptions
    timer: MachineTimer
    result: ServingResult

    def to_dict(self, goals_ms: dict[str, float] | None = None) -> dict[str, Any]:
        """As `kbsim serve --json` prints it."""
        timer = self.timer
        table = None
        if isinstance(timer, TableTimer):
            error = timer.error()
            table = {
                "entries": len(timer.store),
                "simulated": timer.filled,
                "error": None if error is None else {
                    "steps": error.steps, "mean": error.mean, "bias": error.bias, "worst": error.worst,
                },
            }  # fmt: skip
        return {
            "status": "done",
            "model": self.scenario.model.name,
            "machine": self.scenario.machine.source,
            "num_gpu_blocks": self.options.num_gpu_blocks,
            "block_size": self.options.block_size,
            "max_model_len": self.options.max_model_len,
            "goals_ms": dict(goals_ms or {}),
            "table": table,
            **self.result.to_dict(goals_ms),
        }
