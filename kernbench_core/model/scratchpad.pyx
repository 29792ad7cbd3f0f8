"""P5 and P6 of a scratchpad in one cycle.

In P5 every requester that may make a request in this cycle forms it, and the arbiter grants banks. In P6 every requester whose
request was granted completely makes progress: its bytes move, or a body cycle is done. Every other requester is held, and
requests the missing banks again after the penalty.

A request depends only on the state of its own requester, so the order in which requests are formed does not matter.
"""
from kernbench_core.model.arbiter.arbiter cimport ARBITERS
from kernbench_core.model.arbiter.grant cimport traces_requests
from kernbench_core.model.bank cimport Requester, nobody_held, open_ports
from kernbench_core.model.compute cimport Compute, compute_want, on_period, sleep_idle
from kernbench_core.model.flow cimport flow_want
from kernbench_core.model.noc.sides cimport gives, takes
from kernbench_core.model.noc.transfers cimport routed_want
from kernbench_core.model.pair_requesters cimport flow_of
from kernbench_core.model.pair cimport pair_request, pair_decide
from kernbench_core.model.requester cimport activity_phase, body_over, flow_over, hold, press_later, unhold
from kernbench_core.model.share.membership cimport Flow, flow_accrue, next_request_cycle
from kernbench_core.model.sim cimport lacks_banks, reads_of, writes_of
from kernbench_core.trace.record_requests cimport record_conflicts, record_served
from kernbench_core.trace.record_request_notes cimport after_request, before_request, open_run, streams_of
from kernbench_core.types cimport NEVER, int32_t, slot_t


cdef inline bint of_component(Sim* s, slot_t requester) noexcept nogil:
    """The requester is a request of a component; the far side of a transfer is never among the requesters that are tested
    here."""
    return s.n_component_requests and requester >= s.n_flows + s.n_compute


cdef inline bint flow_asks(Sim* s, Spm* p, slot_t requester, cycle_t now, bint traced) noexcept nogil:
    """P5 of a flow: it earns the share of this cycle, and requests the whole lines that its carry covers."""
    cdef Requester* a = &s.requester[requester]
    cdef Flow* f = &s.share.flow[requester]
    if traced:
        open_run(&s.flow_trace[requester], f, f.at.run_left, f.bank)
    if s.noc != NULL:
        a.next_at = now + 1
        return routed_want(s, p, requester, now, writes_of(s, requester) if a.to_writes else reads_of(s, requester))
    flow_accrue(f, now + 1 - f.seen)
    f.seen = now + 1
    if flow_want(f, p, s.memory, &s.dma_job[f.job], writes_of(s, requester) if a.to_writes else reads_of(s, requester)):
        return True
    a.next_at = now + 1
    return False


cdef inline void body_cycle(Sim* s, Spm* p, slot_t requester, cycle_t now) noexcept nogil:
    """P6 of a TE or VE: one body cycle is done."""
    cdef Compute* e = &s.compute[requester - s.n_flows]
    e.body_left -= 1
    if e.body_left == 0:
        body_over(s, p, requester, now)
    else:
        s.requester[requester].next_at = on_period(now + 1, e.period) + (0 if s.share.plain else sleep_idle(e) * e.period)


cdef inline bint body_asks(Sim* s, Spm* p, slot_t requester, cycle_t now, bint traced) noexcept nogil:
    """P5 of a TE or VE: the banks of its next body cycle. A body cycle without requests is done at once."""
    cdef Compute* e = &s.compute[requester - s.n_flows]
    cdef bint requests
    if traced:
        before_request(e, streams_of(s, requester))
    requests = compute_want(e, p, reads_of(s, requester), writes_of(s, requester))
    if traced:
        after_request(e, streams_of(s, requester))
    if not requests:
        body_cycle(s, p, requester, now)
    return requests


cdef inline bint requests(Sim* s, Spm* p, slot_t requester, cycle_t now, bint traced) noexcept nogil:
    """The requester makes a request in this cycle; its masks have the banks."""
    cdef Requester* a = &s.requester[requester]
    if a.next_at > now and (requester >= s.n_flows or a.paired or a.first_denied != NEVER or not gives(s, requester)):
        return False
    if a.first_denied != NEVER or a.paired:
        return True                             # for the banks that it still lacks; for the request that pair.pyx has made
    if not a.compute:
        return flow_asks(s, p, requester, now, traced)
    return of_component(s, requester) or body_asks(s, p, requester, now, traced)


cdef inline int32_t find_requesting(Sim* s, Spm* p, cycle_t now, bint traced) noexcept nogil:
    """The requests of this cycle, in tie-break order; returns their number. The function is inlined where `traced` is a
    constant."""
    cdef slot_t* order = p.order
    cdef slot_t* asking = p.requesting
    cdef int32_t k, n = 0
    for k in range(p.n_order):
        if requests(s, p, order[k], now, traced):
            asking[n] = order[k]
            n += 1
    return n


cdef void requests_phase(Sim* s, Spm* p, cycle_t now) noexcept nogil:
    """P5: form the requests, and let the arbiter grant banks."""
    p.n_requesting = find_requesting(s, p, now, True) if traces_requests(s) else find_requesting(s, p, now, False)
    if p.n_requesting:
        open_ports(p)
        ARBITERS[p.arbiter].arbitrate(s, p, now)


cdef inline void ask_served(Sim* s, Spm* p, slot_t requester, cycle_t now) noexcept nogil:
    """P6 of a component's request."""
    cdef Requester* a = &s.requester[requester]
    cdef int32_t k = requester - s.plugs.first_requester
    if a.first_denied != NEVER:
        s.plugs.state[s.plugs.bank_request[k].by].held += now - a.first_denied
        a.first_denied = NEVER
        p.n_held -= 1
        if p.n_held == 0:
            nobody_held(p)
    a.next_at = NEVER
    s.plugs.served[s.plugs.n_served] = k
    s.plugs.n_served += 1


cdef inline void served(Sim* s, Spm* p, slot_t requester, cycle_t now, bint traced) noexcept nogil:
    """P6: handle a request that was granted completely."""
    cdef Requester* a = &s.requester[requester]
    cdef Flow* f
    if of_component(s, requester):
        ask_served(s, p, requester, now)
        return
    if traced:
        record_served(s, p, requester, a.first_denied, now)
    if a.first_denied != NEVER:
        unhold(s, p, requester, now)
    if a.compute:
        body_cycle(s, p, requester, now)
        return
    f = &s.share.flow[requester]
    f.left -= f.requested
    if f.left == 0 and takes(s, requester):
        a.next_at = NEVER                       # it ends with its last packet
    elif f.left == 0:
        flow_over(s, requester)
    else:
        a.next_at = next_request_cycle(&s.share, f) if f.member else NEVER


cdef inline void judge(Sim* s, Spm* p, cycle_t now, bint traced) noexcept nogil:
    """Serve or hold each request of this cycle. The function is inlined where `traced` is a constant."""
    cdef int32_t k
    cdef slot_t requester
    cdef Requester* a
    for k in range(p.n_requesting):
        requester = p.requesting[k]
        a = &s.requester[requester]
        if a.paired:
            continue
        if not lacks_banks(s, requester):
            served(s, p, requester, now, traced)
            continue
        s.denied += 1
        a.next_at = now + p.penalty
        if a.first_denied == NEVER:
            hold(s, p, requester, now)


cdef void progress_phase(Sim* s, Spm* p, cycle_t now) noexcept nogil:
    """P6: serve the requests that were granted completely, and hold the others. pair.pyx judges transfers between
    scratchpads."""
    cdef int32_t k
    if traces_requests(s):
        record_conflicts(s, p, now)
        judge(s, p, now, True)
    else:
        judge(s, p, now, False)
    for k in range(p.n_order if p.n_held else 0):
        if s.requester[p.order[k]].backpressure_at <= now and not s.requester[p.order[k]].paired:
            press_later(s, p.order[k])


cdef int32_t pairs_of(Sim* s) noexcept nogil:
    """Write the transfers between scratchpads that are past their head latency into `Sim.pair`; return their number."""
    cdef int32_t k, i, n = 0
    cdef Spm* p
    for k in range(s.n_spm if s.far_requesters else 0):
        p = &s.spm[k]
        for i in range(p.n_order):
            if s.requester[p.order[i]].paired and p.order[i] == flow_of(s, p.order[i]):
                s.pair[n] = p.order[i]
                n += 1
    return n


cdef void scratchpads_cycle(Sim* s, cycle_t now) noexcept nogil:
    """P5 and P6 of all scratchpads."""
    cdef int32_t k, pairs = pairs_of(s)
    for k in range(pairs):
        pair_request(s, s.pair[k], now)
    for k in range(s.n_spm):
        if s.spm[k].n_order:
            requests_phase(s, &s.spm[k], now)
            progress_phase(s, &s.spm[k], now)
    for k in range(pairs):
        pair_decide(s, s.pair[k], now)
    for k in range(s.n_spm):
        if s.spm[k].n_watch:
            activity_phase(s, &s.spm[k])
        s.spm[k].done = now + 1
