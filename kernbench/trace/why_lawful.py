"""What `why` takes for granted of a trace, checked before it is explained: a file that breaks it is refused."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from kernbench.common.errors import InputError, Problem
from kernbench.trace.why_history import COMM, Flow, History, Hold, Job

REMEDY = "kbsim trace validate says what is wrong with it"


def check_lawful(history: History, path: str) -> None:
    """InputError for the first thing that cannot be."""
    for rule in _broken(history):
        raise unlawful(path, rule)


def unlawful(path: str, rule: str) -> InputError:
    """The refusal of a file that is no trace of any run."""
    return InputError(Problem(path, rule, remedy=REMEDY))


def _broken(history: History) -> Iterator[str]:
    for name, capacity in history.capacity.items():
        if capacity <= 0:
            yield f"{name} has no capacity"
    for command in history.commands:
        if command.end is not None and command.end > history.cycles:
            yield f"command {command.id} ends after the run"
        if command.end is not None and command.job is not None and not command.job.ended:
            yield f"command {command.id} ends, and its job does not"
    for job in history.jobs.values():
        yield from _job(history, job)
        for flow in job.flows.values():
            yield from _flow(history, flow)


def _job(history: History, job: Job) -> Iterator[str]:
    if not job.issue <= job.start <= job.end <= history.cycles:
        yield f"job {job.number} is not issued, started and ended in this order inside the run"
    if job.ended and (not job.started or job.command.end != job.end):
        yield f"job {job.number} ends without a start, or its command does not end with it"
    if job.channel not in (None, 0, 1, 2, COMM):
        yield f"job {job.number} is on a DMA channel that there is not"
    if job.stall is not None and not job.issue <= job.stall[0] <= job.start:
        yield f"job {job.number} stalls where it is not pending"
    if _overlap(job.holds, job.start, job.end):
        yield f"job {job.number} is held where it does not run, or twice at a time"


def _flow(history: History, flow: Flow) -> Iterator[str]:
    job = flow.job
    name = f"the flow of job {job.number} on channel {flow.channel}"
    if flow.since != job.start + job.head or not flow.since <= flow.until <= job.end:
        yield f"{name} is not inside its transfer"
    if any(unit not in history.capacity for unit in flow.route) or len(set(flow.route)) < len(flow.route):
        yield f"{name} uses what has no capacity, or one thing twice"
    if flow.weight < 1 or flow.size < 1:
        yield f"{name} has no weight or no bytes"
    if _overlap(flow.holds, flow.since, flow.until):
        yield f"{name} is held where it does not run, or twice at a time"
    marks = [mark for out in flow.outs for mark in (out.since, out.until)]
    if any(a > b for a, b in pairwise([flow.since, *marks, flow.until])):
        yield f"{name} is suspended where it does not run, or twice at a time"


def _overlap(holds: list[Hold], start: int, end: int) -> bool:
    marks = [mark for hold in holds for mark in (hold.since, hold.until)]
    return any(a > b for a, b in pairwise([start, *marks, end]))
