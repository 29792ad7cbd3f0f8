"""Inline functions that record nearly every request of a traced run."""
from kernbench_core.model.compute cimport MAX_REGIONS, Compute
from kernbench_core.trace.events cimport REC_RUN, TRACE_FULL, Event, FlowTrace, Note, StreamTrace, emit
from kernbench_core.model.share.membership cimport Flow, on_resources
from kernbench_core.model.sim cimport Sim, flow_channel
from kernbench_core.types cimport DMA, NEVER, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t
from kernbench_core.fast.block_ports cimport Walk

cdef inline void put_note(Walk* w, slot_t requester, int64_t c, uint64_t reads, uint64_t writes) noexcept nogil:
    """Note a request that was granted completely."""
    cdef Note* note = w.trace.note
    note.banks[0] = reads
    note.banks[1] = writes
    note.requester = requester
    note.cycle = <int32_t>c
    w.trace.note = note + 1

cdef inline void open_run(FlowTrace* t, Flow* f, nbytes_t left, int32_t bank) noexcept nogil:
    """A flow requests bytes or may do so. `left` bytes of its address run are not requested yet; the first of them is on `bank`.
    If no run is open, a run begins at this byte."""
    if t.requested == NEVER:
        t.at = f.at
        t.at.run_left = left
        t.at.addr += t.at.run_seen - left
        t.at.dram += t.at.run_seen - left
        t.at.run_seen = left
        t.bank = bank
        t.conflict = False
    t.left = left

cdef inline void run_requested(FlowTrace* t, cycle_t now) noexcept nogil:
    if t.requested == NEVER:
        t.requested = now

cdef inline void emit_moved(Sim* s, Flow* f, FlowTrace* t, int32_t kind, cycle_t now) noexcept nogil:
    """Record that the bytes of the open run of a flow have moved."""
    cdef Event* r = emit(
        s.trace, kind, now, 6, DMA, f.engine, f.job_seq, flow_channel(s, f), 60 if kind == REC_RUN else 111, s.dma_job[f.job].entry)
    if r:
        r.v[0] = f.job_seq
        r.v[1] = max(flow_channel(s, f), 0)
        r.v[2] = on_resources(f, t.at.dram)
        r.v[3] = t.at.addr
        r.v[4] = t.at.run_left
        r.v[5] = now + 1 - t.requested
        r.v[6] = t.bank
        r.v[7] = t.conflict

cdef inline bint run_served(Sim* s, Flow* f, FlowTrace* t, cycle_t now) noexcept nogil:
    """Handle a request that was served at once and moves bytes of a single run: only the end of the run is recorded. Return false, and
    do nothing, if the bytes are of several runs or if the trace has the level `access`."""
    if s.trace.level > TRACE_FULL or f.requested > t.left:
        return False
    if f.requested == t.left:
        emit_moved(s, f, t, REC_RUN, now)
        t.requested = NEVER
    return True

cdef inline StreamTrace* streams_of(Sim* s, slot_t requester) noexcept nogil:
    return &s.stream_trace[(requester - s.n_flows) * MAX_REGIONS]

cdef inline void before_request(Compute* e, StreamTrace* t) noexcept nogil:
    """Called before a TE or VE makes a new request; `after_request` is called after it, so that the requested bytes of each region are
    known."""
    cdef int32_t k
    for k in range(e.streams):
        if e.body_left == e.body:               # the first body cycle of the job
            t[k].requested = NEVER
            t[k].conflict = False
        t[k].first = e.stream[k].at

cdef inline void after_request(Compute* e, StreamTrace* t) noexcept nogil:
    cdef int32_t k
    for k in range(e.streams):
        t[k].last = min(e.stream[k].at, e.stream[k].nbytes)
        t[k].first = max(t[k].first, 0)
