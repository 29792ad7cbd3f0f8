"""The loop of the plain model: every phase of every cycle, for every scratchpad.

fast/loop.pyx runs the same phases, and skips work as far as its licences allow.
"""
from kernbench_core.model.dram.models cimport dram_still
from kernbench_core.model.noc.transfers cimport routers_phase
from kernbench_core.model.scratchpad cimport scratchpads_cycle
from kernbench_core.model.share.membership cimport next_request_cycle
from kernbench_core.plugin.component cimport component_next, component_takes
from kernbench_core.types cimport DEADLOCK, NEVER, NONE, int32_t, int64_t, slot_t


cdef bint only_components_wait(Sim* s) noexcept nogil:
    """After P2: only components have open jobs, and no component acts again. Resources that P4 will find without
    members, write-backs of caches, and credits of routers do not count."""
    cdef int32_t k
    if s.plugs == NULL or component_next(s.plugs) != NEVER or s.control.mmio_at != NEVER or s.joins.n or s.ends.n or pending_jobs(s):
        return False
    for k in range(s.n_dma):
        if (s.dma[k].active or s.dma[k].pending) and not component_takes(s, k):
            return False
    for k in range(s.n_compute):
        if (s.compute[k].job != NONE or s.compute[k].queue_first != NONE) and not component_takes(s, s.n_dma + k):
            return False
    for k in range(s.plugs.n):
        if s.plugs.state[k].flows or s.plugs.state[k].asks:
            return False
    return True


cdef bint stuck(Sim* s) noexcept nogil:
    """After P2: jobs are in flight, and nothing can ever happen again. A refresh of DRAM for which no transfer waits does not
    count."""
    cdef int32_t k, i
    if (s.share.n_dirty or s.caches != NULL or s.noc != NULL) and only_components_wait(s):
        return True
    if pending(s) or s.control.mmio_at != NEVER or s.joins.n or s.ends.n or s.plugs != NULL and component_next(s.plugs) != NEVER:
        return False
    if s.caches != NULL and s.caches.next != NEVER or s.noc != NULL and s.noc.n_active:
        return False
    if s.share.devices != NULL and not dram_still(&s.share):
        return False
    for k in range(s.n_spm):
        for i in range(s.spm[k].n_order):
            if s.requester[s.spm[k].order[i]].next_at != NEVER:
                return False
    return True


cdef void begin_plain(Sim* s) noexcept nogil:
    """A snapshot contains the next request cycle of each flow; in a plain run, every member that is not held is tested from the
    next cycle on. All scratchpads are at the cycle of the run."""
    cdef int32_t k, i
    cdef slot_t requester
    for k in range(s.n_spm):
        s.spm[k].done = s.cycle
        for i in range(s.spm[k].n_order):
            requester = s.spm[k].order[i]
            if requester < s.n_flows and s.share.flow[requester].member and s.requester[requester].first_denied == NEVER:
                s.requester[requester].next_at = next_request_cycle(&s.share, &s.share.flow[requester])


cdef void run_plain(Sim* s, cycle_t limit) noexcept nogil:
    """Run the cycles before `limit`, one after another."""
    cdef cycle_t now
    cdef int64_t denied = s.denied
    begin_plain(s)
    while goes_on(s, limit):
        now = s.cycle
        if not begin_cycle(s, now):
            break
        if stuck(s):
            s.status = DEADLOCK
            break
        if not start_and_share(s, now):
            break
        scratchpads_cycle(s, now)
        if s.noc != NULL:
            routers_phase(s, now)
        end_cycle(s, now)
        s.cycle = now + 1
        if s.stops.on_conflict and s.denied != denied:
            s.stops.hit = True
