"""Serving from Python: engines, user-defined schedulers, step timers, and complete runs."""

from kernbench.workloads.serving.arrivals import Arrivals
from kernbench.workloads.serving.capacity import Capacity, SeedCapacity, Target, find_capacity, parse_slo
from kernbench.workloads.serving.continuous import ContinuousBatching
from kernbench.workloads.serving.deployment import Deployment, Group
from kernbench.workloads.serving.engine import Engine, Recorder, drive
from kernbench.workloads.serving.fleet import Fleet, Instance, KvLink, Sharers, simulate_fleet
from kernbench.workloads.serving.generation import Generation, PhaseTimes, generate
from kernbench.workloads.serving.machine_step import MachineStep, OperationTime, machine_step
from kernbench.workloads.serving.options import EngineOptions
from kernbench.workloads.serving.request import Request, State
from kernbench.workloads.serving.result import Record, ServingResult, Window
from kernbench.workloads.serving.routing import LeastOutstanding, PrefixAware, Random, RoundRobin, Router
from kernbench.workloads.serving.scenario import Scenario, ScenarioResult
from kernbench.workloads.serving.scheduler import Scheduler, StepBatch, Tokens
from kernbench.workloads.serving.simulate import simulate
from kernbench.workloads.serving.speculation import Speculation, parse_speculation
from kernbench.workloads.serving.statistics import Summary
from kernbench.workloads.serving.step_time import ExactTimer, FormulaTimer, StepTimer, TableTimer, fixed_step, step_timer
from kernbench.workloads.serving.stepwise import StepwiseBatching, batching
from kernbench.workloads.serving.table_store import TableStore
from kernbench.workloads.serving.workload import Workload

__all__ = [
    "Arrivals",
    "Capacity",
    "ContinuousBatching",
    "Deployment",
    "Engine",
    "EngineOptions",
    "ExactTimer",
    "Fleet",
    "FormulaTimer",
    "Generation",
    "Group",
    "Instance",
    "KvLink",
    "LeastOutstanding",
    "MachineStep",
    "OperationTime",
    "PhaseTimes",
    "PrefixAware",
    "Random",
    "Record",
    "Recorder",
    "Request",
    "RoundRobin",
    "Router",
    "Scenario",
    "ScenarioResult",
    "Scheduler",
    "SeedCapacity",
    "ServingResult",
    "Sharers",
    "Speculation",
    "State",
    "StepBatch",
    "StepTimer",
    "StepwiseBatching",
    "Summary",
    "TableStore",
    "TableTimer",
    "Target",
    "Tokens",
    "Window",
    "Workload",
    "batching",
    "drive",
    "find_capacity",
    "fixed_step",
    "generate",
    "machine_step",
    "parse_slo",
    "parse_speculation",
    "simulate",
    "simulate_fleet",
    "step_timer",
]
