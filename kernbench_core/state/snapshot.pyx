"""Snapshots contain exactly the model state: the quantities of docs/model that do not follow from others.

The tables and their order are defined here once for packing, showing, comparing and resuming (state/fields.pyx). Before any of these the
run is settled: its earnings are brought up to its cycle, and fields without a meaning in its state are zero. Runs in equal states therefore
have equal snapshots, in plain and in fast walks.
"""
from libc.stdlib cimport free, malloc

from kernbench_core.model.arbiter.arbiter cimport ARBITERS
from kernbench_core.model.bank cimport Requester
from kernbench_core.model.compute cimport MAX_REGIONS, ArrayJob, Compute
from kernbench_core.model.control cimport Entry
from kernbench_core.model.dma cimport DmaEngine, DmaJob
from kernbench_core.trace.events cimport FlowTrace, StreamTrace
from kernbench_core.model.pair_requesters cimport far_requester
from kernbench_core.state.cache_snapshot cimport max_cache_bytes, settle_caches, visit_caches, visit_write_backs
from kernbench_core.state.controller_snapshot cimport max_controller_bytes, visit_controllers
from kernbench_core.state.device_snapshot cimport max_device_bytes, visit_devices
from kernbench_core.model.share.membership cimport Flow, Resource, flow_next, share_accrue
from kernbench_core.model.sim cimport reads_of, writes_of
from kernbench_core.state.fields cimport (
    ARRAYJOB, ARRIVAL, COMPUTE, COUNTER, DMAENGINE, DMAJOB, ENTRY, FLOW, FLOWTRACE, REQUESTER, OVERLAPPED, POINTER,
    RESOURCE, SHARE, SIM, STREAMTRACE, WORD,
    Compare, Pack, Show)
from kernbench_core.model.bank_counters cimport tally_drain
from kernbench_core.types cimport (
    BACKPRESSURE, CONTROLLER_MODEL, DMA_TRANSFERRING, NEVER, NONE, NOT_STALLED, OP_COMPUTE, OP_DMA, cycle_t, int32_t,
    int64_t, uint64_t)


cdef int visit_queue(Sim* s, Visitor v) except -1:
    """The tables that determine which jobs exist."""
    v.table(&SHARE, &s.share, sizeof(s.share), 1)
    v.table(&ENTRY, s.control.entry, sizeof(Entry), s.control.n)
    if s.control.mmio != NULL:
        v.table(&ARRIVAL, s.control.mmio.arrival, sizeof(cycle_t), s.control.n)
    if s.array != NULL:
        v.table(&ARRAYJOB, s.array_job, sizeof(ArrayJob), s.n_compute_jobs)
    if s.caches != NULL:
        visit_caches(s, v)
    return 0


cdef int visit_engines(Sim* s, Visitor v) except -1:
    """The tables of engines, resources and banks, whose sizes do not depend on the running jobs."""
    cdef int32_t k
    v.table(&DMAENGINE, s.dma, sizeof(DmaEngine), s.n_dma)
    v.table(&DMAJOB, s.dma_job, sizeof(DmaJob), s.n_dma_jobs)
    v.table(&RESOURCE, s.share.res, sizeof(Resource), s.share.n_res)
    v.table(&COMPUTE, s.compute, sizeof(Compute), s.n_compute)
    for k in range(s.n_compute):
        visit_requester(s, v, s.n_flows + k)
    for k in range(s.n_spm):
        v.table(&COUNTER, s.spm[k].grants.count, sizeof(int64_t), s.spm[k].banks)
        v.table(&COUNTER, s.spm[k].denials.count, sizeof(int64_t), s.spm[k].banks)
        if ARBITERS[s.spm[k].arbiter].pointers:
            v.table(&POINTER, s.spm[k].pointer, sizeof(int32_t), s.spm[k].banks)
    if s.overlap:
        v.table(&OVERLAPPED, s.overlap_with, sizeof(int32_t), s.control.n)
    if s.traced:
        v.table(&STREAMTRACE, s.stream_trace, sizeof(StreamTrace), s.n_compute * MAX_REGIONS)
    return 0


cdef int visit_requester(Sim* s, Visitor v, slot_t requester) except -1:
    v.table(&REQUESTER, &s.requester[requester], sizeof(Requester), 1)
    return visit_masks(s, v, requester)


cdef int visit_masks(Sim* s, Visitor v, slot_t requester) except -1:
    v.table(&WORD, reads_of(s, requester), sizeof(uint64_t), s.mask_words)
    v.table(&WORD, writes_of(s, requester), sizeof(uint64_t), s.mask_words)
    return 0


cdef int visit_flows(Sim* s, Visitor v, slot_t* live, int32_t n) except -1:
    """The flows of started transfers, in the order of jobs and channels."""
    cdef int32_t k
    for k in range(n):
        v.table(&FLOW, &s.share.flow[live[k]], sizeof(Flow), 1)
        visit_requester(s, v, live[k])
        if s.dma_job[s.share.flow[live[k]].job].peer != NONE:
            visit_masks(s, v, far_requester(s, live[k]))
        if s.traced:
            v.table(&FLOWTRACE, &s.flow_trace[live[k]], sizeof(FlowTrace), 1)
    if s.caches != NULL:
        visit_write_backs(s, v)
    if s.share.devices != NULL:
        if s.share.rule == CONTROLLER_MODEL:
            visit_controllers(s, v, live, n)
        else:
            visit_devices(s, v, live, n)
    return 0


cdef int32_t live_flows(Sim* s, slot_t* live) noexcept nogil:
    """The slots of the flows of started transfers, by job and channel; returns their number."""
    cdef int32_t k, n = 0
    cdef slot_t flow
    for k in range(s.n_dma_jobs):
        if s.dma_job[k].state != DMA_TRANSFERRING:
            continue
        flow = s.dma_job[k].flows
        while flow != NONE:
            live[n] = flow
            n += 1
            flow = s.share.flow[flow].sibling
    return n


cdef int visit(Sim* s, Visitor v) except -1:
    cdef slot_t* live = <slot_t*>malloc((s.n_flows + 1) * sizeof(slot_t))
    if live == NULL:
        raise MemoryError("no memory for a snapshot")
    try:
        v.table(&SIM, s, sizeof(Sim), 1)
        visit_queue(s, v)
        visit_engines(s, v)
        visit_flows(s, v, live, live_flows(s, live))
    finally:
        free(live)
    return 0


cdef void settle_flow(Sim* s, slot_t slot) noexcept nogil:
    """Bring the earnings of a flow up to the run's cycle; set fields without a meaning in its state to zero."""
    cdef Flow* f = &s.share.flow[slot]
    cdef Requester* a = &s.requester[slot]
    cdef bint held = a.first_denied != NEVER
    cdef FlowTrace* t = &s.flow_trace[slot] if s.traced else NULL
    if f.left == 0 or s.dma_job[f.job].in_head:
        f.requested = f.carry = f.num = 0
        f.den = 1
        f.entered = f.member = f.out = False
    elif not held:
        f.requested = 0
        if f.member and s.cycle > f.seen:
            f.carry += (s.cycle - f.seen) * f.num
    f.seen = s.cycle
    if not held:
        a.next_at = flow_next(f) if f.member else NEVER
    if t != NULL and (f.left == 0 or t.requested == NEVER or s.dma_job[f.job].in_head):
        t.requested = NEVER
        t.conflict = False
    if t != NULL and (f.left == 0 or s.dma_job[f.job].in_head):
        t.suspended = False


cdef void wake_idle(Sim* s, int32_t c) noexcept nogil:
    """Count body cycles that were slept through beyond the run's cycle as not done, because a plain run has not slept."""
    cdef Compute* e = &s.compute[c]
    cdef Requester* a = &s.requester[s.n_flows + c]
    cdef cycle_t asleep
    if e.job == NONE or e.idle == 0 or e.body_left == 0 or a.first_denied != NEVER or a.next_at <= s.cycle:
        return
    asleep = min(e.idle, (a.next_at - s.cycle) // e.period)
    a.next_at -= asleep * e.period
    e.body_left += asleep
    e.idle = 0


cdef void settle_compute(Sim* s, int32_t c) noexcept nogil:
    cdef Compute* e = &s.compute[c]
    cdef StreamTrace* t
    cdef bint unasked
    cdef int32_t k
    if e.job == NONE:
        e.body_left = e.conflict_before = 0
        e.done_at = NEVER
    wake_idle(s, c)
    if not s.traced:
        e.conflict_before = 0
        return
    for k in range(MAX_REGIONS):
        t = &s.stream_trace[c * MAX_REGIONS + k]
        unasked = e.body_left == e.body and s.requester[s.n_flows + c].first_denied == NEVER
        if e.job == NONE or k >= e.streams or unasked or t.requested == NEVER:
            t.requested = NEVER
            t.conflict = False


cdef void settle_state(Sim* s) noexcept nogil:
    """Between two runs: bring every field of a snapshot to its declared meaning, up to the run's cycle."""
    cdef int32_t k
    cdef slot_t flow
    cdef Entry* e
    cdef DmaJob* j
    for k in range(s.n_spm):
        tally_drain(&s.spm[k].grants)
        tally_drain(&s.spm[k].denials)
    settle_caches(s)
    for k in range(s.share.n_res):
        share_accrue(&s.share.res[k], s.cycle)
    for k in range(s.control.n):
        e = &s.control.entry[k]
        if e.issue == NEVER or (e.op != OP_DMA and e.op != OP_COMPUTE):
            e.number = 0
    for k in range(s.n_dma_jobs):
        j = &s.dma_job[k]
        if j.reason == NOT_STALLED:
            j.stalled_at = 0
        if j.reason != BACKPRESSURE or not s.traced:
            j.pressed_channel = NONE
        flow = j.flows if j.state == DMA_TRANSFERRING else NONE
        while flow != NONE:
            settle_flow(s, flow)
            flow = s.share.flow[flow].sibling
    for k in range(s.n_compute):
        settle_compute(s, k)
    if s.array != NULL and not s.traced:
        for k in range(s.n_compute_jobs):
            s.array_job[k].held = 0


cdef bytes take_snapshot(Sim* s):
    cdef Pack v = Pack()
    settle_state(s)
    visit(s, v)
    return b"".join(v.parts)


cdef int64_t max_bytes(Sim* s):
    """[B] The largest size of a snapshot: every flow is in flight, is between scratchpads and is traced, and all queues are full."""
    cdef int64_t flow = FLOW.nbytes + REQUESTER.nbytes + 4 * s.mask_words * WORD.nbytes + FLOWTRACE.nbytes
    cdef int64_t streams = s.n_compute * MAX_REGIONS * <int64_t>STREAMTRACE.nbytes
    return len(take_snapshot(s)) + s.n_flows * flow + streams + max_cache_bytes(s) + (
        max_controller_bytes(s) if s.share.rule == CONTROLLER_MODEL else max_device_bytes(s))


cdef dict show_snapshot(Sim* s):
    cdef Show v = Show()
    settle_state(s)
    visit(s, v)
    return v.tables


cdef int check_same(Sim* s, bytes image) except -1:
    """ValueError if a snapshot of the run, which was restored from `image`, differs from `image`."""
    cdef Compare v = Compare(image)
    settle_state(s)
    visit(s, v)
    if v.found:
        raise ValueError(v.found)
    return 0
