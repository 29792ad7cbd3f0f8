"""Events of requesters. Most cycles have no such event; the walks over a scratchpad's requesters call these functions only when
something changes."""
from kernbench_core.fast.fast_state cimport requests_changed
from kernbench_core.model.bank cimport Requester, Spm, nobody_held
from kernbench_core.model.compute cimport Compute, compute_body_done, count_waits
from kernbench_core.model.dma cimport DmaEngine, DmaJob, dma_activity
from kernbench_core.model.heap cimport timer_push
from kernbench_core.model.noc.sides cimport enters_again
from kernbench_core.trace.record cimport record_unpress
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.model.shuffle cimport shuffle
from kernbench_core.model.sim cimport Sim, watch
from kernbench_core.types cimport NEVER, NOT_STALLED, cycle_t, int32_t, slot_t, uint32_t

cdef extern from *:
    int trailing_zeros "__builtin_ctz"(uint32_t v) noexcept nogil


cdef void body_over(Sim* s, Spm* p, slot_t requester, cycle_t now) noexcept nogil:
    """The last body cycle of a TE or VE was `now`: the finalize or the end follows."""
    cdef int32_t c = requester - s.n_flows
    cdef Compute* e = &s.compute[c]
    compute_body_done(e, s.compute_job, now)
    s.requester[requester].next_at = NEVER
    requests_changed(&p.lookahead)
    if e.done_at == now:
        s.done_compute[s.n_done_compute] = c
        s.n_done_compute += 1
    else:
        timer_push(&s.ends, e.done_at, c)


cdef void flow_over(Sim* s, slot_t requester) noexcept nogil:
    """A flow's last byte has moved."""
    s.requester[requester].next_at = NEVER
    s.done_flow[s.n_done_flow] = requester
    s.n_done_flow += 1


cdef void free_flows(Sim* s, Spm* p, int32_t dma, cycle_t now, int32_t more) noexcept nogil:
    """From this cycle on, a given number of additional flows of the engine are not held. The requesters of a block are not
    handled in the order of its cycles, so the activity of the engine is settled after all have been handled."""
    cdef DmaEngine* e = &s.dma[dma]
    e.changed |= <uint32_t>1 << (now - p.done)
    e.change[now - p.done] += more
    watch(s, dma)


cdef void activity_phase(Sim* s, Spm* p) noexcept nogil:
    """Between P6 and P7 of each cycle of a block: set the activity of the DMA engines of the scratchpad, if it may have
    changed."""
    cdef int32_t k, c
    cdef uint32_t todo
    cdef DmaEngine* e
    if s.shuffle:
        shuffle(s, p.watch, p.n_watch)
    for k in range(p.n_watch):
        e = &s.dma[p.watch[k]]
        todo = e.changed | 1
        while todo:
            c = trailing_zeros(todo)
            todo &= todo - 1
            e.free += e.change[c]
            e.change[c] = 0
            dma_activity(e, p.done + c)
        e.changed = 0
        e.watched = False
    p.n_watch = 0


cdef void press_later(Sim* s, slot_t requester) noexcept nogil:
    """The flow leaves its resources in P7 of this cycle."""
    s.requester[requester].backpressure_at = NEVER
    s.pressed[s.n_pressed] = requester
    s.n_pressed += 1


cdef void hold(Sim* s, Spm* p, slot_t requester, cycle_t now) noexcept nogil:
    """A request was denied for the first time: its age and its backpressure time begin."""
    cdef Requester* a = &s.requester[requester]
    a.first_denied = now
    p.n_held += 1
    if now < p.oldest:
        p.oldest = now
    if a.compute:
        return
    a.backpressure_at = now + p.backpressure - 1
    free_flows(s, p, s.dma_job[s.share.flow[requester].job].engine, now, -1)


cdef void unhold(Sim* s, Spm* p, slot_t requester, cycle_t now) noexcept nogil:
    """A held request is served in this cycle."""
    cdef Requester* a = &s.requester[requester]
    cdef cycle_t since = a.first_denied
    cdef DmaJob* j
    cdef Flow* f
    a.first_denied = NEVER
    p.n_held -= 1
    if p.n_held == 0:
        nobody_held(p)
    if a.compute:
        count_waits(&s.compute[requester - s.n_flows], 1, now - since)
        return
    a.backpressure_at = NEVER
    f = &s.share.flow[requester]
    f.seen = now + 1                    # the flow earns nothing in the cycle in which a held request is served
    j = &s.dma_job[f.job]
    free_flows(s, p, j.engine, now, 1)
    if not f.out:
        return
    f.out = False
    p.n_out -= 1
    j.out -= 1
    if j.out == 0:
        if s.trace != NULL:
            record_unpress(s, f.job, now)
        j.reason = NOT_STALLED
        s.dma[j.engine].backpressured -= 1
    if f.left != f.requested and enters_again(s, requester):
        s.rejoin[s.n_rejoin] = requester
        s.n_rejoin += 1
