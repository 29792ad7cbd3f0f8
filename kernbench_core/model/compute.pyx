"""The life of a job in a TE or VE: queued, init, body, finalize, complete.

A job that streams operands is a requester of its scratchpad from its start to the end of its body, and each served body cycle
is one cycle of progress. The init, the finalize, and the body of an engine without traffic make no requests, so their end is
known at once.
"""
from kernbench_core.model.division cimport reciprocal
from kernbench_core.model.bank cimport BOUNDED_CYCLES, Spm, line_of
from kernbench_core.types cimport NEVER, NONE, cycle_t, int32_t, int64_t, slot_t, uint64_t


cdef void compute_enqueue(Compute* e, ComputeJob* jobs, slot_t job) noexcept nogil:
    jobs[job].next = NONE
    if e.queue_last == NONE:
        e.queue_first = job
    else:
        jobs[e.queue_last].next = job
    e.queue_last = job
    e.queued += 1


cdef void open_stream(Stream* s, Region* r, bint write, Spm* p, cycle_t body) noexcept nogil:
    s.nbytes = r.nbytes
    s.write = write
    s.per_cycle = (r.nbytes + body - 1) // body
    s.inverse = reciprocal(s.per_cycle)
    s.line = line_of(p, r.addr)
    s.at = s.line * p.line - r.addr             # the first cycle also requests the line in which the region begins
    s.next = 0
    s.whole = r.nbytes // s.per_cycle
    s.steady = 0
    if p.blocked:
        return
    s.line %= p.banks
    if p.narrow and s.at == 0 and s.per_cycle % p.line == 0:
        s.steady = p.full if s.per_cycle // p.line >= p.banks else (<uint64_t>1 << s.per_cycle // p.line) - 1
        s.step = <int32_t>(s.per_cycle // p.line % p.banks)


cdef inline int64_t rounds(Stream* s, Spm* p) noexcept nogil:
    """The most lines that begin in BOUNDED_CYCLES body cycles and are in the same bank. The stream is at its beginning."""
    return (BOUNDED_CYCLES * s.per_cycle - s.at + p.row - 1) // p.row


cdef inline cycle_t finalize_of(Compute* e, ComputeJob* j) noexcept nogil:
    """The cycles after its body in which a job occupies the engine."""
    return 0 if e.overlaps else j.finalize


cdef cycle_t compute_start(Compute* e, ComputeJob* jobs, Spm* p, cycle_t now) noexcept nogil:
    """Start the head of the queue; return the first body cycle with traffic, or NEVER if there is none."""
    cdef ComputeJob* j = &jobs[e.queue_first]
    cdef int32_t k
    e.job = e.queue_first
    e.queue_first = j.next
    if e.queue_first == NONE:
        e.queue_last = NONE
    e.queued -= 1
    e.started = now
    e.done_at = NEVER
    e.streams = 0
    e.dense = False
    e.idle = 0
    e.body = e.body_left = j.body - e.outside
    if not e.traffic or e.body == 0 or j.regions == 0:
        e.body_left = 0
        e.done_at = now + (j.init + e.body + finalize_of(e, j) - 1) * e.period
        return NEVER
    e.streams = j.regions
    e.sparse = True
    e.often = 0
    for k in range(j.regions):
        open_stream(&e.stream[k], &j.region[k], writes_to(j, k), p, e.body)
        if 4 * e.stream[k].per_cycle >= p.line:
            e.sparse = False
        e.often = <int32_t>min(e.often + rounds(&e.stream[k], p), BOUNDED_CYCLES)
    e.dense = (not e.sparse and e.period == 1 and p.narrow and p.penalty == 1 and not p.split and not p.blocked
               and p.line_shift >= 0)
    return now + j.init * e.period


cdef void compute_rebuild(Compute* e, ComputeJob* jobs, Spm* p) noexcept nogil:
    """Recompute the fields of the streams that follow from the job."""
    cdef Stream old
    cdef int32_t k
    for k in range(e.streams if e.job != NONE else 0):
        old = e.stream[k]
        open_stream(&e.stream[k], &jobs[e.job].region[k], writes_to(&jobs[e.job], k), p, e.body)
        e.stream[k].at = old.at
        e.stream[k].next = old.next
        e.stream[k].line = old.line


cdef void compute_seek(Compute* e, ComputeJob* jobs, Spm* p, cycle_t i) noexcept nogil:
    """Move the streams to the lines of body cycle `i`."""
    cdef Stream* s
    cdef Region* r
    cdef int64_t line, lines
    cdef int32_t k
    for k in range(e.streams):
        s = &e.stream[k]
        r = &jobs[e.job].region[k]
        line = line_of(p, r.addr)
        s.at = line * p.line - r.addr
        lines = line_of(p, min(i * s.per_cycle, s.nbytes) - s.at + p.line - 1) if i else 0
        s.at += lines * p.line
        s.line = line + lines
        if not p.blocked:
            s.line %= p.banks
        if e.sparse and i:
            stream_next(s)


cdef void compute_body_done(Compute* e, ComputeJob* jobs, cycle_t now) noexcept nogil:
    """The last body cycle was served in `now`: finalize follows, with one cycle for each period."""
    cdef cycle_t rest = finalize_of(e, &jobs[e.job])
    e.idle = 0
    e.done_at = on_period(now + 1, e.period) + (rest - 1) * e.period if rest else now


cdef void compute_complete(Compute* e, ComputeJob* jobs, cycle_t end) noexcept nogil:
    count_job(e, &jobs[e.job])
    e.job_cycles += end - e.started
    e.job = NONE
