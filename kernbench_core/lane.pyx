"""Events of lanes. Most cycles bring none: the walks over a scratchpad's lanes (scratchpad.pyx) call these when something changes."""
from kernbench_core.bank cimport Lane, Spm
from kernbench_core.compute cimport Compute, compute_body_done
from kernbench_core.dma cimport NOT_STALLED, DmaJob
from kernbench_core.heap cimport timer_push
from kernbench_core.share cimport Flow
from kernbench_core.sim cimport Sim, watch
from kernbench_core.types cimport NEVER, cycle_t, int32_t, slot_t


cdef void body_over(Sim* s, Spm* p, slot_t lane, cycle_t now) noexcept nogil:
    """The last body cycle of a TE or VE was `now`: finalize follows, or the end."""
    cdef int32_t c = lane - s.n_flows
    cdef Compute* e = &s.compute[c]
    compute_body_done(e, s.compute_job, now)
    s.lane[lane].next_at = NEVER
    p.judge = True
    if e.done_at == now:
        s.done_compute[s.n_done_compute] = c
        s.n_done_compute += 1
    else:
        timer_push(&s.ends, e.done_at, c)


cdef void flow_over(Sim* s, slot_t lane) noexcept nogil:
    """A flow's last byte has moved."""
    s.lane[lane].next_at = NEVER
    s.done_flow[s.n_done_flow] = lane
    s.n_done_flow += 1


cdef void hold(Sim* s, Spm* p, slot_t lane, cycle_t now) noexcept nogil:
    """A request was denied: it asks again after the penalty; the first denial starts its age and its way to backpressure."""
    cdef Lane* a = &s.lane[lane]
    cdef DmaJob* j
    a.next_at = now + p.penalty
    s.denied += 1
    if a.first_denied != NEVER:
        return
    a.first_denied = now
    p.n_held += 1
    if now < p.oldest:
        p.oldest = now
    if a.compute:
        s.compute[lane - s.n_flows].held_since = now
        return
    a.backpressure_at = now + p.backpressure - 1
    j = &s.dma_job[s.share.flow[lane].job]
    j.free -= 1
    s.dma[j.engine].free -= 1
    watch(s, j.engine)


cdef void unhold(Sim* s, Spm* p, slot_t lane, cycle_t now) noexcept nogil:
    """A held request is served in this cycle."""
    cdef Lane* a = &s.lane[lane]
    cdef Compute* e
    cdef DmaJob* j
    cdef Flow* f
    a.first_denied = NEVER
    p.n_held -= 1
    if p.n_held == 0:
        p.oldest = NEVER
        p.judge = True
    if a.compute:
        e = &s.compute[lane - s.n_flows]
        e.conflict += now - e.held_since
        e.held_since = NEVER
        return
    a.backpressure_at = NEVER
    f = &s.share.flow[lane]
    f.seen = now + 1                    # nothing is earned in the cycle in which a held request is served
    j = &s.dma_job[f.job]
    j.free += 1
    s.dma[j.engine].free += 1
    watch(s, j.engine)
    if not f.out:
        return
    f.out = False
    j.out -= 1
    if j.out == 0:
        j.reason = NOT_STALLED
        s.dma[j.engine].backpressured -= 1
    if f.left != f.asked:
        s.rejoin[s.n_rejoin] = lane
        s.n_rejoin += 1
