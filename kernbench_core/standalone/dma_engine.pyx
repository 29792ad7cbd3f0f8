"""The DMA engine by itself, as the seed document specifies it: `submit`, `step`, `flush`.

It is the same state machine of model/dma.pyx that the loop runs, with the memory side as an object: the core's own is `CoreMemory`
(standalone/memory.pyx), and a test may use another. One `step` is P3, then the memory's cycle, then P7.
"""
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from kernbench_core.model.dma cimport (
    DmaEngine as Engine, DmaJob as Job, dma_begin_admission, dma_complete, dma_defer, dma_stall, dma_start,
    dma_submit)
from kernbench_core.model.dma_arbiter cimport N_DMA_ARBITERS, dma_pick
from kernbench_core.types cimport BACKPRESSURE, NONE, NOT_STALLED, QUEUE_FULL, cycle_t, int32_t, int64_t, slot_t

from kernbench_core.standalone.dma_job import CompletionEvent, IllegalTransition

CHANNEL_NAMES = ("act_weight", "kv_load", "kv_store")
REASONS = (None, "queue_full", "priority_deferred", "backpressure")


cdef class DmaEngine:
    """The DMA state machine of the core alone; `step` moves bytes through a `MemoryModel`.

    `arbiter`: the number of the rule that chooses the next job, a position in `kernbench.config.schema.DMA_ARBITERS`.
    `channels`: a mapping with `max_concurrent` (>= 1), `priority` and `weight` (>= 1) for each of act_weight, kv_load and kv_store.
    `kv_load_bonus`: added to the score of KV loads. `period`: [cycle] jobs start only in multiples of this number. ValueError for a limit
    that is out of range.

    >>> from kernbench_core import DmaEngine, DmaJob
    >>> engine = DmaEngine(max_concurrent_transfers=1)
    >>> engine.submit(DmaJob(cmdq_id=0, direction="read", tensor_role="weight", bytes_total=96, bytes_aligned=96, dram_addr=0))
    >>> len(engine.pending_queue), len(engine.active_jobs)
    (1, 0)
    """
    cdef Engine engine
    cdef Job* job
    cdef list jobs              # the DmaJob of each slot; None if the slot is free
    cdef list unused
    cdef slot_t room
    cdef int64_t submitted
    cdef dict groups
    cdef cycle_t last_cycle
    cdef int64_t read_bytes, write_bytes     # moved so far, between DRAM and scratchpad
    cdef int64_t latency_cycles              # of completed jobs, from start to end

    def __init__(self, *, int32_t max_concurrent_transfers=4, int32_t kv_load_bonus=1, int64_t period=1, channels=None,
                 int32_t arbiter=0):
        cdef int32_t k
        given = dict(channels or {})
        memset(&self.engine, 0, sizeof(Engine))
        for k in range(len(CHANNEL_NAMES)):
            spec = dict(given.pop(CHANNEL_NAMES[k], {}))
            self.engine.limit[k].max_concurrent = spec.pop("max_concurrent", 4)
            self.engine.limit[k].score = spec.pop("priority", 0) + (kv_load_bonus if k == 1 else 0)
            self.engine.limit[k].weight = spec.pop("weight", 1)
            self.engine.channel[k].first = self.engine.channel[k].last = NONE
            if self.engine.limit[k].max_concurrent < 1 or self.engine.limit[k].weight < 1:
                raise ValueError(f"channels.{CHANNEL_NAMES[k]}: max_concurrent and weight must be at least 1")
            if spec:
                raise ValueError(f"channels.{CHANNEL_NAMES[k]}: unknown key {min(spec)!r}")
        if given:
            raise ValueError(f"channels: {min(given)!r} is none of {', '.join(CHANNEL_NAMES)}")
        if max_concurrent_transfers < 1 or period < 1:
            raise ValueError("max_concurrent_transfers and period must be at least 1")
        if not 0 <= arbiter < N_DMA_ARBITERS:
            raise ValueError(f"arbiter = {arbiter}, but it must be 0 to {N_DMA_ARBITERS - 1}")
        self.engine.arbiter = arbiter
        self.engine.max_concurrent = max_concurrent_transfers
        self.engine.period = period
        self.jobs = []
        self.unused = []
        self.groups = {}
        self.last_cycle = -1

    def __dealloc__(self):
        free(self.job)

    @property
    def pending_queue(self):
        """Jobs that have not started, in submission order."""
        waiting = [job for job in self.jobs if job is not None and job.state == "QUEUED"]
        return sorted(waiting, key=submission)

    @property
    def active_jobs(self):
        """Jobs that are TRANSFERRING, in submission order."""
        return sorted([job for job in self.jobs if job is not None and job.state == "TRANSFERRING"], key=submission)

    cdef slot_t take_slot(self) except -1:
        cdef Job* grown
        if self.unused:
            return self.unused.pop()
        if len(self.jobs) == self.room:
            grown = <Job*>realloc(self.job, (2 * self.room + 16) * sizeof(Job))
            if grown == NULL:
                raise MemoryError("no memory for one more DMA job")
            self.job = grown
            self.room = 2 * self.room + 16
        self.jobs.append(None)
        return len(self.jobs) - 1

    def submit(self, job):
        """Queue a job. The next `step` handles the job. ValueError if the job is not a valid transfer (docs/model/endings.md)."""
        cdef slot_t slot
        cdef Job* j
        check_job(job)
        if job.cmdq_id in [other.cmdq_id for other in self.jobs if other is not None]:
            raise ValueError(f"job {job.cmdq_id}: a job with this cmdq_id is in the engine already")
        slot = self.take_slot()
        j = &self.job[slot]
        memset(j, 0, sizeof(Job))
        j.entry = slot
        j.nbytes = job.bytes_aligned
        j.channel = CHANNEL_NAMES.index(job.channel)
        j.write = job.direction == "write"
        j.group = NONE
        j.flows = NONE
        if j.write and job.kv_range is not None and job.kv_base is not None:
            j.group = self.groups.setdefault((job.kv_base, job.head_id, job.kv_kind), len(self.groups))
            j.t_start = job.kv_range.t_start
        self.jobs[slot] = job
        job.remaining_bytes = job.bytes_aligned
        job.sequence = self.submitted
        job.story.append((self.last_cycle + 1, f"submitted ({job.channel}, {job.direction}, {job.bytes_aligned} bytes)"))
        dma_submit(&self.engine, self.job, slot, self.submitted)
        self.submitted += 1

    def step(self, int64_t cycle, memory_model, trace_engine=None):
        """Run one cycle; return the completions, in submission order. The cycles of successive calls must increase. `trace_engine` may be
        None.

        IllegalTransition if the memory side moves bytes that the transfer does not have.
        """
        cdef slot_t slot
        if cycle <= self.last_cycle:
            raise ValueError(f"cycle {cycle} comes after cycle {self.last_cycle}")
        self.last_cycle = cycle
        if cycle % self.engine.period == 0:
            self.admit(cycle, memory_model, trace_engine)
        moved = dict(memory_model.tick(cycle))
        done = []
        for job in self.active_jobs:
            slot = self.jobs.index(job)
            self.advance(slot, job, moved.pop(job.cmdq_id, 0), cycle, memory_model, trace_engine)
            if job.remaining_bytes == 0:
                self.complete(slot, job, cycle, memory_model, trace_engine)
                done.append(CompletionEvent(job.cmdq_id, cycle + 1))
        for cmdq_id, nbytes in moved.items():
            if nbytes:
                self.refuse_move(cmdq_id, nbytes, cycle)
        return done

    def flush(self):
        """RuntimeError if a job is left."""
        left = self.active_jobs + self.pending_queue
        if left:
            names = ", ".join(f"{job.cmdq_id} ({job.state}, {job.remaining_bytes} bytes left)" for job in left)
            raise RuntimeError(f"DMA jobs are left: {names}")

    cdef int admit(self, cycle_t cycle, memory, trace) except -1:
        """P3."""
        cdef slot_t slot
        waiting = self.pending_queue
        dma_begin_admission(&self.engine)
        while True:
            slot = dma_pick(&self.engine, self.job)
            if slot == NONE:
                break
            job = self.jobs[slot]
            if not memory.bus_can_enqueue(job):
                dma_stall(&self.engine, &self.job[slot], QUEUE_FULL, cycle)
                break
            self.resume(slot, job, cycle, trace)
            if not dma_start(&self.engine, self.job, slot, cycle):
                raise IllegalTransition(story_of(job, "TRANSFERRING", cycle))
            memory.enqueue(job, cycle)
            job.state = "TRANSFERRING"
            job.start_cycle = cycle
            job.story.append((cycle, "started"))
            emit(trace, "ENGINE_EVENT", cycle, job, what="start", bytes=job.bytes_aligned)
        dma_defer(&self.engine, self.job, cycle)
        for job in waiting:
            self.show_stall(self.jobs.index(job), job, cycle, trace)
        return 0

    cdef int advance(self, slot_t slot, job, nbytes, cycle_t cycle, memory, trace) except -1:
        """P6 and the backpressure of P7 for one transfer."""
        cdef Job* j = &self.job[slot]
        if nbytes < 0 or nbytes > job.remaining_bytes:
            self.refuse_move(job.cmdq_id, nbytes, cycle)
        if nbytes:
            self.show_access(job, nbytes, cycle, trace)
            job.remaining_bytes -= nbytes
            if j.write:
                self.write_bytes += nbytes
            else:
                self.read_bytes += nbytes
        if job.remaining_bytes and memory.backpressure(job):
            dma_stall(&self.engine, j, BACKPRESSURE, cycle)
            self.show_stall(slot, job, cycle, trace)
        else:
            self.resume(slot, job, cycle, trace)
        return 0

    cdef int show_access(self, job, nbytes, cycle_t cycle, trace) except -1:
        """Report the bytes of one cycle: one event for each row of the job to which they belong."""
        cdef int64_t first = job.bytes_aligned - job.remaining_bytes, left = nbytes, row_bytes, row, part
        if trace is None:
            return 0
        row_bytes = job.bytes_aligned // job.rows
        while left:
            row = min(first // row_bytes, job.rows - 1)      # the last row also contains the remainder after the other rows
            part = left if row == job.rows - 1 else min(left, (row + 1) * row_bytes - first)
            emit(trace, "MEM_ACCESS_EVENT", cycle, job, bytes=part, direction=job.direction, source_engine="DMA",
                 dram_addr=job.dram_addr + row * job.stride_bytes + first - row * row_bytes,
                 spm_bank=job.spm_bank, spm_offset=job.spm_offset + first)
            first += part
            left -= part
        return 0

    cdef int complete(self, slot_t slot, job, cycle_t cycle, memory, trace) except -1:
        if not dma_complete(&self.engine, &self.job[slot]):
            raise IllegalTransition(story_of(job, "COMPLETED", cycle))
        job.state = "COMPLETED"
        job.story.append((cycle + 1, "completed"))
        memory.dequeue(job)
        self.latency_cycles += cycle + 1 - job.start_cycle
        emit(trace, "ENGINE_EVENT", cycle + 1, job, what="end", bytes=job.bytes_aligned,
             start_cycle=job.start_cycle, end_cycle=cycle + 1)
        self.jobs[slot] = None
        self.unused.append(slot)
        return 0

    cdef int show_stall(self, slot_t slot, job, cycle_t cycle, trace) except -1:
        """Report a stall episode that began."""
        cdef Job* j = &self.job[slot]
        if j.reason == NOT_STALLED or job.stalled:
            return 0
        job.stalled = True
        job.stall_reason = REASONS[j.reason]
        job.story.append((cycle, f"stalled {job.stall_reason}"))
        emit(trace, "STALL_EVENT", cycle, job, reason=job.stall_reason)
        return 0

    cdef int resume(self, slot_t slot, job, cycle_t cycle, trace) except -1:
        """End the open stall episode, if there is one."""
        cdef Job* j = &self.job[slot]
        if not job.stalled:
            return 0
        emit(trace, "RESUME_EVENT", cycle, job, reason=job.stall_reason, duration=cycle - j.stalled_at)
        job.story.append((cycle, f"resumed after {cycle - j.stalled_at} cycles"))
        job.stalled = False
        job.stall_reason = None
        if j.reason == BACKPRESSURE:
            j.reason = NOT_STALLED        # the other reasons are closed, and counted, when the job starts
        return 0

    cdef int refuse_move(self, cmdq_id, nbytes, cycle_t cycle) except -1:
        for job in self.jobs:
            if job is not None and job.cmdq_id == cmdq_id:
                raise IllegalTransition(
                    f"cycle {cycle}: the memory side moved {nbytes} bytes of job {cmdq_id}, which is {job.state} with "
                    f"{job.remaining_bytes} bytes left{told(job)}")
        raise IllegalTransition(f"cycle {cycle}: the memory side moved {nbytes} bytes of job {cmdq_id}, which is not in the engine")

    @property
    def stats(self):
        """Totals so far: completed jobs, bytes moved from DRAM (`read_bytes`), to DRAM (`write_bytes`) and both (`dram_bytes`).
        `mean_latency_cycles` is the mean over completed jobs from start to end (None without any). `queue_full` and `priority_deferred` are
        job-cycles of stall episodes that have ended.
        """
        jobs = self.engine.jobs
        return {
            "jobs": jobs,
            "queue_full": self.engine.queue_full,
            "priority_deferred": self.engine.deferred,
            "dram_bytes": self.read_bytes + self.write_bytes,
            "read_bytes": self.read_bytes,
            "write_bytes": self.write_bytes,
            "mean_latency_cycles": self.latency_cycles / jobs if jobs else None,
        }


def submission(job):
    """The order of submission, as a sort key."""
    return job.sequence


def story_of(job, wanted, cycle):
    """The message of an illegal transition."""
    return f"job {job.cmdq_id}: {wanted} is not reachable from {job.state} at cycle {cycle}{told(job)}"


def told(job):
    """The story of a job, with one line for each event."""
    return "".join([f"\n  cycle {at}: {what}" for at, what in job.story])


def emit(trace, kind, cycle, job, **fields):
    """Send an event to the trace engine, if there is one."""
    if trace is not None:
        trace.emit(kind, cycle, {"cmdq_id": job.cmdq_id, **fields})


cdef int check_job(job) except -1:
    name = f"job {job.cmdq_id}"
    if job.strides:
        raise ValueError(f"{name}: strides = {job.strides!r}: ND strides are out of scope; a 2-D tile has rows and stride_bytes")
    if job.compressed:
        raise ValueError(f"{name}: compressed transfers are out of scope")
    if job.direction not in ("read", "write"):
        raise ValueError(f"{name}: direction = {job.direction!r}, but it must be read or write")
    if job.state != "QUEUED" or job.story:
        raise IllegalTransition(story_of(job, "QUEUED", -1))
    for field in ("bytes_total", "bytes_aligned", "rows"):
        if getattr(job, field) <= 0:
            raise ValueError(f"{name}: {field} = {getattr(job, field)}, but it must be above 0")
    if job.bytes_aligned < job.bytes_total:
        raise ValueError(f"{name}: bytes_aligned = {job.bytes_aligned}, but bytes_total = {job.bytes_total} do not fit into it")
    for field in ("dram_addr", "spm_bank", "spm_offset"):
        if getattr(job, field) < 0:
            raise ValueError(f"{name}: {field} = {getattr(job, field)}, but it must not be below 0")
    if job.rows > 1 and (job.bytes_total % job.rows or job.stride_bytes < job.bytes_total // job.rows):
        raise ValueError(
            f"{name}: {job.rows} rows of {job.bytes_total} bytes together need a stride_bytes of at least one row, not {job.stride_bytes}")
    return 0
