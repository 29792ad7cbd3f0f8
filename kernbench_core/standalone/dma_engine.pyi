"""The DMA engine by itself, as the seed document has it: `submit`, `step`, `flush`."""

from collections.abc import Mapping
from typing import Any

from kernbench_core.standalone.dma_job import CompletionEvent, DmaJob, MemoryModel, TraceEngine

class DmaEngine:
    """The DMA state machine of the core alone; `step` moves bytes through a `MemoryModel`.

    `channels`: for act_weight, kv_load and kv_store a mapping with `max_concurrent` (>= 1), `priority` and `weight` (>= 1).
    `kv_load_bonus`: added to the score of KV loads. `period`: [cycle] jobs start only in multiples of it. ValueError for a
    limit that is out of range.

    >>> from kernbench_core import DmaEngine, DmaJob
    >>> engine = DmaEngine(max_concurrent_transfers=1)
    >>> engine.submit(DmaJob(cmdq_id=0, direction="read", tensor_role="weight", bytes_total=96, bytes_aligned=96, dram_addr=0))
    >>> len(engine.pending_queue), len(engine.active_jobs)
    (1, 0)
    """

    def __init__(
        self,
        *,
        max_concurrent_transfers: int = 4,
        kv_load_bonus: int = 1,
        period: int = 1,
        channels: Mapping[str, Mapping[str, int]] | None = None,
        arbiter: int = 0,
    ) -> None: ...
    @property
    def pending_queue(self) -> list[DmaJob]:
        """Jobs that have not started, in submission order."""

    @property
    def active_jobs(self) -> list[DmaJob]:
        """Jobs that are TRANSFERRING, in submission order."""

    @property
    def stats(self) -> dict[str, Any]:
        """Totals so far: completed jobs, bytes moved from DRAM (`read_bytes`), to DRAM (`write_bytes`) and both (`dram_bytes`),
        `mean_latency_cycles` of completed jobs from start to end (None without one), and job-cycles of `queue_full` and
        `priority_deferred` in episodes that have ended.
        """

    def submit(self, job: DmaJob) -> None:
        """Queue a job. It is seen by the next `step`. ValueError where the job is no valid transfer (docs/model/endings.md)."""

    def step(
        self, cycle: int, memory_model: MemoryModel, trace_engine: TraceEngine | None = None
    ) -> list[CompletionEvent]:
        """Do one cycle; the completions, in submission order. Cycles must rise. `trace_engine` may be None.

        IllegalTransition where the memory side moves bytes that are not there to be moved.
        """

    def flush(self) -> None:
        """RuntimeError where a job is left."""
