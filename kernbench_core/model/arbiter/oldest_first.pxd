"""`oldest_first` of docs/model/banks_and_arbiters.md, P5: the same order of requesters for all banks of a cycle.

Requests that have waited `max_wait_cycles` come first, sorted by age; the others follow in tie-break order.
"""
from kernbench_core.model.arbiter.grant cimport grant_request, traces_requests
from kernbench_core.model.arbiter.rule cimport OLDEST_FIRST
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport NEVER, cycle_t, int32_t, slot_t

cdef inline bint by_age(Spm* p) noexcept nogil:
    """The scratchpad has this arbiter; fast paths support no other."""
    return p.arbiter == OLDEST_FIRST

cdef inline bint may_be_aged(Spm* p, cycle_t now) noexcept nogil:
    """In cycle `now`, some request may have waited `max_wait_cycles`; if not, the order is the tie-break order."""
    return p.n_held and now + 1 - p.oldest > p.max_wait

cdef inline slot_t* order_of(Sim* s, Spm* p, cycle_t now) noexcept nogil:
    """The requesters in the order of arbitration of one cycle."""
    return aged_first(s, p, p.order, p.n_order, now) if may_be_aged(p, now) else p.order

cdef inline slot_t* aged_first(Sim* s, Spm* p, slot_t* order, int32_t n, cycle_t now) noexcept nogil:
    """The order of arbitration of `n` requesters, which are given in tie-break order: aged requests by age, and then ties and
    all others as given.

    Returns `order` itself if no request is aged, else `p.turn`.
    """
    cdef int32_t k, i, first = 0
    cdef cycle_t since, oldest = NEVER, aged = now - p.max_wait
    for k in range(p.n_order):
        oldest = min(oldest, s.requester[p.order[k]].first_denied)
    p.oldest = oldest
    if oldest > aged:
        return order
    for k in range(n):
        since = s.requester[order[k]].first_denied
        if since > aged:
            continue
        i = first
        while i and s.requester[p.turn[i - 1]].first_denied > since:
            p.turn[i] = p.turn[i - 1]
            i -= 1
        p.turn[i] = order[k]
        first += 1
    for k in range(n):
        if s.requester[order[k]].first_denied > aged:
            p.turn[first] = order[k]
            first += 1
    return p.turn

cdef inline void oldest_first(Sim* s, Spm* p, cycle_t now) noexcept nogil:
    """Grant the ports that are left to the requests of this cycle, one request after another."""
    cdef slot_t* order = p.requesting
    cdef int32_t k
    if may_be_aged(p, now):
        order = aged_first(s, p, p.requesting, p.n_requesting, now)
    if traces_requests(s):
        for k in range(p.n_requesting):
            grant_request(s, p, order[k], now, True)
    else:
        for k in range(p.n_requesting):
            grant_request(s, p, order[k], now, False)
