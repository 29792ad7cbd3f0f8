"""Clears the whole state of a run, before a snapshot is restored."""
from libc.string cimport memset

from kernbench_core.fast.fast_state cimport forget
from kernbench_core.fast.group cimport Group
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.compute cimport MAX_REGIONS, Array, Compute
from kernbench_core.model.dma cimport DmaEngine
from kernbench_core.state.cache_snapshot cimport reset_caches
from kernbench_core.state.controller_snapshot cimport reset_controllers
from kernbench_core.state.device_snapshot cimport reset_devices
from kernbench_core.trace.events cimport FlowTrace, StreamTrace
from kernbench_core.types cimport CHANNELS, CONTROLLER_MODEL, NEVER, NONE, cycle_t, int32_t, uint64_t


cdef void reset_groups(Sim* s) noexcept nogil:
    cdef int32_t k, i, end
    cdef Group* g
    s.n_free = s.n_rejoin = s.joins.n = s.ends.n = s.share.n_dirty = s.groups.early.n = 0
    for k in range(s.groups.n):
        g = &s.groups.group[k]
        end = s.groups.group[k + 1].first_flow if k + 1 < s.groups.n else s.caches.first if s.caches != NULL else s.n_flows
        g.n_free = end - g.first_flow
        for i in range(g.n_free):
            s.free_flow[g.first_flow + i] = end - 1 - i
        g.n_rejoin = g.n_joins = g.n_ends = g.n_dirty = 0
        g.any_wanted = True
    if s.groups.n == 1:
        s.n_free = s.groups.group[0].n_free
    s.any_wanted = True


cdef void reset_spm(Spm* p, cycle_t cycle) noexcept nogil:
    p.n_order = p.n_held = p.n_out = p.n_pairs = p.n_component_requests = p.n_watch = 0
    p.oldest = NEVER
    p.done = cycle
    forget(&p.lookahead)
    memset(p.pointer, 0, p.banks * sizeof(int32_t))
    memset(p.grants.low, 0, 8 * p.words * sizeof(uint64_t))
    memset(p.denials.low, 0, 8 * p.words * sizeof(uint64_t))
    p.grants.adds = p.denials.adds = p.grants.n_noted = p.denials.n_noted = 0


cdef void reset_engines(Sim* s) noexcept nogil:
    cdef int32_t k, c
    cdef DmaEngine* d
    cdef Compute* e
    for k in range(s.n_dma):
        d = &s.dma[k]
        d.active = d.pending = d.free = d.backpressured = 0
        d.jobs = d.nbytes = 0
        d.watched = False
        d.changed = 0
        memset(d.change, 0, sizeof(d.change))
        for c in range(CHANNELS):
            d.channel[c].first = d.channel[c].last = NONE
            d.channel[c].outstanding = 0
    for k in range(s.n_dma_jobs):
        s.dma_job[k].state = s.dma_job[k].reason = s.dma_job[k].in_head = 0
        s.dma_job[k].flows = NONE
        s.dma_job[k].live = s.dma_job[k].out = 0
    for k in range(s.n_compute):
        e = &s.compute[k]
        e.queue_first = e.queue_last = e.job = NONE
        e.queued = e.streams = e.often = 0
        e.jobs = e.work = e.job_cycles = e.idle = e.body_left = 0
        e.outside = 0
        e.done_at = NEVER
        s.ahead[k].job = NONE
    if s.array != NULL:
        memset(s.array, 0, s.n_compute * sizeof(Array))


cdef void reset(Sim* s) noexcept nogil:
    """Clear the whole state of a run."""
    cdef int32_t k, requesters = s.n_flows + s.n_compute + s.n_component_requests + s.far_requesters * s.n_flows
    for k in range(s.share.n_res):
        s.share.res[k].weight = s.share.res[k].bytes = s.share.res[k].stored = 0
        s.share.res[k].members = 0
        s.share.res[k].dirty = False
        s.share.res[k].first = NONE
        s.share.res[k].since = s.cycle
    for k in range(s.share.channels):
        s.share.line[k] = NONE
    for k in range(requesters):
        s.requester[k].next_at = s.requester[k].first_denied = s.requester[k].backpressure_at = NEVER
        s.requester[k].reads = s.requester[k].writes = 0
        s.requester[k].paired = s.requester[k].listed = False
    if s.mask_words > 1:
        memset(s.mask, 0, <size_t>requesters * 2 * s.mask_words * sizeof(uint64_t))
    for k in range(s.n_spm):
        reset_spm(&s.spm[k], s.cycle)
    reset_engines(s)
    reset_groups(s)
    if s.caches != NULL:
        reset_caches(s)
    if s.traced:
        memset(s.flow_trace, 0, s.n_flows * sizeof(FlowTrace))
        memset(s.stream_trace, 0, s.n_compute * MAX_REGIONS * sizeof(StreamTrace))
    s.n_running = s.n_paired = s.n_done_flow = s.n_done_compute = s.n_pressed = s.n_touched = 0
    if s.share.devices != NULL:
        if s.share.rule == CONTROLLER_MODEL:
            reset_controllers(s)
        else:
            reset_devices(s)
