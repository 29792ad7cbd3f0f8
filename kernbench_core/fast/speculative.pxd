"""Blocks that are walked in the hope that nothing comes of age in them.

A block must be of one order of arbitration, so it would have to end where a request that is held now, or is denied at once, might come
of age. It hardly ever does. So such a block is walked whole, and what it has changed is put back where some requester did ask when it was
of age: then shorter blocks are walked instead. Those are also walked where more would have to be put back: where a body may end, where
a flow is out for backpressure, and in a trace of requests.
"""
from libc.string cimport memcpy

from kernbench_core.fast.block cimport block_can, find_due, narrow_block, narrow_turn
from kernbench_core.model.bank cimport BLOCK, DENIED, Requester, Spm
from kernbench_core.model.bank_counters cimport tally_drain
from kernbench_core.model.compute cimport Compute
from kernbench_core.model.division cimport quotient
from kernbench_core.model.dma cimport DmaEngine
from kernbench_core.model.requester cimport activity_phase
from kernbench_core.model.sim cimport Sim
from kernbench_core.trace.events cimport TRACE_FULL
from kernbench_core.types cimport NEVER, cycle_t, int32_t, int64_t, slot_t, uint32_t, uint64_t

cdef inline bint speculative_can(Spm* p, cycle_t to) noexcept nogil:
    """A block of one order of arbitration would have to be shorter than it could be."""
    cdef int64_t n = min(<int64_t>BLOCK, to - p.done)
    cdef bint later = p.n_held and p.oldest < p.look.calm and p.done + n - p.oldest > p.max_wait
    return p.n_order > 0 and (n > p.max_wait and p.look.calm > p.done or later) and block_can(p)

cdef enum:
    REQUESTERS = 24
    REQUESTER_WORDS = 5            # of a Requester that a block changes: its first (model/bank.pxd),
    FLOW_WORDS = 13           # and of a Flow, from `carry` on (model/share/membership.pxd)
    ADDS = 255 - 8            # of a tally, before it is drained

cdef extern from *:
    int trailing_zeros "__builtin_ctz"(uint32_t v) noexcept nogil

cdef struct Kept:             # of one requester: what a block may change
    uint64_t requester[REQUESTER_WORDS]  # the first words of its Requester
    uint64_t rest[FLOW_WORDS]  # words of its Flow from `carry` on

cdef inline void keep(Sim* s, Kept* x, slot_t requester) noexcept nogil:
    cdef Compute* e = &s.compute[requester - s.n_flows]
    memcpy(x.requester, &s.requester[requester], sizeof(x.requester))
    if s.requester[requester].compute:
        x.rest[0] = e.body_left
        x.rest[1] = e.conflict
    else:
        memcpy(x.rest, &s.share.flow[requester].carry, sizeof(x.rest))

cdef inline void put_back(Sim* s, Kept* x, slot_t requester) noexcept nogil:
    cdef Compute* e = &s.compute[requester - s.n_flows]
    memcpy(&s.requester[requester], x.requester, sizeof(x.requester))
    if s.requester[requester].compute:
        e.body_left = x.rest[0]
        e.conflict = x.rest[1]
    else:
        memcpy(&s.share.flow[requester].carry, x.rest, sizeof(x.rest))

cdef inline void forget_changes(Sim* s, Spm* p, int32_t watched) noexcept nogil:
    """Of DMA engines, within the block; `watched` of them were on the list before."""
    cdef DmaEngine* e
    cdef int32_t k
    for k in range(p.n_watch):
        e = &s.dma[p.watch[k]]
        while e.changed:
            e.change[trailing_zeros(e.changed)] = 0
            e.changed &= e.changed - 1
        e.watched = k < watched
    p.n_watch = watched

cdef inline bint may_try(Sim* s, Spm* p, int64_t* cycles) noexcept nogil:
    """Nothing is of age in the first of the next cycles, and all that they change could be put back; perhaps of fewer `cycles`."""
    cdef int64_t n = min(cycles[0], quotient(ADDS - DENIED, p.n_order))
    cdef int32_t k
    cdef Requester* a
    cdef Compute* e
    cdef cycle_t oldest = NEVER
    if p.split or p.n_out or p.n_order > REQUESTERS:
        return False
    if s.trace != NULL and s.trace.level >= TRACE_FULL:
        return False
    if p.n_held and p.oldest <= p.done - p.max_wait:
        for k in range(p.n_order):
            oldest = min(oldest, s.requester[p.order[k]].first_denied)
        p.oldest = oldest
        if oldest <= p.done - p.max_wait:
            return False
        if (oldest > p.done + n - p.max_wait or oldest >= p.look.calm) and (n <= p.max_wait or p.look.calm <= p.done):
            return False
    for k in range(p.n_order - 1, -1, -1):
        a = &s.requester[p.order[k]]
        if not a.compute:
            break
        e = &s.compute[p.order[k] - s.n_flows]
        if a.next_at < p.done + n and (not e.dense or e.body_left <= n):
            return False
    cycles[0] = n
    return True

cdef inline bint try_block(Sim* s, Spm* p, int64_t n) noexcept nogil:
    """Walk the next `n` cycles in the order of ties; false where that was not the order, and nothing has happened."""
    cdef Kept[REQUESTERS] requesters
    cdef uint64_t[DENIED] noted
    cdef uint64_t[8] counted
    cdef int64_t denied = s.denied
    cdef int32_t k, n_denied = p.look.n_denied, n_held = p.n_held, watched = p.n_watch, adds
    cdef int32_t pressed = s.n_pressed, done = s.n_done_flow, n_due
    cdef cycle_t oldest = p.oldest
    cdef bint judge = p.look.judge
    if p.denials.adds + p.n_order * n + DENIED > ADDS:      # they shall not be drained meanwhile
        tally_drain(&p.denials)
    adds = p.denials.adds
    memcpy(noted, p.look.denied, DENIED // 2 * sizeof(uint64_t))
    memcpy(counted, p.denials.low, sizeof(counted))
    n_due = find_due(s, p, p.order, n)
    for k in range(n_due):
        keep(s, &requesters[k], p.look.due[k])
    if narrow_block(s, p, n_due, n, True):
        return True
    for k in range(n_due):
        put_back(s, &requesters[k], p.look.due[k])
    forget_changes(s, p, watched)
    memcpy(p.look.denied, noted, DENIED // 2 * sizeof(uint64_t))
    memcpy(p.denials.low, counted, sizeof(counted))
    p.denials.adds = adds
    p.look.n_denied = n_denied
    p.n_held = n_held
    p.oldest = oldest
    p.look.judge = judge
    s.denied = denied
    s.n_pressed = pressed
    s.n_done_flow = done
    return False

cdef inline bint speculative_advance(Sim* s, Spm* p, cycle_t to) noexcept nogil:
    """Walk a block; false where it was put back, or could not be, and nothing has happened."""
    cdef int64_t n = min(<int64_t>BLOCK, to - p.done)
    narrow_turn(s, p)
    if not (may_try(s, p, &n) and try_block(s, p, n)):
        return False
    if p.n_watch:
        activity_phase(s, p)
    p.done += n
    return True
