"""P5 and P6 of a block of cycles, requester by requester.

Arbitration has a fixed order, and a request depends only on the state of its own requester, so a requester is never affected by the
requesters after it. The first requester therefore goes through all cycles of the block, then the second requester uses the ports that the
first has left, and so on. The state of a requester stays in registers meanwhile, and a request costs about forty instructions. The order of
a block is the order of one cycle, so no request may become aged inside the block; model/scratchpad.pyx ensures this.

`taken` has one word for each cycle and port of a bank: word k of a cycle has the banks with more than k ports taken. When the block is
over, its words are counted as grants.
"""
from libc.string cimport memcpy, memset

from kernbench_core.fast.request_table cimport requests_from
from kernbench_core.model.bank cimport BLOCK, DENIED, Requester, Spm, requester_held
from kernbench_core.model.compute cimport Compute, compute_seek, count_waits, on_period, sleep_idle
from kernbench_core.fast.simd cimport vectors
from kernbench_core.model.arbiter.oldest_first cimport aged_first
from kernbench_core.model.requester cimport activity_phase, body_over, press_later
from kernbench_core.trace.events cimport TRACE_FULL
from kernbench_core.fast.block_flow_denied cimport note_request
from kernbench_core.trace.record_block cimport close_notes, open_notes
from kernbench_core.trace.record_request_notes cimport after_request, before_request, streams_of
from kernbench_core.fast.block_compute cimport request_next
from kernbench_core.fast.block_flow cimport walk_flow_1, walk_flow_2, walk_flow_any, walk_flow_traced
from kernbench_core.model.sim cimport Sim, next_body_cycle
from kernbench_core.model.bank_counters cimport tally_eight, tally_noted
from kernbench_core.types cimport NEVER, cycle_t, int32_t, int64_t, slot_t, uint64_t
from kernbench_core.fast.block_ports cimport PORTS, Walk, grant, note_denial, take


cdef void save_denials(Spm* p) noexcept nogil:
    """Keep noted denials that cannot be counted yet."""
    if p.lookahead.n_denied >= 8:
        p.lookahead.n_denied = tally_noted(&p.denials, p.lookahead.denied, p.lookahead.n_denied)
    memcpy(p.lookahead.saved_denials, p.lookahead.denied, sizeof(p.lookahead.saved_denials))


cdef void switch_notes(Sim* s, Spm* p) noexcept nogil:
    save_denials(&s.spm[s.noting])
    memcpy(p.lookahead.denied, p.lookahead.saved_denials, sizeof(p.lookahead.saved_denials))
    s.noting = <int32_t>(p - s.spm)


cdef void notes_begin(Sim* s, int32_t spm) noexcept nogil:
    """Denials of this scratchpad are noted in `Sim.denials` from now on; no other scratchpad's denials may be noted there."""
    s.noting = spm
    memcpy(s.denials, s.spm[spm].lookahead.saved_denials, sizeof(s.spm[spm].lookahead.saved_denials))


cdef void notes_end(Sim* s) noexcept nogil:
    """Denials are no longer noted in `Sim.denials`."""
    save_denials(&s.spm[s.noting])


cdef void narrow_count(Sim* s) noexcept nogil:
    """Count all noted denials."""
    cdef uint64_t[8] masks
    cdef int32_t k
    cdef Spm* p
    save_denials(&s.spm[s.noting])
    for k in range(s.n_spm):
        p = &s.spm[k]
        if p.lookahead.n_denied:
            memset(masks, 0, sizeof(masks))
            memcpy(masks, p.lookahead.saved_denials, p.lookahead.n_denied * sizeof(uint64_t))
            tally_eight(&p.denials, masks)
            p.lookahead.n_denied = 0
    s.noting = 0


cdef struct Progress:         # progress of a dense engine in a block
    uint64_t need             # banks to request in the next cycle: those that the held request lacks, or those of the next body cycle
    int64_t waits             # cycles in which the current request was denied so far
    int64_t longest           # the longest wait of any request
    int64_t served            # number of held requests that were served
    int32_t denials


cdef inline void take_dense(Spm* p, uint64_t* taken, uint64_t* next, int64_t n, Progress* x, int32_t ports) noexcept nogil:
    """In each of `n` cycles, request the banks that the last body cycle still lacks, or the lines of the next body cycle. The loop has no
    branch."""
    cdef int64_t _k, served, waits = x.waits, longest = 0, released = 0
    cdef int32_t before = p.lookahead.n_denied, denials = before
    cdef uint64_t need = x.need
    cdef uint64_t* noted = p.lookahead.denied
    for _k in range(n):
        need &= ~take(taken, ports, need)
        taken += ports
        noted[denials] = need
        served = -<int64_t>(need == 0)      # all ones, or zero
        denials += 1 + <int32_t>served
        longest = max(longest, waits)
        released += served & -<int64_t>(waits != 0)
        waits = (waits + 1) & ~served
        need |= next[0] & <uint64_t>served
        next -= served
    x.need = need
    x.waits = waits
    x.longest = longest
    x.served = -released
    x.denials = denials - before
    p.lookahead.n_denied = denials


cdef inline void take_runs(Spm* p, uint64_t* taken, uint64_t* next, int64_t n, Progress* x, int32_t ports) noexcept nogil:
    """The same, with many cycles at once up to each denial."""
    cdef int64_t c = 0, run
    cdef int32_t before = p.lookahead.n_denied
    x.longest = 0
    x.served = 0
    while c < n:
        if x.waits == 0:
            next -= 1                           # `need` is the request before it
            run = vectors.take[ports - 1](taken + c * ports, next, n - c)
            c += run
            next += run
            x.need = next[0]
            next += 1
            if c == n:
                break
        x.need &= ~take(taken + c * ports, ports, x.need)
        c += 1
        x.longest = max(x.longest, x.waits)
        if x.need:
            p.lookahead.denied[p.lookahead.n_denied] = x.need
            p.lookahead.n_denied += 1
            x.waits += 1
        else:
            x.served += x.waits > 0
            x.waits = 0
            x.need = next[0]
            next += 1
    x.denials = p.lookahead.n_denied - before


cdef inline void walk_dense(Sim* s, Spm* p, Walk* w, Requester* a, Compute* e, uint64_t* next, int32_t ports) noexcept nogil:
    """A dense engine that makes a request in every cycle of the block, and whose body does not end in the block. `next`: the requests of
    its body cycles, from the first that it has not yet made."""
    cdef int64_t c = a.next_at - w.begin, n = w.n - c
    cdef bint held = a.first_denied != NEVER
    cdef int64_t requested    # cycles before this block in which the held request was denied
    cdef cycle_t since
    cdef Progress x
    x.waits = requested = w.begin + c - a.first_denied if held else 0
    x.need = a.reads if held else next[0]
    next += 1 - held
    if ports == 2 and vectors.level:            # with one port there are too many denials
        take_runs(p, w.taken[0] + c * ports, next, n, &x, ports)
    else:
        take_dense(p, w.taken[0] + c * ports, next, n, &x, ports)
    if x.longest >= w.max_wait:
        w.order_changed = True
    s.denied += x.denials
    count_waits(e, x.served, x.denials + requested - x.waits)
    e.body_left -= n - x.denials
    since = w.begin + w.n - x.waits if x.waits else NEVER
    a.next_at = w.begin + w.n
    a.reads = x.need if x.waits else 0
    if since != a.first_denied:
        requester_held(p, a, since)
    if p.lookahead.n_denied >= DENIED - BLOCK:
        p.lookahead.n_denied = tally_noted(&p.denials, p.lookahead.denied, p.lookahead.n_denied)


cdef inline void walk_compute(Sim* s, Spm* p, Walk* w, slot_t requester, int32_t ports, bint traced) noexcept nogil:
    """Simulate one TE or VE over the block, request by request."""
    cdef Requester* a = &s.requester[requester]
    cdef Compute* e = &s.compute[requester - s.n_flows]
    cdef int64_t c = a.next_at - w.begin
    cdef uint64_t reads = a.reads, writes = a.writes, denied
    cdef cycle_t since = a.first_denied
    while c < w.n:
        if since == NEVER:
            if traced:
                before_request(e, streams_of(s, requester))
            request_next(p, w, e, ports, &reads, &writes)
            if traced:
                after_request(e, streams_of(s, requester))
        denied = grant(p, w, c, ports, reads, writes)
        if traced:
            note_request(s, p, w, requester, c, reads, writes, denied, since)
        if denied:
            reads &= denied
            writes &= denied
            note_denial(p, denied)
            s.denied += 1
            if since == NEVER:
                since = w.begin + c
            c += p.penalty
            continue
        if since != NEVER:
            count_waits(e, 1, w.begin + c - since)
            since = NEVER
        e.body_left -= 1
        if e.body_left == 0:
            a.reads = 0
            a.writes = 0
            requester_held(p, a, NEVER)
            body_over(s, p, requester, w.begin + c)
            return
        c = on_period(w.begin + c + 1, e.period) + sleep_idle(e) * e.period - w.begin
    a.next_at = w.begin + c
    if since != a.first_denied:
        requester_held(p, a, since)
    a.reads = reads if since != NEVER else 0
    a.writes = writes if since != NEVER else 0


cdef inline void walk_requesters(Sim* s, Spm* p, Walk* w, int32_t n_due, int32_t ports, bint traced) noexcept nogil:
    """Simulate the requesters in `due`, one after another."""
    cdef int32_t k
    cdef slot_t requester
    cdef slot_t* due = p.lookahead.due
    cdef Requester* requesters = s.requester
    cdef Requester* a
    cdef Compute* e
    cdef cycle_t i, end = w.begin + w.n
    cdef int64_t n
    cdef uint64_t* want
    for k in range(n_due):
        requester = due[k]
        a = &requesters[requester]
        if a.next_at >= end:
            press_later(s, requester)
        elif a.compute:
            e = &s.compute[requester - s.n_flows]
            i = next_body_cycle(s, requester - s.n_flows)
            n = w.n - (a.next_at - w.begin)
            if not traced and e.dense and e.body_left > n:
                want = requests_from(&s.ahead[requester - s.n_flows], e, s.compute_job, p, i, n)
                walk_dense(s, p, w, a, e, want, ports if ports else w.ports[0])
            else:
                if e.dense:
                    compute_seek(e, s.compute_job, p, i)
                walk_compute(s, p, w, requester, ports, traced)
        elif traced:
            walk_flow_traced(s, p, w, requester)
        elif ports == 1:
            walk_flow_1(s, p, w, requester)
        elif ports == 2:
            walk_flow_2(s, p, w, requester)
        else:
            walk_flow_any(s, p, w, requester)


cdef void open_walk(Walk* w, Spm* p, int64_t n) noexcept nogil:
    w.begin = p.done
    w.n = n
    w.line = p.line
    w.piece = -1 if p.blocked else p.line
    w.shift = p.line_shift
    w.banks = p.banks
    w.full = p.full
    w.split = p.split
    w.max_wait = p.max_wait
    w.order_changed = False
    w.ports[0] = p.ports[0]
    w.ports[1] = p.ports[1]


cdef void walk_due(Sim* s, Spm* p, Walk* w, int32_t n_due) noexcept nogil:
    """Simulate the requesters in `due` over a block."""
    if p.split:
        walk_requesters(s, p, w, n_due, 0, False)
    elif p.ports[0] == 1:
        walk_requesters(s, p, w, n_due, 1, False)
    elif p.ports[0] == 2:
        walk_requesters(s, p, w, n_due, 2, False)
    else:
        walk_requesters(s, p, w, n_due, 0, False)


cdef void walk_due_traced(Sim* s, Spm* p, Walk* w, int32_t n_due) noexcept nogil:
    """The same for a run that traces requests; the notes are open."""
    walk_requesters(s, p, w, n_due, 0, True)


cdef bint narrow_block(Sim* s, Spm* p, int32_t n_due, int64_t n, bint speculative) noexcept nogil:
    """Simulate the requesters in `due` over `n` cycles from `p.done` on, at most BLOCK, in which nothing changes the order; only the last
    cycle may have an event. False if the block was speculative and some requester made a request when it was aged: everything except the
    counts of grants must then be undone."""
    cdef uint64_t[2 * PORTS * BLOCK + 8] words
    cdef int64_t k, used
    cdef bint traced = s.trace != NULL and s.trace.level >= TRACE_FULL
    cdef Walk w
    open_walk(&w, p, n)
    used = n * p.ports[0]
    w.taken[0] = words
    w.taken[1] = words + used
    if p.split:
        used += n * p.ports[1]
    used = (used + 7) // 8 * 8
    memset(words, 0, used * sizeof(uint64_t))
    if traced:
        open_notes(s, &w)
        walk_due_traced(s, p, &w, n_due)
        close_notes(s, p, &w)
    else:
        walk_due(s, p, &w, n_due)
    if w.order_changed and speculative:
        return False
    for k in range(used // 8):
        tally_eight(&p.grants, words + 8 * k)
    return True


cdef bint block_advance(Sim* s, Spm* p, cycle_t to) noexcept nogil:
    """Simulate a block of at most BLOCK cycles in which the order of arbitration does not change."""
    cdef int64_t n = min(<int64_t>BLOCK, to - p.done)
    cdef slot_t* order = p.order
    cdef int32_t n_due
    narrow_turn(s, p)
    # a request that is first denied in this block must not become aged in the block
    if n > p.max_wait and p.lookahead.aging_bound > p.done:
        n = p.max_wait if p.max_wait > 1 else 1
    if p.n_held and p.oldest < p.lookahead.aging_bound and p.done + n - p.oldest > p.max_wait:
        order = aged_first(s, p, p.order, p.n_order, p.done)
        if order != p.order:
            n = 1
        elif p.oldest < p.lookahead.aging_bound and p.done + n - p.oldest > p.max_wait:
            n = p.oldest + p.max_wait - p.done
    if p.n_out:                                 # a served flow that was out ends the stall of its engine in that cycle
        n = 1
    n_due = find_due(s, p, order, n)
    if n_due:
        narrow_block(s, p, n_due, n, False)
    elif s.skip and p.n_watch == 0:
        n = min(to, first_due(s, p)) - p.done
    if p.n_watch:
        activity_phase(s, p)
    p.done += n
    return True
