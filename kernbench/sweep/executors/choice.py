"""The executor of a run, and the options that it does not support."""

from __future__ import annotations

import os

from kernbench.common.errors import InputError, Problem
from kernbench.config import load_config
from kernbench.config.system.parts import BUILTIN
from kernbench.sweep.executors.pool import Pool
from kernbench.sweep.executors.threads import Threads
from kernbench.sweep.runner import Executor
from kernbench.sweep.spec import Spec
from kernbench.sweep.work import Context, Work

COMMAND = "kbsim sweep run"


def processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def executor_for(spec: Spec, *, jobs: int | None, threads: int | None, dask: bool, scheduler: str | None) -> Executor:
    """Processes, threads or a Dask cluster; InputError if the options exclude each other, or if the executor cannot enforce the
    spec's limits."""
    if scheduler is not None and not dask:
        rule = "it is the address of a Dask cluster"
        raise InputError(Problem(COMMAND, rule, "--scheduler", scheduler, "say --executor dask"))
    if threads is not None and (jobs is not None or dask):
        raise InputError(Problem(COMMAND, "they are those of one process here: leave out --jobs and --executor", "--threads"))
    if scheduler is not None and jobs is not None:
        raise InputError(Problem(COMMAND, "the number of processes of a cluster is fixed", "--jobs", jobs, "leave it out"))
    limited = spec.limits.seconds is not None or spec.limits.memory is not None
    if limited and (threads is not None or dask):
        which = "--threads" if threads is not None else "--executor dask"
        remedy = "leave limits out of the spec, or take processes"
        raise InputError(Problem(COMMAND, f"{which} cannot stop a single run", "limits", remedy=remedy))
    if threads is not None:
        for label in python_of(spec):
            rule = f"{label} has Python components, and a thread of those waits for the others"
            raise InputError(Problem(COMMAND, rule, "--threads", threads, "take --jobs"))
        return Threads(Work(spec.targets, spec.machines, spec.area), threads)
    if dask:
        from kernbench.sweep.executors.on_dask import OnDask

        return OnDask(Context.of(spec), scheduler, jobs or processors(), spec.allowed_code)
    fork = not python_of(spec)
    return Pool(Context.of(spec), jobs or processors(), spec.limits, spec.allowed_code, fork=fork, machines=spec.machines)


def python_of(spec: Spec) -> list[str]:
    """Targets and machines with Python components."""
    found = [target.label for target in spec.targets if not target.native]
    for machine in spec.machines:
        config = load_config(machine.base)
        if any(part.impl != BUILTIN for part in config.components.values()):
            found.append(machine.label)
    return found
