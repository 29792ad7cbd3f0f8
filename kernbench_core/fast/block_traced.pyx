"""The walk over a block of cycles of a run that traces requests: that of fast/block.pyx, request by request, and every one is told.

It is for any number of ports, and has no shortcuts but for requests inside a run of a flow, about which there is nothing to tell.
"""
from kernbench_core.model.arith cimport quotient
from kernbench_core.model.bank cimport Lane, Spm, requester_held
from kernbench_core.model.compute cimport Compute, compute_seek, on_period, sleep_idle
from kernbench_core.trace.events cimport TRACE_FULL, FlowTrace
from kernbench_core.model.requester cimport body_over, flow_over, hold, press_later, unhold
from kernbench_core.fast.block_wait cimport ask_once
from kernbench_core.fast.block_work cimport ask_next
from kernbench_core.trace.record_requests cimport record_served
from kernbench_core.trace.record_block cimport close_notes, note_denial, open_notes
from kernbench_core.trace.record_walk cimport after_work_asks, before_work_asks, open_run, put_note, run_asked, run_served, streams_of
from kernbench_core.model.share.membership cimport Flow, flow_next
from kernbench_core.model.sim cimport next_body_cycle
from kernbench_core.types cimport NEVER, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t
from kernbench_core.fast.walk cimport grant, run_of, take
from kernbench_core.fast.walk cimport note_denial as count_denial


cdef inline int64_t ask_lines(
        Spm* p, Walk* w, Flow* f, int64_t c, uint64_t* taken, int32_t ports, slot_t lane) noexcept nogil:
    """A flow slower than a line a cycle asks line by line, inside a run and while it is not denied: the cycle in which that ends."""
    cdef int64_t num = f.num, line = w.line * f.den, carry = f.carry, run = f.at.run_left, bank = f.bank, earned = f.seen - w.begin
    cdef int64_t k, gap, n = w.n, banks = w.banks, enough = 2 * w.line
    cdef bint writes = taken == w.taken[1]
    cdef uint64_t mask, inverse = f.inverse
    while c < n and run >= enough:
        k = carry + (c + 1 - earned) * num - line
        mask = <uint64_t>1 << bank
        if taken[c * ports + ports - 1] & mask or k < 0:
            break
        take(taken + c * ports, ports, mask)
        put_note(w, lane, c, 0 if writes else mask, mask if writes else 0)
        carry = k
        c += 1
        earned = c
        bank = bank + 1 if bank + 1 < banks else 0
        run -= w.line
        gap = line - carry - 1
        k = <int64_t>((<uint64_t>gap * inverse) >> 32)      # `divided`
        c += k + (gap - k * num >= num)
    f.left -= f.at.run_left - run
    f.at.run_left = run
    f.carry = carry
    f.seen = w.begin + earned
    f.bank = <int32_t>bank
    return c


cdef inline int64_t ask_rows(
        Spm* p, Walk* w, Flow* f, int64_t c, uint64_t* taken, int32_t ports, slot_t lane) noexcept nogil:
    """The same for a flow that asks for lines in every cycle: always as many, or one more."""
    cdef int64_t num = f.num, line = w.line * f.den, carry = f.carry, run = f.at.run_left, bank = f.bank, k
    cdef int64_t lines = quotient(num, line), least = lines * line, enough = (lines + 2) * w.line
    cdef bint writes = taken == w.taken[1]
    cdef uint64_t mask
    if lines + 2 > w.banks or f.seen != w.begin + c:
        return c
    while c < w.n and run >= enough:
        k = lines + (carry + num - least >= line)
        mask = run_of(w, bank, k)
        if taken[c * ports + ports - 1] & mask:
            break
        take(taken + c * ports, ports, mask)
        put_note(w, lane, c, 0 if writes else mask, mask if writes else 0)
        carry += num - k * line
        c += 1
        bank += k
        bank = bank - w.banks if bank >= w.banks else bank
        run -= k * w.line
    f.left -= f.at.run_left - run
    f.at.run_left = run
    f.carry = carry
    f.seen = w.begin + c
    f.bank = <int32_t>bank
    return c


cdef inline int64_t ask_quickly(
        Spm* p, Walk* w, Lane* a, Flow* f, int64_t c, slot_t lane) noexcept nogil:
    """Go through all requests of the block that are nothing special; the cycle of the first that is, or that comes after it."""
    cdef int32_t side = 1 if a.to_writes else 0
    cdef int32_t each = w.ports[side]
    cdef int64_t line = w.line * f.den, end
    cdef nbytes_t rest = f.at.run_left
    cdef int32_t bank = f.bank
    if f.piece != w.line or f.carry >= line or p.blocked or line >> 32 or not f.member or w.trace.level > TRACE_FULL:
        return c
    if f.num >= line:
        end = ask_rows(p, w, f, c, w.taken[side], each, lane)
    else:
        end = ask_lines(p, w, f, c, w.taken[side], each, lane)
    if f.at.run_left != rest:
        open_run(&w.flow_trace[lane], f, rest, bank)
        run_asked(&w.flow_trace[lane], w.begin + c)
    return end


cdef inline void tell(
        Sim* s, Spm* p, Walk* w, slot_t lane, int64_t c, uint64_t reads, uint64_t writes, uint64_t denied, cycle_t since) noexcept nogil:
    """A traced request was arbitrated; it was first denied in cycle `since`."""
    if denied:
        note_denial(s, p, w, lane, c, reads, writes, denied, since == NEVER)
        return
    put_note(w, lane, c, reads, writes)
    if since != NEVER or lane >= s.n_flows or not run_served(s, &s.share.flow[lane], &s.flow_trace[lane], w.begin + c):
        record_served(s, p, lane, since, w.begin + c)


cdef inline void walk_flow(Sim* s, Spm* p, Walk* w, slot_t lane) noexcept nogil:
    """One flow over the block."""
    cdef FlowTrace* t = &s.flow_trace[lane]
    cdef Lane* a = &s.lane[lane]
    cdef Flow* f = &s.share.flow[lane]
    cdef int64_t c = a.next_at - w.begin
    cdef uint64_t mask, asked
    while c < w.n:
        if a.first_denied == NEVER:
            c = ask_quickly(p, w, a, f, c, lane)
            if c >= w.n:
                a.next_at = w.begin + c
                break
            open_run(t, f, f.at.run_left, f.bank)
            mask = ask_once(s, p, w, lane, w.begin + c)
            if mask == 0:
                c = a.next_at - w.begin
                continue
            run_asked(t, w.begin + c)
        else:
            mask = a.reads | a.writes
        asked = mask
        if a.to_writes:
            mask = grant(p, w, c, 0, 0, mask)
            a.writes = mask
        else:
            mask = grant(p, w, c, 0, mask, 0)
            a.reads = mask
        tell(s, p, w, lane, c, 0 if a.to_writes else asked, asked if a.to_writes else 0, mask, a.first_denied)
        if mask:
            count_denial(p, mask)
            s.denied += 1
            a.next_at = w.begin + c + p.penalty
            if a.first_denied == NEVER:
                hold(s, p, lane, w.begin + c)
        else:
            if a.first_denied != NEVER:
                unhold(s, p, lane, w.begin + c)
            f.left -= f.asked
            if f.left == 0:
                flow_over(s, lane)
                return
            a.next_at = flow_next(f) if f.member else NEVER
        c = a.next_at - w.begin
    if a.backpressure_at < w.begin + w.n:
        press_later(s, lane)


cdef inline void walk_compute(Sim* s, Spm* p, Walk* w, slot_t lane) noexcept nogil:
    """One TE or VE over the block, request by request."""
    cdef Lane* a = &s.lane[lane]
    cdef Compute* e = &s.compute[lane - s.n_flows]
    cdef int64_t c = a.next_at - w.begin
    cdef uint64_t reads = a.reads, writes = a.writes, denied
    cdef cycle_t since = a.first_denied
    while c < w.n:
        if since == NEVER:
            before_work_asks(e, streams_of(s, lane))
            ask_next(p, w, e, 0, &reads, &writes)
            after_work_asks(e, streams_of(s, lane))
        denied = grant(p, w, c, 0, reads, writes)
        tell(s, p, w, lane, c, reads, writes, denied, since)
        if denied:
            reads &= denied
            writes &= denied
            count_denial(p, denied)
            s.denied += 1
            if since == NEVER:
                since = w.begin + c
            c += p.penalty
            continue
        if since != NEVER:
            e.conflict += w.begin + c - since
            since = NEVER
        e.body_left -= 1
        if e.body_left == 0:
            a.reads = 0
            a.writes = 0
            requester_held(p, a, NEVER)
            body_over(s, p, lane, w.begin + c)
            return
        c = on_period(w.begin + c + 1, e.period) + sleep_idle(e) * e.period - w.begin
    a.next_at = w.begin + c
    if since != a.first_denied:
        requester_held(p, a, since)
    a.reads = reads if since != NEVER else 0
    a.writes = writes if since != NEVER else 0


cdef void walk_one(Sim* s, Spm* p, Walk* w, slot_t lane) noexcept nogil:
    """A lane that is due in the block; its requests are noted."""
    cdef Lane* a = &s.lane[lane]
    cdef Compute* e
    if a.next_at >= w.begin + w.n:
        press_later(s, lane)
    elif a.compute:
        e = &s.compute[lane - s.n_flows]
        if e.dense:                             # its streams may stand where a run that was not traced left them
            compute_seek(e, s.compute_job, p, next_body_cycle(s, lane - s.n_flows))
        walk_compute(s, p, w, lane)
    else:
        walk_flow(s, p, w, lane)


cdef void walk_traced(Sim* s, Spm* p, Walk* w, int32_t n_due) noexcept nogil:
    """The lanes in `due`, one after the other; then who denied whom."""
    cdef int32_t k
    open_notes(s, w)
    for k in range(n_due):
        walk_one(s, p, w, p.due[k])
    close_notes(s, p, w)
