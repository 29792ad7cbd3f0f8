"""Serving from Python: engines, schedulers of your own, timers of steps, and whole runs."""

from kernbench.workloads.serving.continuous import ContinuousBatching
from kernbench.workloads.serving.engine import Engine, Recorder, drive
from kernbench.workloads.serving.options import EngineOptions
from kernbench.workloads.serving.request import Request, State
from kernbench.workloads.serving.result import Record, ServingResult
from kernbench.workloads.serving.scheduler import Scheduler, StepBatch, Tokens
from kernbench.workloads.serving.simulate import simulate
from kernbench.workloads.serving.statistics import Summary
from kernbench.workloads.serving.step_time import FormulaTimer, StepTimer, fixed_step

__all__ = [
    "ContinuousBatching",
    "Engine",
    "EngineOptions",
    "FormulaTimer",
    "Record",
    "Recorder",
    "Request",
    "Scheduler",
    "ServingResult",
    "State",
    "StepBatch",
    "StepTimer",
    "Summary",
    "Tokens",
    "drive",
    "fixed_step",
    "simulate",
]
