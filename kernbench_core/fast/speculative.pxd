"""Blocks that are simulated on the assumption that no request becomes aged in them.

A block must have a single order of arbitration, so it would have to end when a request that is held, or is denied immediately, might become
aged. This rarely happens. Such a block is therefore simulated completely; if some requester did make a request when it was aged, the
changes are undone and shorter blocks are simulated instead. Shorter blocks are also used if more changes would have to be undone: if a body
may end, if a flow is out for backpressure, and in a trace of requests.
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
    """Whether a block with a single order of arbitration would have to be shorter than possible."""
    cdef int64_t n = min(<int64_t>BLOCK, to - p.done)
    cdef bint later = p.n_held and p.oldest < p.lookahead.aging_bound and p.done + n - p.oldest > p.max_wait
    return p.n_order > 0 and (n > p.max_wait and p.lookahead.aging_bound > p.done or later) and block_can(p)

cdef enum:
    REQUESTERS = 24
    REQUESTER_WORDS = 5            # words of a Requester that a block changes: the first ones (model/bank.pxd)
    FLOW_WORDS = 13           # words of a Flow that a block changes, from `carry` on (model/share/membership.pxd)
    ADDS = 255 - 8            # counts of a tally before it is drained

cdef extern from *:
    int trailing_zeros "__builtin_ctz"(uint32_t v) noexcept nogil

cdef struct Saved:             # saved data of one requester: the fields that a block may change
    uint64_t requester[REQUESTER_WORDS]  # the first words of its Requester
    uint64_t rest[FLOW_WORDS]  # the words of its Flow from `carry` on
    Compute compute           # the fields of its Compute from `body_left` to `conflict`

cdef inline size_t counted_size(Compute* e) noexcept nogil:
    """[B] The fields of a TE or VE that a block may change: those from `body_left` to `conflict`."""
    return <char*>&e.conflict - <char*>&e.body_left + sizeof(e.conflict)

cdef inline void save(Sim* s, Saved* x, slot_t requester) noexcept nogil:
    cdef Compute* e = &s.compute[requester - s.n_flows]
    memcpy(x.requester, &s.requester[requester], sizeof(x.requester))
    if s.requester[requester].compute:
        memcpy(&x.compute.body_left, &e.body_left, counted_size(e))
    else:
        memcpy(x.rest, &s.share.flow[requester].carry, sizeof(x.rest))

cdef inline void restore(Sim* s, Saved* x, slot_t requester) noexcept nogil:
    cdef Compute* e = &s.compute[requester - s.n_flows]
    memcpy(&s.requester[requester], x.requester, sizeof(x.requester))
    if s.requester[requester].compute:
        memcpy(&e.body_left, &x.compute.body_left, counted_size(e))
    else:
        memcpy(&s.share.flow[requester].carry, x.rest, sizeof(x.rest))

cdef inline void forget_changes(Sim* s, Spm* p, int32_t watched) noexcept nogil:
    """Forget the changes of DMA engines within the block; `watched` of them were on the list before."""
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
    """Whether no request is aged in the first of the next cycles, and all their changes could be undone; may reduce `cycles`."""
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
        if (oldest > p.done + n - p.max_wait or oldest >= p.lookahead.aging_bound) and (
                n <= p.max_wait or p.lookahead.aging_bound <= p.done):
            return False
    for k in range(p.n_order - 1, -1, -1):
        a = &s.requester[p.order[k]]
        if not a.compute and s.perturbed == NULL:
            break
        if not a.compute:                       # TEs and VEs may be before flows if ties have a drawn order
            continue
        e = &s.compute[p.order[k] - s.n_flows]
        if a.next_at < p.done + n and (not e.dense or e.body_left <= n):
            return False
    cycles[0] = n
    return True

cdef inline bint try_block(Sim* s, Spm* p, int64_t n) noexcept nogil:
    """Simulate the next `n` cycles in tie-break order; false if this was not the right order, and then nothing has changed."""
    cdef Saved[REQUESTERS] requesters
    cdef uint64_t[DENIED] noted
    cdef uint64_t[8] counted
    cdef int64_t denied = s.denied
    cdef int32_t k, n_denied = p.lookahead.n_denied, n_held = p.n_held, watched = p.n_watch, adds
    cdef int32_t pressed = s.n_pressed, done = s.n_done_flow, n_due
    cdef cycle_t oldest = p.oldest
    cdef bint judge = p.lookahead.recheck
    if p.denials.adds + p.n_order * n + DENIED > ADDS:      # they must not be drained meanwhile
        tally_drain(&p.denials)
    adds = p.denials.adds
    memcpy(noted, p.lookahead.denied, DENIED // 2 * sizeof(uint64_t))
    memcpy(counted, p.denials.low, sizeof(counted))
    n_due = find_due(s, p, p.order, n)
    if n_due == 0 and s.skip:                   # `block_advance` goes on to the next cycle in which one is due
        return False
    for k in range(n_due):
        save(s, &requesters[k], p.lookahead.due[k])
    if narrow_block(s, p, n_due, n, True):
        return True
    for k in range(n_due):
        restore(s, &requesters[k], p.lookahead.due[k])
    forget_changes(s, p, watched)
    memcpy(p.lookahead.denied, noted, DENIED // 2 * sizeof(uint64_t))
    memcpy(p.denials.low, counted, sizeof(counted))
    p.denials.adds = adds
    p.lookahead.n_denied = n_denied
    p.n_held = n_held
    p.oldest = oldest
    p.lookahead.recheck = judge
    s.denied = denied
    s.n_pressed = pressed
    s.n_done_flow = done
    return False

cdef inline bint speculative_advance(Sim* s, Spm* p, cycle_t to) noexcept nogil:
    """Simulate a block; false if it was undone, or cannot be simulated, and then nothing has changed."""
    cdef int64_t n = min(<int64_t>BLOCK, to - p.done)
    narrow_turn(s, p)
    if not (may_try(s, p, &n) and try_block(s, p, n)):
        return False
    if p.n_watch:
        activity_phase(s, p)
    p.done += n
    return True
