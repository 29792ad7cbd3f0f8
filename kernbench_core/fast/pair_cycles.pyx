"""The choice of scratchpads with transfers between scratchpads that are run cycle by cycle, and those cycles.

A scratchpad that is known to deny nothing for some time (fast/pair_conflict_free.pyx) need not be run cycle by cycle. It grants every
request, and is notified if another scratchpad denies a request of one of its flows.
"""
from kernbench_core.fast.paths cimport scratchpad_advance, scratchpad_touch, settle_dense
from kernbench_core.fast.pair_conflict_free cimport pair_jump
from kernbench_core.model.bank cimport Requester, Spm
from kernbench_core.model.pair_requesters cimport far_requester, flow_of
from kernbench_core.model.pair cimport pair_request, pair_decide, pair_lacks
from kernbench_core.model.requester cimport activity_phase
from kernbench_core.model.scratchpad cimport progress_phase, requests_phase
from kernbench_core.model.sim cimport reads_of, writes_of
from kernbench_core.model.bank_counters cimport tally_done, tally_word
from kernbench_core.trace.events cimport TRACE_FULL
from kernbench_core.types cimport NEVER, slot_t, uint64_t


cdef void update_stepping(Sim* s, int32_t spm) noexcept nogil:
    """After a look-ahead: the scratchpad is run cycle by cycle from its next cycle on, or no longer."""
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k
    cdef bint steps = p.n_pairs > 0 and p.lookahead.conflict_free <= p.done
    if steps == (p.lookahead.step > 0):
        return
    if p.lookahead.step:
        s.n_paired -= 1
        s.paired[p.lookahead.step - 1] = s.paired[s.n_paired]
        s.spm[s.paired[p.lookahead.step - 1]].lookahead.step = p.lookahead.step
        p.lookahead.step = 0
        return
    for k in range(p.n_order):
        if s.requester[p.order[k]].paired:
            pair_jump(s, flow_of(s, p.order[k]), p.done)
    s.paired[s.n_paired] = spm
    s.n_paired += 1
    p.lookahead.step = s.n_paired


cdef void reset_stepping(Sim* s) noexcept nogil:
    """A run returns: forget which scratchpads are run cycle by cycle."""
    cdef int32_t k
    for k in range(s.n_paired):
        s.spm[s.paired[k]].lookahead.step = 0
    s.n_paired = 0


cdef inline void take_all(Spm* p, uint64_t* reads, uint64_t* writes) noexcept nogil:
    """A scratchpad before its conflict-free horizon grants the request."""
    cdef int32_t w
    for w in range(p.words):
        if reads[w] | writes[w]:
            tally_word(&p.grants, w, reads[w] | writes[w])
            reads[w] = 0
            writes[w] = 0
    tally_done(&p.grants, 1)


cdef void request(Sim* s, slot_t flow, cycle_t now) noexcept nogil:
    """P5; sides that are not run cycle by cycle grant immediately."""
    cdef slot_t far = far_requester(s, flow)
    pair_request(s, flow, now)
    if s.requester[flow].next_at > now:
        return
    if s.spm[s.requester[flow].spm].lookahead.step == 0:
        take_all(&s.spm[s.requester[flow].spm], reads_of(s, flow), writes_of(s, flow))
    if s.spm[s.requester[far].spm].lookahead.step == 0:
        take_all(&s.spm[s.requester[far].spm], reads_of(s, far), writes_of(s, far))


cdef void decide(Sim* s, slot_t flow, cycle_t now) noexcept nogil:
    """P6; a side that is behind is brought up to date before its flow is held."""
    cdef int32_t spm = s.requester[flow].spm
    cdef Requester* a = &s.requester[flow]
    if s.spm[spm].lookahead.step == 0 and a.next_at <= now and a.first_denied == NEVER and pair_lacks(s, flow):
        scratchpad_advance(s, spm, now)
    pair_decide(s, flow, now)


cdef int32_t find_pairs(Sim* s) noexcept nogil:
    """Write the flows with a side in a scratchpad that is run cycle by cycle into `pair`; return their number."""
    cdef int32_t k, i, n = 0
    cdef slot_t requester, flow
    cdef Spm* p
    for k in range(s.n_paired):
        p = &s.spm[s.paired[k]]
        for i in range(p.n_order):
            requester = p.order[i]
            if s.requester[requester].paired:
                flow = flow_of(s, requester)
                if requester == flow or s.spm[s.requester[flow].spm].lookahead.step == 0:   # else the other side finds it
                    s.pair[n] = flow
                    n += 1
    return n


cdef void in_order(Sim* s) noexcept nogil:
    """For a trace of requests: the order scratchpad by scratchpad."""
    cdef int32_t k, i, spm
    for k in range(1, s.n_paired):
        spm = s.paired[k]
        i = k
        while i and s.paired[i - 1] > spm:
            s.paired[i] = s.paired[i - 1]
            s.spm[s.paired[i]].lookahead.step = i + 1
            i -= 1
        s.paired[i] = spm
        s.spm[spm].lookahead.step = i + 1


cdef void notify(Sim* s, int32_t spm, cycle_t now) noexcept nogil:
    """The other scratchpad denied a request of a flow of a scratchpad before its conflict-free horizon: the horizon is no longer valid."""
    if s.spm[spm].lookahead.step == 0:
        scratchpad_touch(s, spm, now + 1)


cdef void paired_cycle(Sim* s, cycle_t now) noexcept nogil:
    """Run cycle `now` of the scratchpads with flows to others in which a request may be denied. The scratchpads have been run up to this
    cycle."""
    cdef int32_t k, n
    cdef Spm* p
    cdef slot_t flow
    if s.trace != NULL and s.trace.level >= TRACE_FULL:
        in_order(s)
    n = find_pairs(s)
    for k in range(n):
        request(s, s.pair[k], now)
    for k in range(s.n_paired):
        p = &s.spm[s.paired[k]]
        settle_dense(s, p)
        requests_phase(s, p, now)
        progress_phase(s, p, now)
    for k in range(n):
        decide(s, s.pair[k], now)
    for k in range(s.n_paired):
        p = &s.spm[s.paired[k]]
        if p.n_watch:
            activity_phase(s, p)
        p.done = now + 1
    for k in range(n):
        flow = s.pair[k]
        if s.requester[flow].first_denied == now:
            notify(s, s.requester[flow].spm, now)
            notify(s, s.requester[far_requester(s, flow)].spm, now)
