"""What the stand-alone DMA engine is given, gives back and asks of its surroundings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class KvRange:
    """The part of a KV cache that a KV job moves, in elements of one head."""

    t_start: int
    t_len: int
    d_start: int
    d_len: int


@dataclass(eq=False)
class DmaJob:
    """One transfer. The fields below the line are the engine's: it sets them, others read them.

    Sizes in bytes. `strides` and `compressed` stand for what the engine does not do; it refuses them in `submit`.
    """

    cmdq_id: int
    direction: Literal["read", "write"]  #: read: DRAM to scratchpad
    tensor_role: str  #: activation, weight, kv or embedding
    bytes_total: int
    bytes_aligned: int  #: what travels
    dram_addr: int
    spm_bank: int = 0
    spm_offset: int = 0
    head_id: int | None = None
    kv_kind: Literal["k", "v"] | None = None
    kv_range: KvRange | None = None
    kv_layout_id: int | None = None
    kv_base: int | None = None  #: of a KV store: with head_id and kv_kind, the group that keeps the order of t_start
    rows: int = 1
    stride_bytes: int = 0  #: from row to row; bytes_total is that of all rows
    strides: tuple[int, ...] = ()
    compressed: bool = False
    # ---
    sequence: int = field(default=-1, init=False)  #: submission number in the engine; breaks ties, also for banks
    remaining_bytes: int = field(default=0, init=False)
    state: Literal["QUEUED", "TRANSFERRING", "COMPLETED"] = field(default="QUEUED", init=False)
    stalled: bool = field(default=False, init=False)
    stall_reason: str | None = field(default=None, init=False)  #: queue_full, priority_deferred, backpressure
    story: list[tuple[int, str]] = field(default_factory=list, init=False, repr=False)  #: (cycle, what happened)

    @property
    def channel(self) -> Literal["act_weight", "kv_load", "kv_store"]:
        """The engine's channel that it goes through."""
        if self.tensor_role != "kv":
            return "act_weight"
        return "kv_load" if self.direction == "read" else "kv_store"


@dataclass(frozen=True, slots=True)
class CompletionEvent:
    """A job's last byte moved in the cycle before `cycle`."""

    cmdq_id: int
    cycle: int


class MemoryModel(Protocol):
    """The memory side of a DMA engine: bus, network, DRAM and scratchpad."""

    def bus_can_enqueue(self, job: DmaJob) -> bool:
        """There is a place for one more transfer of the job's channel. False blocks the engine: `queue_full`."""

    def enqueue(self, job: DmaJob, cycle: int) -> None:
        """The transfer starts in this cycle."""

    def tick(self, cycle: int) -> Mapping[int, int]:
        """Do the cycle; the bytes that moved in it, by `cmdq_id`."""

    def backpressure(self, job: DmaJob) -> bool:
        """After `tick`: the transfer is pushed back."""

    def dequeue(self, job: DmaJob) -> None:
        """The transfer is complete; its place is free from the next cycle on."""


class TraceEngine(Protocol):
    """Who is told of an engine's events."""

    def emit(self, event_type: str, cycle: int, fields: Mapping[str, Any]) -> None:
        """ENGINE_EVENT (`what`: start or end), STALL_EVENT, RESUME_EVENT (with `duration`), MEM_ACCESS_EVENT (`bytes`)."""


class IllegalTransition(RuntimeError):
    """A job was asked to go where the state machine has no edge. The message tells the job's story."""
