"""Serving from Python: engines, schedulers of your own, timers of steps, and whole runs."""

from kernbench.workloads.serving.capacity import Capacity, SeedCapacity, Target, find_capacity, parse_slo
from kernbench.workloads.serving.continuous import ContinuousBatching
from kernbench.workloads.serving.engine import Engine, Recorder, drive
from kernbench.workloads.serving.fleet import Fleet, Instance, KvLink, simulate_fleet
from kernbench.workloads.serving.options import EngineOptions
from kernbench.workloads.serving.request import Request, State
from kernbench.workloads.serving.result import Record, ServingResult
from kernbench.workloads.serving.routing import LeastOutstanding, PrefixAware, Random, RoundRobin, Router
from kernbench.workloads.serving.scheduler import Scheduler, StepBatch, Tokens
from kernbench.workloads.serving.simulate import simulate
from kernbench.workloads.serving.statistics import Summary
from kernbench.workloads.serving.step_time import FormulaTimer, StepTimer, fixed_step

__all__ = [
    "Capacity",
    "ContinuousBatching",
    "Engine",
    "EngineOptions",
    "Fleet",
    "FormulaTimer",
    "Instance",
    "KvLink",
    "LeastOutstanding",
    "PrefixAware",
    "Random",
    "Record",
    "Recorder",
    "Request",
    "RoundRobin",
    "Router",
    "Scheduler",
    "SeedCapacity",
    "ServingResult",
    "State",
    "StepBatch",
    "StepTimer",
    "Summary",
    "Target",
    "Tokens",
    "drive",
    "find_capacity",
    "fixed_step",
    "parse_slo",
    "simulate",
    "simulate_fleet",
]
