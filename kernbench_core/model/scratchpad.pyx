"""P5 and P6 of a scratchpad: block after block of cycles up to where it is needed.

What a lane asks for depends on its own state only, and nothing that moves changes another's request of the same cycle: so asking,
granting and moving are one walk over the lanes in the order of arbitration. That order is the fixed tie-break order, but that
requests first denied `max_wait_cycles` ago go before the others, oldest first.

There are two walks. `wide_cycle` is the plain one, for any number of banks and ports, a cycle at a time. fast/block.pyx does the same
for a block of cycles at a time, where all banks fit one word and ports are few. A scratchpad runs behind the run's cycle until
something that others see may happen in it, or is done to it (`scratchpad_touch`).
"""
from kernbench_core.model.bank cimport BLOCK, Lane, Spm, grant, open_ports
from kernbench_core.fast.conflict_free cimport clear_over
from kernbench_core.model.compute cimport Compute, compute_seek, compute_want, on_period, sleep_idle
from kernbench_core.trace.events cimport TRACE_FULL
from kernbench_core.model.flow cimport flow_want
from kernbench_core.model.requester cimport activity_phase, body_over, flow_over, hold, press_later, unhold
from kernbench_core.fast.block cimport find_due, narrow_block, narrow_turn
from kernbench_core.trace.record_requests cimport record_asking, record_conflicts, record_served
from kernbench_core.trace.record_walk cimport after_work_asks, before_work_asks, open_run, streams_of
from kernbench_core.model.share.membership cimport Flow, flow_accrue, flow_next
from kernbench_core.model.sim cimport Sim, memory_of, next_body_cycle, reads_of, writes_of
from kernbench_core.fast.skip cimport scratchpad_jump, scratchpad_uncontended
from kernbench_core.fast.speculative cimport may_try, try_block
from kernbench_core.types cimport NEVER, cycle_t, int32_t, int64_t, slot_t, uint64_t

cdef inline void body_cycle(Sim* s, Spm* p, Lane* a, slot_t lane, Compute* e, cycle_t now) noexcept nogil:
    """P6 of a TE or VE: one body cycle is done."""
    e.body_left -= 1
    if e.body_left:
        a.next_at = on_period(now + 1, e.period) + sleep_idle(e) * e.period
    else:
        body_over(s, p, lane, now)


cdef inline void serve_ask(Sim* s, Spm* p, Lane* a, slot_t lane, cycle_t now) noexcept nogil:
    """P6 of a component's request: it has all its banks."""
    cdef int32_t k = lane - s.plugs.first_lane
    if a.first_denied != NEVER:
        s.plugs.state[s.plugs.ask[k].by].held += now - a.first_denied
        a.first_denied = NEVER
        p.n_held -= 1
        if p.n_held == 0:
            p.oldest = NEVER
            p.judge = True
    a.next_at = NEVER
    s.plugs.served[s.plugs.n_served] = k
    s.plugs.n_served += 1


cdef inline void move_bytes(Sim* s, Lane* a, slot_t lane, Flow* f) noexcept nogil:
    """P6 of a flow: what it asked for moves."""
    f.left -= f.asked
    if f.left == 0:
        flow_over(s, lane)
    else:
        a.next_at = flow_next(f) if f.member else NEVER


cdef slot_t* aged_first(Sim* s, Spm* p, cycle_t now) noexcept nogil:
    """The lanes in the order of this cycle: aged requests by age, ties and the rest in tie-break order."""
    cdef int32_t k, i, n = 0
    cdef slot_t lane
    cdef cycle_t since, oldest = NEVER, aged = now - p.max_wait
    for k in range(p.n_order):
        oldest = min(oldest, s.lane[p.order[k]].first_denied)
    p.oldest = oldest
    if oldest > aged:
        return p.order
    for k in range(p.n_order):
        since = s.lane[p.order[k]].first_denied
        if since > aged:
            continue
        i = n
        while i and s.lane[p.turn[i - 1]].first_denied > since:
            p.turn[i] = p.turn[i - 1]
            i -= 1
        p.turn[i] = p.order[k]
        n += 1
    for k in range(p.n_order):
        lane = p.order[k]
        if s.lane[lane].first_denied > aged:
            p.turn[n] = lane
            n += 1
    return p.turn


cdef void wide_ask(Sim* s, Spm* p, slot_t lane, cycle_t now) noexcept nogil:
    """A lane whose time has come: ask, and move or be held."""
    cdef Lane* a = &s.lane[lane]
    cdef Compute* e = &s.compute[lane - s.n_flows] if a.compute else NULL       # nobody's, for a component
    cdef Flow* f = NULL if a.compute else &s.share.flow[lane]
    cdef uint64_t* reads = reads_of(s, lane)
    cdef uint64_t* writes = writes_of(s, lane)
    cdef bint asks
    cdef bint traced = s.trace != NULL and s.trace.level >= TRACE_FULL
    if a.first_denied == NEVER and lane < s.n_flows + s.n_compute:
        if a.compute:
            if e.dense:                         # its streams may stand where the walk over blocks left them
                compute_seek(e, s.compute_job, p, next_body_cycle(s, lane - s.n_flows))
            if traced:
                before_work_asks(e, streams_of(s, lane))
            asks = compute_want(e, p, reads, writes)
            if traced:
                after_work_asks(e, streams_of(s, lane))
            if not asks:
                body_cycle(s, p, a, lane, e, now)
                return
        else:
            if traced:
                open_run(&s.flow_trace[lane], f, f.at.run_left, f.bank)
            flow_accrue(f, now + 1 - f.seen)
            f.seen = now + 1
            if not flow_want(f, p, memory_of(s, f.job), &s.dma_job[f.job].extent, writes if a.to_writes else reads):
                a.next_at = now + 1
                return
    if traced:
        record_asking(s, p, lane, reads, writes, now)
    if not grant(p, reads, writes):
        s.denied += 1
        a.next_at = now + p.penalty
        if a.first_denied == NEVER:
            hold(s, p, lane, now)
        return
    if lane >= s.n_flows + s.n_compute:
        serve_ask(s, p, a, lane, now)
        return
    if traced:
        record_served(s, p, lane, a.first_denied, now)
    if a.first_denied != NEVER:
        unhold(s, p, lane, now)
    if a.compute:
        body_cycle(s, p, a, lane, e, now)
    else:
        move_bytes(s, a, lane, f)


cdef void half_ask(Sim* s, Spm* p, slot_t lane) noexcept nogil:
    """One side of a flow between scratchpads asks for what it still lacks here; model/pair.pyx judges both."""
    cdef uint64_t* reads = reads_of(s, lane)
    cdef uint64_t* writes = writes_of(s, lane)
    if s.trace != NULL and s.trace.level >= TRACE_FULL:
        record_asking(s, p, lane, reads, writes, p.done)
    grant(p, reads, writes)


cdef void wide_cycle(Sim* s, Spm* p, slot_t* order) noexcept nogil:
    """The cycle `p.done`, for any number of banks and ports."""
    cdef int32_t k
    cdef Lane* a
    open_ports(p)
    for k in range(p.n_order):
        a = &s.lane[order[k]]
        if a.paired:
            if a.next_at <= p.done:
                half_ask(s, p, order[k])
            continue
        if a.next_at <= p.done:
            wide_ask(s, p, order[k], p.done)
        if a.backpressure_at <= p.done:
            press_later(s, order[k])


cdef slot_t* turn_of(Sim* s, Spm* p, cycle_t now) noexcept nogil:
    """The lanes in the order of a single cycle."""
    return aged_first(s, p, now) if p.n_held and now + 1 - p.oldest > p.max_wait else p.order


cdef void run_block(Sim* s, Spm* p, int64_t n) noexcept nogil:
    """At most `n` cycles from `p.done` on, in one order of arbitration."""
    cdef slot_t* order = p.order
    cdef bint narrow = p.narrow and p.n_asks == 0       # those of components are looked at one by one
    if n > BLOCK:
        n = BLOCK
    if narrow:
        narrow_turn(s, p)
    if (n > p.max_wait and p.calm > p.done or p.n_held and p.oldest < p.calm and p.done + n - p.oldest > p.max_wait) and narrow:
        if may_try(s, p, &n) and try_block(s, p, n):
            if p.n_watch:
                activity_phase(s, p)
            p.done += n
            return
    if n > p.max_wait and p.calm > p.done:      # what is first denied in this block must not come of age in it
        n = p.max_wait if p.max_wait > 1 else 1
    if p.n_held and p.oldest < p.calm and p.done + n - p.oldest > p.max_wait:
        order = aged_first(s, p, p.done)
        if order != p.order:
            n = 1
        elif p.oldest < p.calm and p.done + n - p.oldest > p.max_wait:
            n = p.oldest + p.max_wait - p.done
    if p.n_out or not narrow:                     # a served flow that was out ends its engine's stall in that cycle
        n = 1
    if narrow:
        narrow_block(s, p, find_due(s, p, order, n), n, False)
    else:
        wide_cycle(s, p, order)
        if s.trace != NULL and s.trace.level >= TRACE_FULL:
            record_conflicts(s, p, p.done)
    if p.n_watch:
        activity_phase(s, p)
    p.done += n


cdef void jump_clear(Sim* s, int32_t spm, cycle_t to) noexcept nogil:
    """Go over cycles in which nothing is denied."""
    cdef Spm* p = &s.spm[spm]
    if p.n_watch:
        activity_phase(s, p)
    scratchpad_jump(s, spm, p.done, to - p.done)
    p.done = to


cdef void scratchpad_advance(Sim* s, int32_t spm, cycle_t to) noexcept nogil:
    """Run the cycles before `to` that have not been run; only the last may bring an event."""
    cdef Spm* p = &s.spm[spm]
    p.laid = False
    while p.done < to:
        if p.n_order == 0 or (s.skip and p.n_pairs == 0 and scratchpad_uncontended(s, spm)):
            jump_clear(s, spm, to)
        elif p.clear > p.done:
            jump_clear(s, spm, min(to, p.clear))
        else:
            run_block(s, p, to - p.done)


cdef void scratchpad_due(Sim* s, int32_t spm, cycle_t to) noexcept nogil:
    """The cycles before `to` are run, and the horizon will be found again."""
    cdef Spm* p = &s.spm[spm]
    if p.done < to:
        scratchpad_advance(s, spm, to)
    if not p.touched:
        p.touched = True
        s.touched[s.n_touched] = spm
        s.n_touched += 1


cdef void scratchpad_touch(Sim* s, int32_t spm, cycle_t now) noexcept nogil:
    """Before something is done to a scratchpad in cycle `now`: the cycles before it are run, and its horizon will be found again."""
    scratchpad_due(s, spm, now)
    clear_over(s, &s.spm[spm], now)
