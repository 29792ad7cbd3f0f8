"""A scenario on several engines: one run of it, and the largest rate that it carries under latency targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.config.schema import Cost, NpuConfig
from kernbench.workloads.serving.capacity import Capacity, Served, Target, find_capacity
from kernbench.workloads.serving.fleet import Fleet, Instance, KvLink, Role, simulate_fleet
from kernbench.workloads.serving.machine_step import MachineStep
from kernbench.workloads.serving.options import EngineOptions
from kernbench.workloads.serving.request import State
from kernbench.workloads.serving.result import ServingResult
from kernbench.workloads.serving.routing import router
from kernbench.workloads.serving.scenario import Scenario, ScenarioResult, run_energy, token_cost
from kernbench.workloads.serving.step_time import MachineTimer
from kernbench.workloads.serving.stepwise import batching


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """So many engines of a scenario. Each has `tp` devices of its own.

    `replicas`: engines; with `prefill` those that decode. `prefill`: engines that only prefill; their keys and values cross a
    link of `kv_link_gb_s`, by default that of the machine's `chip` section. `routing`: how requests choose an engine.
    """

    scenario: Scenario
    replicas: int = 1
    prefill: int = 0
    routing: str = "round_robin"
    kv_link_gb_s: float | None = None

    def __post_init__(self) -> None:
        for name, value, least in (("replicas", self.replicas, 1), ("prefill", self.prefill, 0)):
            if type(value) is not int or value < least:
                raise InputError(Problem("fleet", f"it must be an integer of at least {least}", name, value))
        if self.kv_link_gb_s is not None and not self.kv_link_gb_s > 0:
            raise InputError(Problem("fleet", "it must be above 0", "kv_link_gb_s", self.kv_link_gb_s))
        router(self.routing)

    @property
    def engines(self) -> int:
        """Of both kinds."""
        return self.replicas + self.prefill

    @property
    def machines(self) -> int:
        """Machine files that stand side by side: a file of one chip `tp` times an engine, else the file holds all of it."""
        return self.engines * self.scenario.devices

    def link(self, step: MachineStep) -> KvLink | None:
        """From an engine that prefills to those that decode; None if none does. InputError if nothing says how fast it is."""
        if not self.prefill:
            return None
        machine = self.scenario.machine
        chip = machine.chip if isinstance(machine, NpuConfig) else None
        if self.kv_link_gb_s is None and chip is None:
            rule = "the machine says nothing about links to others, but keys and values go from prefill to decode"
            raise InputError(Problem(machine.source, rule, "chip", remedy="give the bandwidth by --kv-link-gb-s"))
        rate = self.kv_link_gb_s
        latency = 0
        if chip is not None:
            latency = round(chip.link_latency_ns)
            rate = rate or float(chip.links * chip.link_gb_s) * self.scenario.tp
        assert rate is not None
        draft = self.scenario.draft_step()
        token_bytes = step.token_bytes() + (0 if draft is None else draft.token_bytes())
        return KvLink(token_bytes=token_bytes * self.scenario.tp, bytes_per_ns=rate, latency_ns=latency)

    def fleet(self, options: EngineOptions, timer: MachineTimer, link: KvLink | None, seed: int = 0) -> Fleet:
        """The engines, empty."""
        rest: Role = "decode" if self.prefill else "both"
        instances = [Instance(batching(options), timer, "prefill") for _ in range(self.prefill)]
        instances += [Instance(batching(options), timer, rest) for _ in range(self.replicas)]
        return Fleet(instances, router(self.routing, seed), link)

    def run(self) -> ScenarioResult:
        """Serve the workload of the scenario."""
        if self.engines == 1:
            return self.scenario.run()
        step = self.scenario.step()
        options, timer = self.scenario.engine_options(step), self.scenario.timer(step)
        fleet = self.fleet(options, timer, self.link(step), self.scenario.workload.seed)
        result = simulate_fleet(self.scenario.workload.requests(), fleet, max_concurrency=self.scenario.max_concurrency)
        timer.save()
        return ScenarioResult(self.scenario, options, timer, result, self.engines)

    def capacity(
        self, targets: Sequence[Target], *, seeds: Sequence[int] = (0, 1, 2, 3, 4), tolerance: float = 0.02,
        duration_s: float = 20.0,
    ) -> Capacity:  # fmt: skip
        """The largest rate of the workload at which every target is met. All runs share one table of steps.

        `duration_s`: [s] that requests arrive for, at least: a workload that is drawn gets more requests at high rates.
        """
        step = self.scenario.step()
        options, timer, link = self.scenario.engine_options(step), self.scenario.timer(step), self.link(step)

        runs: dict[tuple[float, int], Served] = {}

        def at(rate: float, seed: int) -> ServingResult:
            load = self.scenario.at_rate(rate, seed).workload
            if load.dataset_path is None:
                load = replace(load, num_prompts=max(load.count or 1, ceil(rate * duration_s)))
            fleet = self.fleet(options, timer, link, seed)
            result = simulate_fleet(load.requests(), fleet, max_concurrency=self.scenario.max_concurrency)
            count = max(1, result.count(State.FINISHED))
            joules = None
            if self.scenario.energy:
                million = run_energy(result, timer, self.engines)["joules_per_million_output_tokens"]
                joules = None if million is None else million / 1e6
            output, prompt = (result.count_tokens(kind) / count for kind in ("output", "prompt"))
            runs[rate, seed] = Served(rate, seed, output, prompt, joules)
            return result

        found = find_capacity(at, targets, seeds=seeds, tolerance=tolerance, start_rate=float(self.engines))
        timer.save()
        return replace(found, served=tuple(runs[one.met, one.seed] for one in found.seeds if one.met))

    def worth(self, rate: float) -> dict[str, float | None]:
        """What so many requests/s are for the price and the power of the machines; None where the file does not say it."""
        cost = self.scenario.machine.cost

        def per(value: Fraction | None) -> float | None:
            return rate / (float(value) * self.machines) if value else None

        return {
            "requests_per_s_per_usd_per_hour": per(cost.usd_per_hour if cost else None),
            "requests_per_s_per_watt": per(cost.watts if cost else None),
        }

    def token_cost(self, found: Capacity) -> dict[str, float | None]:
        """What a million tokens cost at the rate that was found; None where nothing says it."""
        served = found.served
        output, prompt = (sum(getattr(one, kind) for one in served) / max(1, len(served)) for kind in ("output", "prompt"))
        rates = {"output_tokens_per_s": found.rate * output, "total_tokens_per_s": found.rate * (output + prompt)}
        joules = [one.joules for one in served if one.joules is not None]
        return {
            **token_cost(self.scenario.machine.cost or Cost(), self.machines, rates),
            "joules_per_million_output_tokens": 1e6 * sum(joules) / len(joules) if joules else None,
        }

    def to_dict(self, found: Capacity) -> dict[str, Any]:
        """As `kbsim serve capacity --json` prints it."""
        return {
            "status": "done",
            "model": self.scenario.model.name,
            "machine": self.scenario.machine.source,
            "tp": self.scenario.tp,
            "replicas": self.replicas,
            "prefill_replicas": self.prefill,
            "router": self.routing,
            "machines": self.machines,
            **found.to_dict(),
            **self.worth(found.rate),
            **self.token_cost(found),
        }

