"""A complete scenario: a model on a machine, an engine, and a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.parse_cache import cache_folder
from kernbench.common.units import near_size
from kernbench.config.schema import Cost, NpuConfig
from kernbench.config.system import SystemConfig
from kernbench.workloads.blocks.batch import Sequences
from kernbench.workloads.llm.model import Model
from kernbench.workloads.routing import EVEN, Routing
from kernbench.workloads.serving.extra_work import Adapters, DraftModel, ExtraWork, Lora, Swaps
from kernbench.workloads.serving.machine_step import MachineStep, machine_step
from kernbench.workloads.serving.options import DEFAULT_BLOCK, EngineOptions
from kernbench.workloads.serving.periods import EngineGroup
from kernbench.workloads.serving.result import ServingResult
from kernbench.workloads.serving.simulate import simulate
from kernbench.workloads.serving.speculation import Speculation
from kernbench.workloads.serving.step_time import ExactTimer, MachineTimer, TableTimer, step_timer, table_error
from kernbench.workloads.serving.step_trace import Bottlenecks, StepTrace
from kernbench.workloads.serving.stepwise import batching
from kernbench.workloads.serving.table_store import TableStore
from kernbench.workloads.serving.workload import Workload

_LONGEST = 8192  #: [token] of `max_model_len` if the model's file does not state it


@dataclass(frozen=True, slots=True)
class _Stage:
    """A stage of an engine, with the contents of the memory of one of its devices."""

    step: MachineStep
    draft: MachineStep | None  #: the draft model, if this stage has it
    token_bytes: int  #: [byte] of a token in the KV cache, including that of the draft model
    taken: int  #: [byte] of the memory that is occupied without the KV cache
    adapter_bytes: int  #: [byte] of one adapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The input of `kbsim serve`. `engine`: options of `EngineOptions` that differ from their defaults.

    `num_gpu_blocks`, `max_model_len`: the defaults follow from the memory and the model. `exact`: every distinct step is
    simulated, without a table. `sample`: the number of steps of the run that are simulated to measure the error of the table.
    `draft`: the model of the drafts of `speculation`; it has the bits and devices of `model`. `swap_space_gib`: [GiB] host
    memory of each device for blocks of preempted requests. `host_link_gb_s`: [GB/s] from each device to the host; the default
    is that of the machine. `pp`: the number of stages of a pipeline, each of `tp` devices. `dp`: the number of engines, each
    with a copy of the model, which a `Deployment` puts behind its router; on a system, they use different PEs of the same
    system. With `ep` they share the experts of a mixture.
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
    pp: int = 1
    dp: int = 1
    ep: bool = False
    layers: int | None = None
    routing: Routing = EVEN
    runtime: str | None = None
    exact: bool = False
    sample: int = 8
    speculation: Speculation | None = None
    draft: Model | None = None
    lora: Lora | None = None
    swap_space_gib: float = 0.0
    host_link_gb_s: float | None = None
    #: [token] sizes to which steps are padded; None for the sizes of the machine's software
    capture_sizes: tuple[int, ...] | None = None
    energy: bool = False  #: whether the energy of steps is simulated
    tables: Path | None = None  #: folder of the stored tables; None for the folder of the stored programs

    def step(self) -> MachineStep:
        """The object that times a step."""
        return machine_step(
            self.model, self.machine, w=self.w, a=self.a, kv=self.kv, tp=self.tp, pp=self.pp, layers=self.layers,
            dp=self.dp, routing=self.routing, ep=self.ep, runtime=self.runtime,
        )  # fmt: skip

    def __post_init__(self) -> None:
        if (self.speculation is not None and self.speculation.method == "draft_model") != (self.draft is not None):
            raise InputError(
                Problem("scenario", "it must be set exactly if the method of speculation is draft_model", "draft", self.draft)
            )
        sizes = self.capture_sizes or ()
        if any(type(size) is not int or size < 1 for size in sizes) or list(sizes) != sorted(set(sizes)):
            raise InputError(
                Problem("scenario", "it must be a list of integers of at least 1, in increasing order", "capture_sizes", sizes)
            )
        for name, least in (("swap_space_gib", 0.0), ("host_link_gb_s", 1e-9)):
            value = getattr(self, name)
            if value is not None and not least <= value < 1e9:
                raise InputError(Problem("scenario", "it must be a number of at least 0", name, value))

    def draft_step(self) -> MachineStep | None:
        """The object that times a pass of the draft model; None without a draft model. In a pipeline, the last stage has the
        draft model."""
        return None if self.draft is None else replace(self, model=self.draft, draft=None, speculation=None, pp=1, dp=1).step()

    def _stages(self, step: MachineStep) -> list[_Stage]:
        """The contents of each stage in addition to the layers of the model."""
        found, draft = [], self.draft_step()
        for stage in step.stages:
            mine = draft if stage is step.stages[-1] else None
            adapter = self.lora.adapter_bytes(self.model, self.tp, stage.layers) if self.lora is not None else 0
            token_bytes = stage.token_bytes() + (mine.token_bytes() if mine is not None else 0)
            taken = stage.weight_bytes() + (mine.weight_bytes() if mine is not None else 0)
            taken += self.lora.max_loras * adapter if self.lora is not None else 0
            found.append(_Stage(stage, mine, token_bytes, taken, adapter))
        return found

    def host_bytes_per_ns(self) -> float | None:
        """[byte/ns] of the link from a device to the host; None if neither the scenario nor the machine states it."""
        if self.host_link_gb_s is not None or isinstance(self.machine, NpuConfig):
            return self.host_link_gb_s
        return float(self.machine.io.pcie.link.bytes_per_cycle * self.machine.freq_ghz)

    def engine_options(self, step: MachineStep) -> EngineOptions:
        """The options of the engine; InputError if the KV cache does not hold a request."""
        size = self.engine.get("block_size", DEFAULT_BLOCK)
        blocks = self.num_gpu_blocks
        stages = [] if blocks is not None and not self.swap_space_gib else self._stages(step)
        if blocks is None:
            if not 0 < self.gpu_memory_utilization <= 1:
                rule = "it must be more than 0 and at most 1"
                raise InputError(Problem("engine", rule, "gpu_memory_utilization", self.gpu_memory_utilization))
            if not all(one.token_bytes for one in stages):
                raise InputError(Problem("engine", "the model has no KV cache", "model", self.model.name))
            room = step.memory_bytes() * self.gpu_memory_utilization
            blocks, fullest = min(
                ((int((room - one.taken) // (size * one.token_bytes)), one) for one in stages), key=itemgetter(0)
            )
            if blocks < 2:
                share, memory = self.gpu_memory_utilization, step.memory_bytes()
                taken = f"{self.model.name} takes {near_size(fullest.taken)}"
                rule = f"{taken}, which leaves no room for a KV cache in {share:g} of {near_size(memory)}"
                remedy = "use fewer bits (--w), more PEs (--tp, --pp), or a machine with more memory"
                raise InputError(Problem(self.machine.source, rule, remedy=remedy))
        longest = self.max_model_len or min(self.model.positions or _LONGEST, (blocks - 1) * size)
        given: dict[str, Any] = {
            "speculation": self.speculation, "max_loras": self.lora.max_loras if self.lora else 0,
            "pipeline_parallel_size": self.pp,
        }  # fmt: skip
        if self.swap_space_gib:
            largest = size * max(one.token_bytes for one in stages)
            swapped = int(self.swap_space_gib * (1 << 30) // largest)
            given |= {"preemption_mode": "swap", "swap_blocks": swapped}
            if not swapped:
                rule = f"a block has {largest} bytes, so there is no room for one"
                raise InputError(Problem("engine", rule, "swap_space_gib", self.swap_space_gib))
        return EngineOptions(num_gpu_blocks=blocks, max_model_len=longest, **given, **self.engine)

    def timer(self, step: MachineStep) -> MachineTimer:
        """A timer that is exact, or that uses a table."""
        if self.energy and not step.energy_pj([Sequences(1)]):
            rule = "the model of this machine gives no energy of operations"
            raise InputError(
                Problem(self.machine.source, rule, "--energy", remedy="set cost.watts, the power that the machine draws")
            )
        stages = {one.step: one for one in self._stages(step)}
        return step_timer(step, lambda stage: self._timer(stage, self.sample, self._extra(stages[stage])))

    def _timer(self, step: MachineStep, sample: int, extra: Sequence[ExtraWork] = ()) -> MachineTimer:
        sizes = step.capture_sizes if self.capture_sizes is None else self.capture_sizes
        beside = self.pp * (1 if step.sharers > 1 else self.dp)
        share = 1.0 if self.machine.chip is not None else 1 / beside  # the file of a chip describes one of the devices
        if self.exact:
            return ExactTimer(step, sizes, extra=extra, energy=self.energy, static_share=share)
        kept, is_cache = (cache_folder("serving"), True) if self.tables is None else (self.tables, False)
        store = TableStore(kept, step.content(), cache=is_cache)
        width = 1 if self.speculation is None else 1 + self.speculation.tokens
        return TableTimer(
            step, sizes, store=store, sample=sample, width=width, extra=extra, energy=self.energy,
            static_share=share,
        )  # fmt: skip

    def _extra(self, stage: _Stage) -> list[ExtraWork]:
        """The work of the devices of a stage in addition to the model."""
        found: list[ExtraWork] = []
        link, pj = self.host_bytes_per_ns(), stage.step.dram_pj_per_byte
        if stage.draft is not None:
            assert self.speculation is not None
            found.append(DraftModel(self._timer(stage.draft, 0), self.speculation.tokens))
        if self.lora is not None:
            memory = stage.step.memory_bytes_per_ns()
            found.append(Adapters(self.lora, stage.adapter_bytes, memory_bytes_per_ns=memory, host_bytes_per_ns=link,
                                  dram_pj_per_byte=pj))  # fmt: skip
        if self.swap_space_gib:
            if link is None:
                rule = "the machine has no link to the host, and preempted requests are swapped to the host"
                raise InputError(Problem(self.machine.source, rule, remedy="give the bandwidth with --host-link-gb-s"))
            found.append(Swaps(self.engine.get("block_size", DEFAULT_BLOCK) * stage.token_bytes, link, pj))
        return found

    def run(self, trace: StepTrace | None = None) -> ScenarioResult:
        """Serve the workload. `trace`: the trace to which each step is written."""
        step = self.step()
        options, timer = self.engine_options(step), self.timer(step)
        if trace is not None:
            trace.bottlenecks = Bottlenecks(step)
        result = simulate(
            self.workload.requests(), batching(options), timer, max_concurrency=self.max_concurrency, trace=trace
        )
        timer.save()
        cost, devices = self.machine.cost, self.devices
        if cost is not None and devices > 1:
            usd, watts = (None if one is None else one * devices for one in (cost.usd_per_hour, cost.watts))
            cost = Cost(usd_per_hour=usd, watts=watts)
        static = step.static_mw * (result.end_ns - result.whole.start_ns)
        return ScenarioResult(self, options, timer, result, cost_of_machines=cost, idle_mw_ns=static)

    @property
    def devices(self) -> int:
        """The number of machine files that an engine uses: for a file of one chip, one for each device; otherwise one."""
        return self.tp * self.pp * self.dp if self.machine.chip is not None else 1

    def at_rate(self, rate: float, seed: int = 0) -> Scenario:
        """The same scenario with another request rate and seed."""
        arrivals = replace(self.workload.arrivals, request_rate=rate)
        return replace(self, workload=replace(self.workload, arrivals=arrivals, seed=seed))


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """The result of a run, with its scenario."""

    scenario: Scenario
    options: EngineOptions
    timer: MachineTimer
    result: ServingResult
    cost_of_machines: Cost | None = None  #: of all engines; None if not known
    engines: int = 1
    idle_mw_ns: float = 0.0  #: [pJ] static energy of all engines over the run
    fleet: list[dict[str, Any]] | None = None  #: the results of each group of different engines
    groups: tuple[EngineGroup, ...] = ()  #: groups of engines that differ, or that serve different parts of a request

    @property
    def engine_groups(self) -> tuple[EngineGroup, ...]:
        """The groups; if all engines are equal, they are one group."""
        alone = EngineGroup(
            self.timer.step, self.result.record.timeline, self.machine, count=self.engines, blocks=self.options.usable_blocks
        )
        return self.groups or (alone,)

    def to_dict(self, goals_ms: dict[str, float] | None = None) -> dict[str, Any]:
        """The data that `kbsim serve --json` prints."""
        tables = self.timer.tables
        table = None
        if tables:
            error = table_error(tables)
            table = {
                "entries": sum(len(one.store) for one in tables),
                "simulated": sum(one.filled for one in tables),
                "error": None if error is None else {
                    "steps": error.steps, "mean": error.mean, "bias": error.bias, "worst": error.worst,
                },
            }  # fmt: skip
        return {
            "status": "done",
            "model": self.scenario.model.name,
            "machine": self.machine,
            "num_gpu_blocks": self.options.num_gpu_blocks,
            "block_size": self.options.block_size,
            "max_model_len": self.options.max_model_len,
            "goals_ms": dict(goals_ms or {}),
            "table": table,
            **self.result.to_dict(goals_ms),
            "cost": self.cost(),
            "energy": self.energy(),
            "fleet": self.fleet,
        }

    @property
    def machine(self) -> str:
        """The machine file, or the machine files of the groups."""
        return ", ".join(dict.fromkeys(one["machine"] for one in self.fleet)) if self.fleet else self.scenario.machine.source

    def cost(self) -> dict[str, float | None] | None:
        """The cost of tokens at the rate of the steady part, or else of the run; None if the machine states no price or
        power."""
        rates = self.result.rates(self.result.steady)
        return None if self.cost_of_machines is None else token_cost(self.cost_of_machines, rates)

    def energy(self) -> dict[str, Any] | None:
        """[J] of the run by part of the machine, and of a million tokens; None if energy was not simulated."""
        return run_energy(self.result, self.idle_mw_ns) if self.scenario.energy else None


def run_energy(result: ServingResult, static_pj: float) -> dict[str, Any]:
    """[J] of a run by part of the machine, and of a million tokens. `static_pj`: the static energy over the run; the part that
    steps do not include is `idle`."""
    parts = {name: pj / 1e12 for name, pj in sorted(result.record.energy_pj.items())}
    parts["idle"] = max(0.0, static_pj / 1e12 - parts.get("static", 0.0))
    total, output = sum(parts.values()), result.count_tokens("output")
    every = output + result.count_tokens("prompt")
    each = result.joules()
    return {
        "joules": total,
        "by_part_j": parts,
        "joules_per_million_output_tokens": 1e6 * total / output if output else None,
        "joules_per_million_tokens": 1e6 * total / every if every else None,
        "request_j": None if each is None else each.to_dict(),
    }


def token_cost(cost: Cost, rates: Mapping[str, float]) -> dict[str, float | None]:
    """[$] and [J] from the power supply for a million tokens at these rates, on machines with this price and power."""
    found: dict[str, float | None] = {}
    for name, value, seconds in (("usd", cost.usd_per_hour, 3600), ("supply_joules", cost.watts, 1)):
        for tokens, of in (("output_tokens", "output_tokens"), ("tokens", "total_tokens")):
            rate = rates[f"{of}_per_s"]
            each = None if value is None or not rate else float(value) / seconds / rate
            found[f"{name}_per_million_{tokens}"] = None if each is None else 1e6 * each
    return found
