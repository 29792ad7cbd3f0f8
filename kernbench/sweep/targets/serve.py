"""Serving as a target: the largest rate of requests under latency targets, and the metrics at this rate."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.package_digest import package_digest
from kernbench.common.spelling import meant
from kernbench.common.units import plain_number
from kernbench.config import MachineConfig
from kernbench.sim_engine.machine import Machine
from kernbench.workloads.models.files import load_model
from kernbench.workloads.serving.arrivals import Arrivals
from kernbench.workloads.serving.capacity import parse_slo
from kernbench.workloads.serving.deployment import Deployment
from kernbench.workloads.serving.routing import ROUTERS
from kernbench.workloads.serving.scenario import Scenario
from kernbench.workloads.serving.workload import Workload

#: Parameters with their defaults, and the least allowed value of numbers. `kbsim serve capacity` has options of the same names.
PARAMS: dict[str, tuple[Any, int]] = {
    "slo": ("p99 ttft<1s, p99 tpot<50ms", 0), "requests": (200, 2), "input": (512, 1), "output": (128, 1), "duration": (20, 1),
    "seeds": (3, 1), "tp": (1, 1), "pp": (1, 1), "dp": (1, 1), "replicas": (1, 1), "prefill": (0, 0),
    "router": ("round_robin", 0), "w": (None, 1), "a": (None, 1), "kv": (None, 1), "max_num_seqs": (256, 1),
    "max_num_batched_tokens": (2048, 1),
}  # fmt: skip
TOLERANCE = 0.02


class ServeTarget:
    """A model, given by its name or file, with requests of fixed lengths."""

    native = True
    default_machine = "npu_server"
    notes: Sequence[str] = ()

    def __init__(self, label: str, model: str, params: Mapping[str, Any]) -> None:
        self.label = label
        self.where = model
        self.given = dict(params)
        self.model = load_model(model)

    def checked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        values = {name: default for name, (default, _) in PARAMS.items()} | self.given | dict(params)
        for name, value in values.items():
            if rule := _broken(name, value):
                raise InputError(Problem(self.label, rule, name, value, meant(name, PARAMS) if name not in PARAMS else ""))
        parse_slo(values["slo"])
        return values

    def fingerprint(self) -> str:
        return f"serve {self.model!r} {package_digest('kernbench.workloads')}"

    def longest(self, config: MachineConfig, params: Mapping[str, Any]) -> tuple[str, Machine]:
        rule = "a search for the capacity makes many runs, and no single run is the result"
        raise InputError(Problem(self.label, rule, remedy="use an llm target for this model"))

    def simulate(self, config: MachineConfig, params: Mapping[str, Any]) -> dict[str, Any]:
        values = self.checked(params)
        lengths = {"random_input_len": values["input"], "random_output_len": values["output"]}
        workload = Workload(num_prompts=values["requests"], arrivals=Arrivals(request_rate=1.0), **lengths)
        scenario = Scenario(
            model=self.model, machine=config, workload=workload,  # type: ignore[arg-type]  # one of the two kinds
            engine={name: values[name] for name in ("max_num_seqs", "max_num_batched_tokens")}, w=values["w"], a=values["a"],
            kv=values["kv"], tp=values["tp"], pp=values["pp"], dp=values["dp"], sample=0,
        )  # fmt: skip
        deployment = Deployment(
            scenario=scenario, replicas=values["replicas"], prefill=values["prefill"], routing=values["router"]
        )
        found = deployment.capacity(
            parse_slo(values["slo"]), seeds=range(values["seeds"]), tolerance=TOLERANCE, duration_s=values["duration"]
        )
        plain = deployment.to_dict(found)
        low, high = plain["interval"]
        metrics = {
            "requests_per_s": found.rate, "requests_per_s_low": None if high is None else low, "requests_per_s_high": high,
            "requests_per_s_per_usd_per_hour": plain["requests_per_s_per_usd_per_hour"],
            "requests_per_s_per_watt": plain["requests_per_s_per_watt"], "bound_by": found.bound,
            "usd_per_million_output_tokens": plain["usd_per_million_output_tokens"],
        }  # fmt: skip
        ns = Fraction(10**9) / Fraction(found.rate)
        return {
            "status": "done",
            "cycles": round(ns * Fraction(config.freq_ghz)),  # type: ignore[attr-defined]
            "ns": plain_number(Fraction(round(ns * 1000), 1000)),
            "jobs": sum(one.runs for one in found.seeds),
            "jobs_hash": hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest(),
            "metrics": {name: value for name, value in metrics.items() if value is not None},
            "error": "",
        }

    def plain(self) -> dict[str, Any]:
        return {"serve": self.where, "label": self.label, "params": self.given}


def _broken(name: str, value: Any) -> str:
    """The rule that a parameter breaks, or an empty text."""
    if name not in PARAMS:
        return f"there is no such parameter; there are {', '.join(PARAMS)}"
    default, least = PARAMS[name]
    if name == "router":
        return "" if value in ROUTERS else f"it must be one of {', '.join(ROUTERS)}"
    if name == "slo":
        return "" if isinstance(value, str) else "it must be text"
    if value is None and default is None:
        return ""
    return "" if type(value) is int and value >= least else f"it must be an integer of at least {least}"
