"""A scenario on several engines: one run, and the largest rate within latency targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.config.schema import Cost, NpuConfig
from kernbench.config.system import SystemConfig
from kernbench.workloads.serving.capacity import Capacity, Served, Target, find_capacity
from kernbench.workloads.serving.fleet import Fleet, Instance, KvLink, Role, Sharers, simulate_fleet
from kernbench.workloads.serving.machine_step import MachineStep
from kernbench.workloads.serving.options import EngineOptions
from kernbench.workloads.serving.periods import EngineGroup
from kernbench.workloads.serving.request import State
from kernbench.workloads.serving.result import ServingResult
from kernbench.workloads.serving.routing import router
from kernbench.workloads.serving.scenario import Scenario, ScenarioResult, run_energy, token_cost
from kernbench.workloads.serving.step_time import MachineTimer
from kernbench.workloads.serving.stepwise import batching
from kernbench.workloads.serving.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Group:
    """Equal engines of a fleet: a scenario and its number of engines. The workload is that of the fleet."""

    scenario: Scenario
    count: int
    role: Role = "both"

    @property
    def engines(self) -> int:
        """The number of schedulers with a copy of the model: `dp` for each engine."""
        return self.count * self.scenario.dp


@dataclass(frozen=True, slots=True)
class _Engines:
    """A group, ready to be built."""

    group: Group
    step: MachineStep
    options: EngineOptions
    timer: MachineTimer
    link: KvLink | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A scenario on a number of engines. Each has `tp` times `pp` devices of its own.

    `replicas`: the number of engines; with `prefill`, the number of engines that decode. `prefill`: the number of engines that
    only prefill; keys and values cross a link of `kv_link_gb_s`, whose default is the link of their machine. `routing`: how
    requests choose an engine. `groups`: engines of several scenarios instead of equal engines, with the workload of `scenario`.
    """

    scenario: Scenario
    replicas: int = 1
    prefill: int = 0
    routing: str = "round_robin"
    kv_link_gb_s: float | None = None
    groups: tuple[Group, ...] = ()

    def __post_init__(self) -> None:
        for name, value, least in (("replicas", self.replicas, 1), ("prefill", self.prefill, 0)):
            if type(value) is not int or value < least:
                raise InputError(Problem("fleet", f"it must be an integer of at least {least}", name, value))
        if self.kv_link_gb_s is not None and not self.kv_link_gb_s > 0:
            raise InputError(Problem("fleet", "it must be above 0", "kv_link_gb_s", self.kv_link_gb_s))
        if self.groups and (self.replicas, self.prefill) != (1, 0):
            rule = "groups say how many engines there are"
            raise InputError(Problem("fleet", rule, "replicas", self.replicas))
        router(self.routing)

    def having(self, **given: Any) -> Deployment:
        """The same deployment with other fields in its scenarios."""
        groups = tuple(replace(one, scenario=replace(one.scenario, **given)) for one in self.groups)
        return replace(self, scenario=replace(self.scenario, **given), groups=groups)

    @property
    def parts(self) -> tuple[Group, ...]:
        """The groups; groups that prefill come first."""
        if self.groups:
            return tuple(sorted(self.groups, key=lambda one: one.role != "prefill"))
        if not self.prefill:
            return (Group(self.scenario, self.replicas),)
        return Group(self.scenario, self.prefill, "prefill"), Group(self.scenario, self.replicas, "decode")

    @property
    def engines(self) -> int:
        """The number of engines of all groups; each counts `dp` times."""
        return sum(one.engines for one in self.parts)

    @property
    def machines(self) -> int:
        """The number of machines: for a file of one chip, `tp` machines for each engine; otherwise the file describes the whole
        engine."""
        return sum(one.count * one.scenario.devices for one in self.parts)

    @property
    def cost(self) -> Cost | None:
        """The price and the power of all machines; a value is None if a file does not give it."""
        costs = [(one.scenario.machine.cost, one.count * one.scenario.devices) for one in self.parts]
        if any(cost is None for cost, _ in costs):
            return None

        def whole(name: str) -> Fraction | None:
            values = [(getattr(cost, name), machines) for cost, machines in costs]
            return None if any(value is None for value, _ in values) else sum(value * machines for value, machines in values)

        return Cost(usd_per_hour=whole("usd_per_hour"), watts=whole("watts"))

    def link(self, step: MachineStep, group: Group | None = None) -> KvLink | None:
        """The link from an engine that prefills to those that decode; None for other engines. InputError if its bandwidth is
        not known.

        Machines without links to other machines send through their hosts: each device uses its own link to the host, and the
        host sends the data on without delay.

        `group`: the group of the engine; the default is the first.
        """
        group = group or self.parts[0]
        if group.role != "prefill":
            return None
        scenario = group.scenario
        devices = scenario.tp * scenario.pp
        rate, latency = machine_link(scenario.machine, devices)
        host = scenario.host_bytes_per_ns()
        rate = self.kv_link_gb_s or rate or (None if host is None else host * devices)
        if rate is None:
            rule = "the machine has no link to other machines, and keys and values go from prefill to decode"
            remedy = "give the bandwidth by --kv-link-gb-s, or that of links to the host by --host-link-gb-s"
            raise InputError(Problem(scenario.machine.source, rule, "chip", remedy=remedy))
        draft = scenario.draft_step()
        token_bytes = step.token_bytes() + (0 if draft is None else draft.token_bytes())
        return KvLink(token_bytes=token_bytes * scenario.tp, bytes_per_ns=rate, latency_ns=latency)

    def _engines(self) -> list[_Engines]:
        """The parts of the engines; equal scenarios share the times of their steps."""
        known: list[tuple[Scenario, MachineStep, EngineOptions, MachineTimer]] = []
        found = []
        for group in self.parts:
            same = [one for one in known if one[0] is group.scenario]
            if not same:
                step = group.scenario.step()
                same = [(group.scenario, step, group.scenario.engine_options(step), group.scenario.timer(step))]
                known += same
            _, step, options, timer = same[0]
            found.append(_Engines(group, step, options, timer, self.link(step, group)))
        bits = {one.group.role: one.step.kv_bits for one in found}
        if "prefill" in bits and bits.get("decode", 0) != bits["prefill"]:
            rule = f"keys and values have {bits['prefill']} bits there, and {bits.get('decode', 0)} where they go"
            raise InputError(Problem("fleet", rule, "role", "prefill", "choose one type with --kv-cache-dtype"))
        return found

    def _fleet(self, engines: Sequence[_Engines], seed: int, lines: Sequence[Timeline | None] = ()) -> Fleet:
        """The engines without requests. `lines`: a time line for each group."""
        instances = []
        for one, line in zip(engines, lines or (None,) * len(engines), strict=True):
            for number in range(one.group.engines):
                if number % one.step.sharers == 0:
                    sharers = Sharers(one.timer) if one.step.sharers > 1 else None
                made = Instance(
                    batching(one.options), one.timer, one.group.role, link=one.link, timeline=line, sharers=sharers
                )
                instances.append(made)
        return Fleet(instances, router(self.routing, seed))

    def run(self) -> ScenarioResult:
        """Serve the workload of the scenario."""
        if self.engines == 1 and not self.groups:
            return self.scenario.run()
        engines = self._engines()
        lines = [Timeline() for _ in engines] if len(engines) > 1 else []
        fleet = self._fleet(engines, self.scenario.workload.seed, lines)
        result = simulate_fleet(self.scenario.workload.requests(), fleet, max_concurrency=self.scenario.max_concurrency)
        for one in engines:
            one.timer.save()
        rows, place = [], 0
        for one in engines:
            mine = fleet.instances[place : place + one.group.engines]
            place += one.group.engines
            rows.append(_row(one, mine, result))
        idle = _idle_mw_ns(engines, result)
        groups = [
            EngineGroup(
                one.step, line, one.group.scenario.machine.source, one.group.role, one.group.engines, one.options.usable_blocks
            )
            for one, line in zip(engines, lines, strict=False)
        ]
        return ScenarioResult(
            self.scenario, engines[-1].options, engines[-1].timer, result, cost_of_machines=self.cost, engines=self.engines,
            idle_mw_ns=idle, fleet=rows if self.groups else None, groups=tuple(groups),
        )  # fmt: skip

    def capacity(
        self, targets: Sequence[Target], *, seeds: Sequence[int] = (0, 1, 2, 3, 4), tolerance: float = 0.02,
        duration_s: float = 20.0,
    ) -> Capacity:  # fmt: skip
        """The largest rate of the workload at which every target is met. All runs share one table of steps.

        `duration_s`: [s] shortest time in which requests arrive: a random workload gets more requests at high rates.
        """
        engines = self._engines()
        runs: dict[tuple[float, int], Served] = {}

        def at(rate: float, seed: int) -> ServingResult:
            load = self.scenario.at_rate(rate, seed).workload
            if load.dataset_path is None:
                load = replace(load, num_prompts=max(load.count or 1, ceil(rate * duration_s)))
            fleet = self._fleet(engines, seed)
            result = simulate_fleet(load.requests(), fleet, max_concurrency=self.scenario.max_concurrency)
            count = max(1, result.count(State.FINISHED))
            joules = None
            if self.scenario.energy:
                million = run_energy(result, _idle_mw_ns(engines, result))["joules_per_million_output_tokens"]
                joules = None if million is None else million / 1e6
            output, prompt = (result.count_tokens(kind) / count for kind in ("output", "prompt"))
            runs[rate, seed] = Served(rate, seed, output, prompt, joules)
            return result

        found = find_capacity(at, targets, seeds=seeds, tolerance=tolerance, start_rate=float(self.engines))
        for one in engines:
            one.timer.save()
        return replace(found, served=tuple(runs[one.met, one.seed] for one in found.seeds if one.met))

    def worth(self, rate: float) -> dict[str, float | None]:
        """The requests/s for the price and the power of the machines; None if the file does not give them."""
        cost = self.cost

        def per(value: Fraction | None) -> float | None:
            return rate / float(value) if value else None

        return {
            "requests_per_s_per_usd_per_hour": per(cost.usd_per_hour if cost else None),
            "requests_per_s_per_watt": per(cost.watts if cost else None),
        }

    def token_cost(self, found: Capacity) -> dict[str, float | None]:
        """The cost of a million tokens at the found rate; None if it is not known."""
        served = found.served
        output, prompt = (sum(getattr(one, kind) for one in served) / max(1, len(served)) for kind in ("output", "prompt"))
        rates = {"output_tokens_per_s": found.rate * output, "total_tokens_per_s": found.rate * (output + prompt)}
        joules = [one.joules for one in served if one.joules is not None]
        return {
            **token_cost(self.cost or Cost(), rates),
            "joules_per_million_output_tokens": 1e6 * sum(joules) / len(joules) if joules else None,
        }

    def to_dict(self, found: Capacity) -> dict[str, Any]:
        """The content of `kbsim serve capacity --json`."""
        return {
            "status": "done",
            "model": self.scenario.model.name,
            "machine": ", ".join(dict.fromkeys(one.scenario.machine.source for one in self.parts)),
            "tp": self.scenario.tp,
            "pp": self.scenario.pp,
            "dp": self.scenario.dp,
            "replicas": sum(one.count for one in self.parts if one.role != "prefill"),
            "prefill_replicas": sum(one.count for one in self.parts if one.role == "prefill"),
            "router": self.routing,
            "machines": self.machines,
            **found.to_dict(),
            **self.worth(found.rate),
            **self.token_cost(found),
        }


def machine_link(machine: NpuConfig | SystemConfig, devices: int) -> tuple[float | None, int]:
    """[byte/ns] and [ns] of the link from an engine with this number of devices to an engine on another machine: the links of
    chips, or the link between SIPs of a system. None if the file does not give it."""
    if isinstance(machine, NpuConfig):  # only the file of a chip has links
        chip = machine.chip
        return (None, 0) if chip is None else (float(chip.links * chip.link_gb_s) * devices, round(chip.link_latency_ns))
    link = machine.system.link
    return float(link.bytes_per_cycle * machine.freq_ghz), round(link.cycles / machine.freq_ghz)


def _row(engines: _Engines, instances: Sequence[Instance], result: ServingResult) -> dict[str, Any]:
    """The results of a group in a run, as plain data."""
    scenario, ns = engines.group.scenario, result.end_ns - result.whole.start_ns
    return {
        "machine": scenario.machine.source, "role": engines.group.role, "count": engines.group.count,
        "tp": scenario.tp, "pp": scenario.pp, "dp": scenario.dp,
        "num_gpu_blocks": engines.options.num_gpu_blocks, "served": [one.served for one in instances],
        "busy": [one.busy_ns / ns if ns else 0.0 for one in instances],
    }  # fmt: skip


def _idle_mw_ns(engines: Sequence[_Engines], result: ServingResult) -> float:
    """[pJ] The static energy of all engines over the run; the energy of steps includes its part."""
    ns = result.end_ns - result.whole.start_ns
    return sum(one.group.count * one.step.static_mw * ns for one in engines)
