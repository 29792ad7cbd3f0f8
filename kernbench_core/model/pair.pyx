"""P5 and P6 of scratchpads that transfers between scratchpads bind together.

Such a flow has two lanes, one in each scratchpad's order; each bank decides for itself, as always. Its request is for lines of both
sides, and is served when neither lacks any. So these scratchpads go through every cycle together, between the two halves of the
flow's work: asking before any bank is arbitrated, and being served or held after all are. Those that are known to deny nothing for some
time (fast/pair_conflict_free.pyx) need not: they grant whatever is asked for, and are told where another one denies one of their flows something.

Lines of both sides coincide: addresses are multiples of the line, and all scratchpads have the same line (`kernbench` checks it).
"""
from kernbench_core.model.bank cimport Lane, Spm, bank_of, line_of, order_remove
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.model.dram.extent cimport cursor_advance, cursor_sync
from kernbench_core.trace.events cimport TRACE_FULL
from kernbench_core.model.flow cimport cap_carry
from kernbench_core.model.requester cimport activity_phase, flow_over, hold, press_later, unhold
from kernbench_core.fast.block_work cimport set_held
from kernbench_core.fast.pair_conflict_free cimport far_lane, flow_of, pair_jump
from kernbench_core.trace.record_requests cimport record_conflicts, record_served
from kernbench_core.trace.record_walk cimport open_run
from kernbench_core.model.scratchpad cimport scratchpad_advance, scratchpad_touch, turn_of, wide_cycle
from kernbench_core.model.share.membership cimport Flow, flow_next
from kernbench_core.model.sim cimport Sim, memory_of, reads_of, writes_of
from kernbench_core.model.tally cimport tally_done, tally_word
from kernbench_core.types cimport NEVER, cycle_t, int32_t, nbytes_t, slot_t, uint64_t


cdef void unpair_spm(Sim* s, int32_t spm, cycle_t now) noexcept nogil:
    """The scratchpad has one such lane less; without any it runs by itself again."""
    scratchpad_touch(s, spm, now)
    s.spm[spm].n_pairs -= 1


cdef void pair_open(Sim* s, slot_t flow) noexcept nogil:
    """Both lanes of the flow stand in their scratchpads' order."""
    cdef slot_t far = far_lane(s, flow)
    s.lane[flow].paired = True
    s.lane[far].paired = True
    s.spm[s.lane[flow].spm].n_pairs += 1
    s.spm[s.lane[far].spm].n_pairs += 1


cdef void pair_close(Sim* s, slot_t flow, cycle_t now) noexcept nogil:
    """The flow's last byte has moved in the cycle before `now`: its far lane goes."""
    cdef slot_t far = far_lane(s, flow)
    order_remove(&s.spm[s.lane[far].spm], far)
    unpair_spm(s, s.lane[flow].spm, now)
    unpair_spm(s, s.lane[far].spm, now)


cdef void pair_turn(Sim* s, int32_t spm) noexcept nogil:
    """After it was looked for a clear time: the scratchpad is run cycle by cycle from its next one on, or is not any more."""
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k
    cdef bint steps = p.n_pairs > 0 and p.clear <= p.done
    if steps == (p.step > 0):
        return
    if p.step:
        s.n_paired -= 1
        s.paired[p.step - 1] = s.paired[s.n_paired]
        s.spm[s.paired[p.step - 1]].step = p.step
        p.step = 0
        return
    for k in range(p.n_order):
        if s.lane[p.order[k]].paired:
            pair_jump(s, flow_of(s, p.order[k]), p.done)
    s.paired[s.n_paired] = spm
    s.n_paired += 1
    p.step = s.n_paired


cdef void pair_rest(Sim* s) noexcept nogil:
    """A run returns, and nothing is known any more of which scratchpads are run cycle by cycle."""
    cdef int32_t k
    for k in range(s.n_paired):
        s.spm[s.paired[k]].step = 0
    s.n_paired = 0


cdef inline bint add_bank(uint64_t* mask, int32_t bank) noexcept nogil:
    """False where it is there already."""
    cdef uint64_t bit = <uint64_t>1 << (bank & 63)
    if mask[bank >> 6] & bit:
        return False
    mask[bank >> 6] |= bit
    return True


cdef bint ask_both(Sim* s, slot_t flow, Spm* near, Spm* far) noexcept nogil:
    """The longest run of whole next lines that the carry reaches and in which no bank of either side has two."""
    cdef Flow* f = &s.share.flow[flow]
    cdef DmaJob* j = &s.dma_job[f.job]
    cdef uint64_t* here = reads_of(s, flow) if j.write or not near.split else writes_of(s, flow)
    cdef uint64_t* there = writes_of(s, far_lane(s, flow)) if j.write and far.split else reads_of(s, far_lane(s, flow))
    cdef nbytes_t asked = 0, size, budget = f.carry // f.den
    cdef int32_t bank, other
    cursor_sync(&f.at)
    while asked < f.left:
        size = min((line_of(near, f.at.addr + asked) + 1) * near.line - f.at.addr - asked, f.left - asked)
        if asked + size > budget:
            break
        bank = bank_of(near, line_of(near, f.at.addr + asked))
        other = bank_of(far, line_of(far, f.at.dram + asked))
        if (here[bank >> 6] >> (bank & 63) & 1) or not add_bank(there, other):
            break
        add_bank(here, bank)
        asked += size
    if asked == 0:
        return False
    f.asked = asked
    f.carry -= asked * f.den
    cursor_advance(&f.at, memory_of(s, f.job), &j.extent, f.channel, asked)
    f.piece = min(near.line, f.at.run_left)
    cap_carry(f, near)
    return True


cdef void pair_ask(Sim* s, slot_t flow, cycle_t now) noexcept nogil:
    """P5: what the flow asks of both in this cycle, if anything."""
    cdef Lane* a = &s.lane[flow]
    cdef Lane* b = &s.lane[far_lane(s, flow)]
    cdef Flow* f = &s.share.flow[flow]
    if a.next_at <= now and a.first_denied == NEVER:
        if s.trace != NULL and s.trace.level >= TRACE_FULL:
            open_run(&s.flow_trace[flow], f, f.at.run_left, f.bank)
        f.carry += (now + 1 - f.seen) * f.num
        f.seen = now + 1
        if not ask_both(s, flow, &s.spm[a.spm], &s.spm[b.spm]):
            a.next_at = now + 1
    b.next_at = a.next_at
    if a.next_at <= now:
        if s.spm[a.spm].step == 0:
            take_all(&s.spm[a.spm], reads_of(s, flow), writes_of(s, flow))
        if s.spm[b.spm].step == 0:
            take_all(&s.spm[b.spm], reads_of(s, far_lane(s, flow)), writes_of(s, far_lane(s, flow)))


cdef bint lacks(Sim* s, slot_t lane) noexcept nogil:
    cdef int32_t w
    for w in range(s.spm[s.lane[lane].spm].words):
        if reads_of(s, lane)[w] | writes_of(s, lane)[w]:
            return True
    return False


cdef void pair_judge(Sim* s, slot_t flow, cycle_t now) noexcept nogil:
    """Both sides are arbitrated: the bytes move, or the flow is held."""
    cdef Lane* a = &s.lane[flow]
    cdef Lane* b = &s.lane[far_lane(s, flow)]
    cdef Spm* p = &s.spm[a.spm]
    cdef Flow* f = &s.share.flow[flow]
    if a.next_at <= now:
        if lacks(s, flow) or lacks(s, far_lane(s, flow)):
            s.denied += 1
            a.next_at = now + p.penalty
            if a.first_denied == NEVER:
                scratchpad_advance(s, a.spm, now)       # where it is in a clear time it may lie behind
                hold(s, p, flow, now)
        else:
            if s.trace != NULL and s.trace.level >= TRACE_FULL:
                record_served(s, p, flow, a.first_denied, now)
            if a.first_denied != NEVER:
                unhold(s, p, flow, now)
            f.left -= f.asked
            if f.left == 0:
                flow_over(s, flow)
            else:
                a.next_at = flow_next(f) if f.member else NEVER
        set_held(&s.spm[b.spm], b, a.first_denied)
    if a.backpressure_at <= now:
        press_later(s, flow)


cdef inline void take_all(Spm* p, uint64_t* reads, uint64_t* writes) noexcept nogil:
    """A scratchpad in a clear time grants what is asked for."""
    cdef int32_t w
    for w in range(p.words):
        if reads[w] | writes[w]:
            tally_word(&p.grants, w, reads[w] | writes[w])
            reads[w] = 0
            writes[w] = 0
    tally_done(&p.grants, 1)


cdef int32_t find_pairs(Sim* s) noexcept nogil:
    """The flows that have a side in a scratchpad that is run cycle by cycle, into `pair`; how many."""
    cdef int32_t k, i, n = 0
    cdef slot_t lane, flow
    cdef Spm* p
    for k in range(s.n_paired):
        p = &s.spm[s.paired[k]]
        for i in range(p.n_order):
            lane = p.order[i]
            if s.lane[lane].paired:
                flow = flow_of(s, lane)
                if lane == flow or s.spm[s.lane[flow].spm].step == 0:   # else the other side finds it
                    s.pair[n] = flow
                    n += 1
    return n


cdef void in_order(Sim* s) noexcept nogil:
    """For a trace of requests: scratchpad by scratchpad."""
    cdef int32_t k, i, spm
    for k in range(1, s.n_paired):
        spm = s.paired[k]
        i = k
        while i and s.paired[i - 1] > spm:
            s.paired[i] = s.paired[i - 1]
            s.spm[s.paired[i]].step = i + 1
            i -= 1
        s.paired[i] = spm
        s.spm[spm].step = i + 1


cdef void tell(Sim* s, int32_t spm, cycle_t now) noexcept nogil:
    """A flow of a scratchpad that may be in a clear time was denied something by the other one: the clear time is over."""
    if s.spm[spm].step == 0:
        scratchpad_touch(s, spm, now + 1)


cdef void paired_cycle(Sim* s, cycle_t now) noexcept nogil:
    """The cycle `now` of the scratchpads with such a lane that may deny something; all of them have been run up to it."""
    cdef int32_t k, n
    cdef bint traced = s.trace != NULL and s.trace.level >= TRACE_FULL
    cdef Spm* p
    cdef slot_t flow
    if traced:
        in_order(s)
    n = find_pairs(s)
    for k in range(n):
        pair_ask(s, s.pair[k], now)
    for k in range(s.n_paired):
        p = &s.spm[s.paired[k]]
        wide_cycle(s, p, turn_of(s, p, now))
        if traced:
            record_conflicts(s, p, now)
    for k in range(n):
        pair_judge(s, s.pair[k], now)
    for k in range(s.n_paired):
        p = &s.spm[s.paired[k]]
        if p.n_watch:
            activity_phase(s, p)
        p.done = now + 1
    for k in range(n):
        flow = s.pair[k]
        if s.lane[flow].first_denied == now:
            tell(s, s.lane[flow].spm, now)
            tell(s, s.lane[far_lane(s, flow)].spm, now)
