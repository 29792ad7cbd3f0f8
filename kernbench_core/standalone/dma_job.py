"""The inputs and outputs of the stand-alone DMA engine, and the interface of its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class KvRange:
    """The part of a KV cache that a KV job moves: tokens `[t_start, t_start + t_len)` and elements `[d_start, d_start +
    d_len)` of one head.

    >>> from kernbench_core import KvRange
    >>> KvRange(t_start=0, t_len=16, d_start=0, d_len=128).t_len
    16
    """

    t_start: int
    t_len: int
    d_start: int
    d_len: int


@dataclass(eq=False)
class DmaJob:
    """One transfer, the argument of `DmaEngine.submit`. Sizes are in bytes.

    The engine writes the fields below the comment line, and all other code only reads them. The engine does not support
    `strides` and `compressed`: `submit` raises ValueError for a job that has them.

    >>> from kernbench_core import DmaJob
    >>> job = DmaJob(cmdq_id=0, direction="read", tensor_role="weight", bytes_total=96, bytes_aligned=96, dram_addr=0)
    >>> job.channel, job.state
    ('act_weight', 'QUEUED')
    """

    cmdq_id: int
    direction: Literal["read", "write"]  #: read: DRAM to scratchpad
    tensor_role: str  #: activation, weight, kv or embedding
    bytes_total: int
    bytes_aligned: int  #: the bytes that are transferred
    dram_addr: int
    spm_bank: int = 0
    spm_offset: int = 0
    head_id: int | None = None
    kv_kind: Literal["k", "v"] | None = None
    kv_range: KvRange | None = None
    kv_layout_id: int | None = None
    kv_base: int | None = None  #: for a KV store: with head_id and kv_kind, the group in which the order of t_start is kept
    rows: int = 1
    stride_bytes: int = 0  #: from row to row; bytes_total is the sum over all rows
    strides: tuple[int, ...] = ()
    compressed: bool = False
    # ---
    sequence: int = field(default=-1, init=False)  #: submission number in the engine; breaks ties, also for banks
    remaining_bytes: int = field(default=0, init=False)
    start_cycle: int = field(default=-1, init=False)  #: [cycle] in which the transfer began; -1 before
    state: Literal["QUEUED", "TRANSFERRING", "COMPLETED"] = field(default="QUEUED", init=False)
    stalled: bool = field(default=False, init=False)
    stall_reason: str | None = field(default=None, init=False)  #: queue_full, priority_deferred, backpressure
    story: list[tuple[int, str]] = field(default_factory=list, init=False, repr=False)  #: (cycle, event)

    @property
    def channel(self) -> Literal["act_weight", "kv_load", "kv_store"]:
        """The DMA channel to which the job belongs."""
        if self.tensor_role != "kv":
            return "act_weight"
        return "kv_load" if self.direction == "read" else "kv_store"


@dataclass(frozen=True, slots=True)
class CompletionEvent:
    """A job of `DmaEngine` is complete: its last byte moved in cycle `cycle - 1`.

    >>> from kernbench_core import CompletionEvent
    >>> CompletionEvent(cmdq_id=0, cycle=3).cycle
    3
    """

    cmdq_id: int
    cycle: int


class MemoryModel(Protocol):
    """The memory through which a `DmaEngine` moves bytes: five methods that the engine calls in every step.

    >>> from kernbench_core import DmaEngine, DmaJob
    >>> class Wide:
    ...     def __init__(self): self.open = []
    ...     def bus_can_enqueue(self, job): return True
    ...     def enqueue(self, job, cycle): self.open.append(job)
    ...     def tick(self, cycle): return {job.cmdq_id: min(64, job.remaining_bytes) for job in self.open}
    ...     def backpressure(self, job): return False
    ...     def dequeue(self, job): self.open.remove(job)
    >>> engine, memory = DmaEngine(), Wide()
    >>> engine.submit(DmaJob(cmdq_id=0, direction="read", tensor_role="weight", bytes_total=96, bytes_aligned=96, dram_addr=0))
    >>> [engine.step(cycle, memory) for cycle in range(2)]
    [[], [CompletionEvent(cmdq_id=0, cycle=2)]]
    """

    def bus_can_enqueue(self, job: DmaJob) -> bool:
        """Whether there is room for one more transfer in the job's channel; False stalls the engine with `queue_full`."""

    def enqueue(self, job: DmaJob, cycle: int) -> None:
        """The transfer starts in this cycle."""

    def tick(self, cycle: int) -> Mapping[int, int]:
        """Run this cycle; return the bytes that moved in it, by `cmdq_id`."""

    def backpressure(self, job: DmaJob) -> bool:
        """Whether the transfer is stalled by backpressure; called after `tick`."""

    def dequeue(self, job: DmaJob) -> None:
        """The transfer is complete; its room is free from the next cycle on."""


class TraceEngine(Protocol):
    """The third argument of `DmaEngine.step`: an object that gets the events of the engine.

    >>> class Printed:
    ...     def emit(self, event_type, cycle, fields): print(cycle, event_type)
    >>> Printed().emit("ENGINE_EVENT", 3, {"what": "start"})
    3 ENGINE_EVENT
    """

    def emit(self, event_type: str, cycle: int, fields: Mapping[str, Any]) -> None:
        """Receive an event; its fields include `cmdq_id`.

        ENGINE_EVENT has `what` (start or end) and `bytes`; the end also has `start_cycle` and `end_cycle`. STALL_EVENT has
        `reason`; RESUME_EVENT also has `duration`. MEM_ACCESS_EVENT reports the bytes of one row that moved in this cycle:
        `bytes`, `direction` (read or write), `source_engine` (DMA), and the `dram_addr`, `spm_bank` and `spm_offset` of the
        first byte. The offset may exceed the size of the bank, because addresses of a scratchpad continue in the next bank.
        """


class IllegalTransition(RuntimeError):
    """A transition was requested that the state machine of a job does not have. The message lists the events of the job so far.

    >>> from kernbench_core import IllegalTransition
    >>> issubclass(IllegalTransition, RuntimeError)
    True
    """
