"""Data that a snapshot does not contain, because they follow from its content.

`fold` moves such data into the saved tables, and `rebuild` computes them again: counts in bit planes, values that follow from a rate, a job
or a channel, and backward links. Data that exist only for speed are empty after a snapshot was restored.
"""
from kernbench_core.fast.fast_state cimport forget
from kernbench_core.model.cache_flows cimport cache_describe_queue, cache_find_area
from kernbench_core.model.compute cimport compute_rebuild
from kernbench_core.model.controller.requests cimport Controllers
from kernbench_core.model.dram.devices cimport Devices
from kernbench_core.model.dram.extent cimport Extent
from kernbench_core.model.phases cimport describe_flow
from kernbench_core.model.share.membership cimport Flow, pace_rebuild, share_rebuild
from kernbench_core.model.sim cimport Sim
from kernbench_core.model.bank_counters cimport Tally, tally_drain
from kernbench_core.types cimport CONTROLLER_MODEL, DMA_TRANSFERRING, NONE, int32_t, slot_t
from libc.string cimport memset


cdef void fold(Sim* s) noexcept nogil:
    """Before a snapshot: count all grants and denials."""
    cdef int32_t k
    for k in range(s.n_spm):
        tally_drain(&s.spm[k].grants)
        tally_drain(&s.spm[k].denials)


cdef void empty(Tally* t) noexcept nogil:
    memset(t.low, 0, 8 * t.words * sizeof(t.low[0]))
    t.adds = t.n_noted = 0


cdef void rebuild_flows(Sim* s, slot_t flow) noexcept nogil:
    """Rebuild the flows of a transfer."""
    cdef Flow* f
    while flow != NONE:
        f = &s.share.flow[flow]
        describe_flow(s, f)
        pace_rebuild(f)
        flow = f.sibling


cdef void rebuild_caches(Sim* s) noexcept nogil:
    """Rebuild the queues of last-level caches, and the locations of the bits of transfers: addresses are those of this run."""
    cdef int32_t k
    for k in range(s.n_dma_jobs + s.n_component_jobs):
        if s.caches.area[k]:
            cache_find_area(s, k)
    if s.share.devices != NULL:
        for k in range(s.n_flows):
            find_bits(s, k)
    for k in range(s.share.channels if s.n_open == 0 else 0):
        cache_describe_queue(s, k)
        pace_rebuild(&s.share.flow[s.caches.first + k])


cdef void find_bits(Sim* s, slot_t flow) noexcept nogil:
    """Find the bits of the extent of a flow on its DRAM channel."""
    cdef Extent* x
    cdef slot_t job = s.share.flow[flow].job
    if s.share.rule == CONTROLLER_MODEL:
        x = &(<Controllers*>s.share.devices).port[flow].extent
    else:
        x = &(<Devices*>s.share.devices).fetch[flow].extent
    if x.cached != NULL and job != NONE:
        x.cached = s.dma_job[job].extent.cached


cdef void rebuild(Sim* s) noexcept nogil:
    """After a snapshot was loaded."""
    cdef int32_t k
    if s.caches != NULL:
        rebuild_caches(s)
    for k in range(s.n_spm):
        empty(&s.spm[k].grants)
        empty(&s.spm[k].denials)
        forget(&s.spm[k].lookahead)
    for k in range(s.n_flows + s.n_compute + s.n_component_requests + s.far_requesters * s.n_flows):
        s.requester[k].ends_at = 0
    for k in range(s.n_compute):
        compute_rebuild(&s.compute[k], s.compute_job, &s.spm[s.compute_spm[k]])
    # with flows of components, a snapshot contains all (state/layout.pyx)
    for k in range(s.n_dma_jobs + s.n_component_jobs if s.n_open == 0 else 0):
        if s.dma_job[k].state == DMA_TRANSFERRING:
            rebuild_flows(s, s.dma_job[k].flows)
    share_rebuild(&s.share)
