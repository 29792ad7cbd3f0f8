"""Requests of flows that are not as regular as those of fast/block_flow.pyx, and the handling of denied requests.

These functions are in a separate module because a function of another module is never inlined: the registers are then free for the regular
requests.
"""
from kernbench_core.model.division cimport quotient
from kernbench_core.model.bank cimport Requester
from kernbench_core.model.flow cimport request_pieces, reaches_end, take_pieces
from kernbench_core.model.requester cimport flow_over, free_flows, hold, press_later, unhold
from kernbench_core.model.sim cimport memory_of
from kernbench_core.model.share.membership cimport Flow, flow_next
from kernbench_core.trace.record_block cimport note_denial as record_denial
from kernbench_core.trace.record_requests cimport record_served
from kernbench_core.trace.record_request_notes cimport open_run, put_note, run_requested, run_served
from kernbench_core.types cimport NEVER, cycle_t, uint64_t
from kernbench_core.fast.block_ports cimport grant, note_denial, run_of, take


cdef int64_t wait_for_bank(Sim* s, Spm* p, Walk* w, slot_t requester, int64_t c, uint64_t* taken, int32_t each) noexcept nogil:
    """A request of `request_lines` is denied in cycle `c`. Return the cycle of the next request after it is served; this cycle is after the
    block if the request is still held at the end of the block."""
    cdef Requester* a = &s.requester[requester]
    cdef Flow* f = &s.share.flow[requester]
    cdef uint64_t mask = <uint64_t>1 << f.bank
    cdef cycle_t since = w.begin + c
    f.carry += (since + 1 - f.seen) * f.num - f.cost
    f.seen = since + 1
    f.at.run_left -= w.line
    f.bank = f.bank + 1 if f.bank + 1 < w.banks else 0
    while c < w.n and taken[c * each + each - 1] & mask:
        note_denial(p, mask)
        s.denied += 1
        c += p.penalty
    if w.begin + (c if c < w.n else c - p.penalty) - since >= w.max_wait:
        w.order_changed = True
    if c < w.n:                             # as if the request had been held and served, which no other code observes
        take(taken + c * each, each, mask)
        free_flows(s, p, f.engine, since, -1)
        free_flows(s, p, f.engine, w.begin + c, 1)
        p.lookahead.recheck = p.lookahead.recheck or p.n_held == 0
        f.seen = w.begin + c + 1
        f.left -= w.line
        return c + f.every + (f.carry < f.rest)
    hold(s, p, requester, since)
    f.requested = w.line
    a.reads = 0 if a.to_writes else mask
    a.writes = mask if a.to_writes else 0
    if a.backpressure_at < w.begin + w.n:
        press_later(s, requester)
    return c


cdef uint64_t request_once(Sim* s, Spm* p, Walk* w, slot_t requester, cycle_t now) noexcept nogil:
    """Earn the share up to and including this cycle, then make the request of `flow_want`; 0 if the carry does not reach a piece yet."""
    cdef Requester* a = &s.requester[requester]
    cdef Flow* f = &s.share.flow[requester]
    cdef uint64_t mask = 0
    cdef int64_t n
    f.carry += (now + 1 - f.seen) * f.num
    f.seen = now + 1
    n = f.carry - f.piece * f.den
    a.next_at = now + 1
    if p.blocked or reaches_end(f, p):          # if not, the piece continues in the next run, and the carry does not reach its end
        request_pieces(f, p, memory_of(s, f.job), &s.dma_job[f.job].extent, &mask)
        return mask
    if n < 0:
        a.next_at = flow_next(f)
        return 0
    n = 1 + quotient(n, p.line * f.den)
    if n > w.banks:
        n = w.banks
    mask = run_of(w, f.bank, n)
    take_pieces(f, p, n)
    return mask


cdef inline void note(
        Sim* s, Spm* p, Walk* w, slot_t requester, int64_t c, uint64_t reads, uint64_t writes, uint64_t denied,
        cycle_t since) noexcept nogil:
    """A traced request was arbitrated; `since` is the cycle in which it was first denied."""
    if denied:
        record_denial(s, p, w, requester, c, reads, writes, denied, since == NEVER)
        return
    put_note(w, requester, c, reads, writes)
    if since != NEVER or requester >= s.n_flows or not run_served(s, &s.share.flow[requester], &s.flow_trace[requester], w.begin + c):
        record_served(s, p, requester, since, w.begin + c)


cdef void note_request(
        Sim* s, Spm* p, Walk* w, slot_t requester, int64_t c, uint64_t reads, uint64_t writes, uint64_t denied,
        cycle_t since) noexcept nogil:
    """`note` for other walks."""
    note(s, p, w, requester, c, reads, writes, denied, since)


cdef inline int64_t request_any(Sim* s, Spm* p, Walk* w, slot_t requester, int64_t c, int32_t ports, bint traced) noexcept nogil:
    """Handle any request, or a held one; return the cycle of the next request. The returned cycle is after the block if the request is
    still held at its end."""
    cdef Requester* a = &s.requester[requester]
    cdef Flow* f = &s.share.flow[requester]
    cdef uint64_t mask = a.reads | a.writes, requested
    cdef cycle_t since = a.first_denied
    cdef bint writes = ports == 0 and a.to_writes
    if since == NEVER:
        if traced:
            open_run(&w.flow_trace[requester], f, f.at.run_left, f.bank)
        mask = request_once(s, p, w, requester, w.begin + c)
        if mask == 0:
            return a.next_at - w.begin
        if traced:
            run_requested(&w.flow_trace[requester], w.begin + c)
    while c < w.n:
        if since != NEVER and w.begin + c - since >= w.max_wait:
            w.order_changed = True
        requested = mask
        mask = grant(p, w, c, ports, 0, mask) if writes else grant(p, w, c, ports, mask, 0)
        if traced:
            note(s, p, w, requester, c, 0 if writes else requested, requested if writes else 0, mask, since)
        if mask == 0:
            break
        note_denial(p, mask)
        s.denied += 1
        if since == NEVER:
            since = w.begin + c
            hold(s, p, requester, since)
        c += p.penalty
    a.reads = 0 if writes else mask
    a.writes = mask if writes else 0
    a.next_at = w.begin + c
    if mask:
        if a.backpressure_at < w.begin + w.n:
            press_later(s, requester)
        return c
    if since != NEVER:
        unhold(s, p, requester, w.begin + c)
    f.left -= f.requested
    if f.left == 0:
        flow_over(s, requester)
        return w.n
    a.next_at = flow_next(f) if f.member else NEVER
    return a.next_at - w.begin


cdef int64_t request_slowly(Sim* s, Spm* p, Walk* w, slot_t requester, int64_t c, int32_t ports) noexcept nogil:
    """`request_any` for a run that traces no requests."""
    return request_any(s, p, w, requester, c, ports, False)


cdef int64_t request_slowly_traced(Sim* s, Spm* p, Walk* w, slot_t requester, int64_t c) noexcept nogil:
    """`request_any` for a run that traces requests."""
    return request_any(s, p, w, requester, c, 0, True)
