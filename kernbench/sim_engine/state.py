"""What every engine of a standing machine is doing (`Machine.peek`, `kbsim step`)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

STALLS = (None, "queue_full", "priority_deferred", "backpressure")
DMA_STATES = ("QUEUED", "TRANSFERRING", "COMPLETED")
CHANNELS = ("act_weight", "kv_load", "kv_store", "comm")


@dataclass(frozen=True, slots=True)
class FlowState:
    """The part of a transfer on one DRAM channel."""

    channel: str | None  #: the DRAM channel; None: there is none on its way
    bytes_left: int
    rate: Fraction  #: [B/cycle] while membership holds; 0 for a flow that is no member
    held_since: int | None  #: its request was first denied a bank in that cycle
    waits: str | None  #: bank, backpressure, line (fifo_v1), or None


@dataclass(frozen=True, slots=True)
class JobState:
    """A job of a DMA engine, in its queue or on its way."""

    id: int
    opcode: str
    state: str  #: QUEUED or TRANSFERRING
    channel: str
    bytes: int
    bytes_left: int
    rate: Fraction  #: [B/cycle] of all its flows
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
    queue_since: tuple[int | None, ...]  #: the cycles in which these stalls began
    entry: int | None = None  #: TE, VE: id of the entry it works on
    opcode: str | None = None
    started: int | None = None
    body_left: int | None = None  #: [cycle] of work with operands
    held_since: int | None = None
    next_event: int | None = None  #: the next cycle in which it acts, as far as it is known now
    line: str | None = None  #: TE, VE: of the kernel that issued what it works on


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
