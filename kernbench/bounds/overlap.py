"""Systolic arrays whose jobs overlap: the cycles of a job in which its engine can work on another job too."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernbench.cmdq.plan import Plan

Array = npt.NDArray[np.int64]


class Shared(NamedTuple):
    """[cycle] By job of a TE or VE; 0 for jobs of engines that have one job at a time."""

    hidden: Array  #: of the load of its stationary operand, at most: another job is in the array
    tail: Array  #: after its stream: the next job is in the array


def shared_cycles(plan: Plan) -> Shared:
    """The cycles of a program's jobs that can overlap with other jobs."""
    jobs = plan.program["compute"]
    count = len(jobs["entry"])
    overlaps = np.array([engine.get("overlaps", False) for engine in plan.machine["compute"]], dtype=np.bool_)
    if not overlaps.any():
        return Shared(*np.zeros((2, count), dtype=np.int64))
    load, port, last, spare, drain = jobs["parts"].T
    left = np.maximum(load - _largest(jobs, last, len(overlaps)), port - _largest(jobs, spare, len(overlaps)))
    hidden = np.minimum(np.maximum(load, port) - np.maximum(left, 0), jobs["body"] - drain - 1)
    there = overlaps[jobs["engine"]]
    return Shared(np.where(there, np.maximum(hidden, 0), 0), np.where(there, drain + jobs["finalize"], 0))


def _largest(jobs: Any, values: Array, engines: int) -> Array:
    """For each job, the largest value of any job of its engine."""
    most = np.zeros(engines, dtype=np.int64)
    np.maximum.at(most, jobs["engine"], values)
    found: Array = most[jobs["engine"]]
    return found
