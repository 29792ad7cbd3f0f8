"""The activity of every engine of a paused machine (`Machine.peek`, `kbsim step`)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from kernbench.cmdq.plan import Plan
from kernbench.sim_engine.run.commands import Command, Commands
from kernbench_core.numbers import CHANNELS, DMA_STATES, STALLS


@dataclass(frozen=True, slots=True)
class FlowState:
    """The part of a transfer on one DRAM channel."""

    channel: str | None  #: DRAM channel, or None
    bytes_left: int
    rate: Fraction  #: [B/cycle] rate while membership is constant; 0 for a flow that is not a member
    held_since: int | None  #: its request was first denied a bank in that cycle
    waits: str | None  #: bank, backpressure, line (fifo_v1), or None


@dataclass(frozen=True, slots=True)
class JobState:
    """A job of a DMA engine, in its queue or in flight."""

    id: int
    opcode: str
    state: str  #: QUEUED or TRANSFERRING
    channel: str
    bytes: int
    bytes_left: int
    rate: Fraction  #: [B/cycle] total rate of its flows
    stall: str | None  #: queue_full, priority_deferred, backpressure
    stalled_since: int | None
    joins_at: int | None  #: in head latency: the cycle in which its flows become members
    flows: tuple[FlowState, ...]
    line: str | None = None  #: of the kernel that issued it


@dataclass(frozen=True, slots=True)
class EngineState:
    """One engine after the cycles that have run."""

    name: str
    activity: str  #: idle, busy, bank_conflict, backpressure
    jobs: tuple[JobState, ...]  #: a DMA engine's transfers
    queue: tuple[int, ...]  #: ids of entries that wait in it, in submission order
    queue_stalls: tuple[str | None, ...]  #: their stall reasons
    queue_since: tuple[int | None, ...]  #: first cycles of these stalls
    entry: int | None = None  #: TE, VE: id of the entry it works on
    opcode: str | None = None
    started: int | None = None
    body_left: int | None = None  #: [cycle] of work with operands
    held_since: int | None = None
    next_event: int | None = None  #: next cycle in which it acts, if known
    line: str | None = None  #: TE, VE: of the kernel that issued the current job


@dataclass(frozen=True, slots=True)
class MachineState:
    """All engines, and how many flows share each resource."""

    cycle: int
    status: str
    engines: tuple[EngineState, ...]
    members: dict[str, int]

    def to_dict(self) -> list[dict[str, Any]]:
        """The engines as plain JSON; rates are `"num/den"` or an integer, as text."""
        return [_plain(asdict(engine)) for engine in self.engines]


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


ENGINES = ("dma", "te", "ve")  #: commands of these are of a line; those for processors name a launch


def machine_state(plan: Plan, known: Commands, raw: dict[str, Any], cycle: int, status: str) -> MachineState:
    """The state of every engine, in the order of the counters."""
    engines = [_dma_engine(name, engine, known, plan, cycle) for name, engine in zip(plan.dma, raw["dma"], strict=True)]
    compute = zip(plan.compute, raw["compute"], strict=True)
    engines += [_compute_engine(name, engine, known, cycle) for name, engine in compute]
    members = dict(zip(plan.resources, (r["members"] for r in raw["resources"]), strict=True))
    return MachineState(cycle, status, tuple(engines), members)


def engine_state(plan: Plan, known: Commands, raw: dict[str, Any], name: str, cycle: int) -> EngineState:
    """The state of one engine, by its name."""
    if name in plan.dma:
        return _dma_engine(name, raw["dma"][plan.dma.index(name)], known, plan, cycle)
    return _compute_engine(name, raw["compute"][plan.compute.index(name)], known, cycle)


def _flow(flow: dict[str, Any], plan: Plan) -> FlowState:
    waits = None
    if flow["held_since"] is not None:
        waits = "backpressure" if flow["out"] else "bank"
    elif flow["in_line"]:
        waits = "line"
    channel = plan.resources[flow["channel"]] if flow["channel"] >= 0 else None
    return FlowState(channel, flow["bytes_left"], Fraction(*flow["rate"]), flow["held_since"], waits)


def _id_and_opcode(position: int, known: Commands) -> tuple[int, str]:
    """The id of a command; None for a job that a component submitted without a description."""
    return (known[position].id, known[position].opcode) if position >= 0 else (-1, "COMPONENT")


def _line(position: int, known: Commands) -> str | None:
    """The line of the kernel that issued it; None for an entry, or a job without a description."""
    command = known[position] if position >= 0 else None
    return (command.meta.get("marker") or None) if isinstance(command, Command) and command.engine in ENGINES else None


def _job(job: dict[str, Any], known: Commands, plan: Plan) -> JobState:
    id, opcode = _id_and_opcode(job["entry"], known)
    flows = tuple(_flow(flow, plan) for flow in job["flows"]) if job["state"] else ()
    return JobState(
        id=id,
        opcode=opcode,
        state=DMA_STATES[job["state"]],
        channel=CHANNELS[job["channel"]],
        bytes=job["bytes"],
        bytes_left=job["bytes_left"],
        rate=sum((flow.rate for flow in flows), Fraction(0)),
        stall=STALLS[job["stall"]],
        stalled_since=job["stalled_since"],
        joins_at=job.get("joins_at"),
        flows=flows,
        line=_line(job["entry"], known),
    )


def _dma_engine(name: str, engine: dict[str, Any], known: Commands, plan: Plan, cycle: int) -> EngineState:
    jobs = tuple(_job(job, known, plan) for job in engine["active"])
    queue = [_job(job, known, plan) for job in engine["queue"]]
    activity = "idle"
    if jobs:
        free = any(job.joins_at is not None or any(f.held_since is None for f in job.flows) for job in jobs)
        pressed = all(job.stall == "backpressure" for job in jobs)
        activity = "busy" if free else "backpressure" if pressed else "bank_conflict"
    asks = [f["asks_at"] for job in engine["active"] for f in job["flows"] if f["asks_at"] is not None]
    joins = [job.joins_at for job in jobs if job.joins_at is not None]
    return EngineState(
        name=name,
        activity=activity,
        jobs=jobs,
        queue=tuple(job.id for job in queue),
        queue_stalls=tuple(job.stall for job in queue),
        queue_since=tuple(job.stalled_since for job in queue),
        next_event=max(cycle, min(asks + joins)) if asks or joins else None,
    )


def _compute_engine(name: str, engine: dict[str, Any], known: Commands, cycle: int) -> EngineState:
    queue = tuple(_id_and_opcode(i, known)[0] for i in engine["queue"])
    nothing = (None,) * len(queue)
    if engine["entry"] is None and engine.get("draining"):  # the first of the jobs that have left the array
        number, end = engine["draining"][0]
        id, opcode = _id_and_opcode(number, known)
        return EngineState(name, "busy", (), queue, nothing, nothing, entry=id, opcode=opcode, next_event=end)
    if engine["entry"] is None:
        return EngineState(name, "idle", (), queue, nothing, nothing)
    id, opcode = _id_and_opcode(engine["entry"], known)
    held = engine["held_since"]
    due = engine["done_at"] if engine["done_at"] is not None else engine["next_at"]
    return EngineState(
        name=name,
        activity="busy" if held is None else "bank_conflict",
        jobs=(),
        queue=queue,
        queue_stalls=nothing,
        queue_since=nothing,
        entry=id,
        opcode=opcode,
        started=engine["started"],
        body_left=engine["body_left"],
        held_since=held,
        next_event=None if due is None else max(cycle, due),
        line=_line(engine["entry"], known),
    )
