"""P5 and P6 of a scratchpad in one walk over its lanes.

Ordinary requests are arbitrated in the fixed tie-break order, so asking, granting and moving can be one pass: what a lane asks for
depends on its own state only, and nothing that moves changes another's request of the same cycle. Requests that were first denied
`max_wait_cycles` ago come before, oldest first.
"""
from kernbench_core.bank cimport Lane, Spm, bank_of, grant, line_of, order_remove, set_banks, set_run, take_ports
from kernbench_core.compute cimport Compute, compute_body_done, compute_jump, compute_want, on_period
from kernbench_core.dma cimport NOT_STALLED, DmaJob
from kernbench_core.flow cimport flow_jump, flow_want
from kernbench_core.heap cimport timer_push
from kernbench_core.share cimport Flow
from kernbench_core.sim cimport Sim, reads_of, watch, writes_of
from kernbench_core.types cimport NEVER, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t


cdef void body_cycle(Sim* s, Spm* p, slot_t lane, cycle_t now) noexcept nogil:
    """P6 of a TE or VE: one body cycle is done."""
    cdef Compute* e = &s.compute[lane - s.n_flows]
    e.body_left -= 1
    if e.body_left:
        s.lane[lane].next_at = on_period(now + 1, e.period)
        return
    body_over(s, p, lane, now)


cdef void body_over(Sim* s, Spm* p, slot_t lane, cycle_t now) noexcept nogil:
    """The last body cycle was `now`: finalize follows, or the end."""
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


cdef void move_bytes(Sim* s, slot_t flow) noexcept nogil:
    """P6 of a flow: what it asked for moves."""
    cdef Flow* f = &s.share.flow[flow]
    f.left -= f.asked
    f.asked = 0
    if f.left == 0:
        s.lane[flow].next_at = NEVER
        s.done_flow[s.n_done_flow] = flow
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
    a.next_at = 0
    a.backpressure_at = NEVER
    f = &s.share.flow[lane]
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


cdef void ask(Sim* s, Spm* p, slot_t lane, cycle_t now) noexcept nogil:
    """A lane whose time has come: ask, and move or be held."""
    cdef Lane* a = &s.lane[lane]
    cdef Flow* f
    cdef uint64_t* reads = reads_of(s, lane)
    cdef uint64_t* writes = writes_of(s, lane)
    if a.first_denied == NEVER:
        if a.compute:
            if not compute_want(&s.compute[lane - s.n_flows], p, reads, writes):
                body_cycle(s, p, lane, now)
                return
        else:
            f = &s.share.flow[lane]
            if not flow_want(f, p, &s.dram, &s.dma_job[f.job].extent,
                             reads if s.dma_job[f.job].write or not p.split else writes):
                return
        if not grant(p, reads, writes):
            hold(s, p, lane, now)
            return
    elif grant(p, reads, writes):
        unhold(s, p, lane, now)
    else:
        hold(s, p, lane, now)
        return
    if a.compute:
        body_cycle(s, p, lane, now)
    else:
        move_bytes(s, lane)


cdef void ask_aged(Sim* s, Spm* p, cycle_t now) noexcept nogil:
    """Requests denied since max_wait_cycles or more, oldest first denial first; ties in the order of the lanes."""
    cdef int32_t k
    cdef slot_t lane, best
    cdef Lane* a
    cdef cycle_t oldest = NEVER
    while True:
        best = -1
        for k in range(p.n_order):
            lane = p.order[k]
            a = &s.lane[lane]
            if a.first_denied == NEVER or a.asked_at == now or a.next_at > now or now - a.first_denied < p.max_wait:
                continue
            if best < 0 or a.first_denied < s.lane[best].first_denied:
                best = lane
        if best < 0:
            break
        s.lane[best].asked_at = now
        ask(s, p, best, now)
    for k in range(p.n_order):
        a = &s.lane[p.order[k]]
        if a.first_denied < oldest:
            oldest = a.first_denied
    p.oldest = oldest


cdef void open_ports(Spm* p) noexcept nogil:
    cdef int32_t k, w, side
    for side in range(1 + p.split):
        for k in range(p.ports[side]):
            for w in range(p.words):
                p.free[side][k * p.words + w] = <uint64_t>-1


cdef void scratchpad_cycle(Sim* s, int32_t spm, cycle_t now) noexcept nogil:
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k
    cdef slot_t lane
    cdef Lane* a
    cdef bint aged = False
    open_ports(p)
    if p.n_held and now - p.oldest >= p.max_wait:
        ask_aged(s, p, now)
        aged = True
    for k in range(p.n_order):
        lane = p.order[k]
        a = &s.lane[lane]
        if a.next_at <= now and not (aged and a.asked_at == now):
            ask(s, p, lane, now)
        if a.backpressure_at <= now:
            a.backpressure_at = NEVER
            s.pressed[s.n_pressed] = lane
            s.n_pressed += 1


cdef void footprint(Spm* p, uint64_t* mask, nbytes_t addr, nbytes_t nbytes) noexcept nogil:
    """Add every bank that a range of the scratchpad touches."""
    cdef int64_t line = line_of(p, addr), last = line_of(p, addr + nbytes - 1)
    if p.blocked:
        set_run(mask, bank_of(p, line), bank_of(p, last) - bank_of(p, line) + 1)
    else:
        set_banks(p, mask, bank_of(p, line), last - line + 1)


cdef bint reserve(Spm* p, uint64_t* reads, uint64_t* writes) noexcept nogil:
    """Take a port on each bank of the masks and clear them; false where some bank has none left."""
    cdef int32_t w
    cdef bint ok = True
    for w in range(p.words):
        if reads[w] & ~p.free[0][w]:
            ok = False
        take_ports(p.free[0], p.ports[0], p.words, w, reads[w])
        if p.split:
            if writes[w] & ~p.free[1][w]:
                ok = False
            take_ports(p.free[1], p.ports[1], p.words, w, writes[w])
        reads[w] = 0
        writes[w] = 0
    return ok


cdef bint scratchpad_uncontended(Sim* s, int32_t spm) noexcept nogil:
    """No bank can have more askers than ports, whatever cycle the lanes ask in: then nothing is ever denied."""
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k, i
    cdef slot_t lane
    cdef Compute* e
    cdef DmaJob* j
    cdef Flow* f
    cdef uint64_t* reads
    cdef uint64_t* writes
    cdef bint ok = True
    if not p.judge:
        return p.uncontended
    p.judge = False
    p.uncontended = False
    if p.n_held:
        return False
    open_ports(p)
    for k in range(p.n_order):
        lane = p.order[k]
        reads = reads_of(s, lane)
        writes = writes_of(s, lane)
        if s.lane[lane].compute:
            e = &s.compute[lane - s.n_flows]
            if e.body_left == 0:
                continue
            for i in range(s.compute_job[e.job].regions):
                footprint(p, writes if p.split and s.compute_job[e.job].region[i].write else reads,
                          s.compute_job[e.job].region[i].addr, s.compute_job[e.job].region[i].nbytes)
        else:
            f = &s.share.flow[lane]
            j = &s.dma_job[f.job]
            footprint(p, reads if j.write or not p.split else writes, f.at.addr, j.extent.spm_addr + j.nbytes - f.at.addr)
        ok = reserve(p, reads, writes) and ok
        if not ok:
            return False
    p.uncontended = True
    return True


cdef int64_t scratchpad_horizon(Sim* s, int32_t spm, cycle_t now, int64_t limit) noexcept nogil:
    """How many cycles from `now` on, at most `limit`, no lane can end its work before the last of."""
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k
    cdef slot_t lane
    cdef Compute* e
    cdef Flow* f
    cdef int64_t n
    for k in range(p.n_order):
        lane = p.order[k]
        if s.lane[lane].compute:
            e = &s.compute[lane - s.n_flows]
            if e.body_left == 0:
                continue
            n = s.lane[lane].next_at + (e.body_left - 1) * e.period - now + 1
        else:
            f = &s.share.flow[lane]
            if not f.member:
                continue
            n = (f.left - f.whole - 1) // (f.rate_whole + (f.rate_frac != 0)) + 1
        if n < limit:
            limit = n if n > 1 else 1
    return limit


cdef void scratchpad_jump(Sim* s, int32_t spm, cycle_t now, int64_t cycles) noexcept nogil:
    """P5 and P6 of `cycles` cycles of an uncontended scratchpad, within its horizon."""
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k
    cdef slot_t lane
    cdef Lane* a
    cdef Compute* e
    cdef Flow* f
    cdef int64_t steps
    for k in range(p.n_order):
        lane = p.order[k]
        a = &s.lane[lane]
        if a.compute:
            e = &s.compute[lane - s.n_flows]
            if e.body_left == 0 or a.next_at >= now + cycles:
                continue
            steps = 1 + (now + cycles - 1 - a.next_at) // e.period
            compute_jump(e, p, reads_of(s, lane), writes_of(s, lane), steps)
            a.next_at += steps * e.period
            if e.body_left == 0:
                body_over(s, p, lane, a.next_at - e.period)
        else:
            f = &s.share.flow[lane]
            flow_jump(f, p, &s.dram, &s.dma_job[f.job].extent, reads_of(s, lane), cycles)
            if f.left == 0:
                a.next_at = NEVER
                s.done_flow[s.n_done_flow] = lane
                s.n_done_flow += 1
