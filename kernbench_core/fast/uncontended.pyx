"""Many cycles of a scratchpad at once.

The licence: no bank can have more askers than ports, so nothing is denied, every requester moves by itself, and each has a closed
form (or at least its own short loop). The horizon: up to the first cycle in which some requester may end its work; control,
membership and engines change in no earlier one.
"""
from kernbench_core.model.arbiter.oldest_first cimport by_age
from kernbench_core.model.bank cimport BLOCK, CALM, Requester, Spm, bank_of, line_of, open_ports, set_banks, take_ports
from kernbench_core.fast.conflict_free cimport find_conflict_free
from kernbench_core.model.compute cimport Compute, on_period, writes_to
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.trace.events cimport TRACE_FULL
from kernbench_core.fast.closed_forms cimport compute_jump, dense_jump, flow_jump
from kernbench_core.model.requester cimport activity_phase, body_over, flow_over
from kernbench_core.model.bank_mask cimport set_run
from kernbench_core.fast.pair_conflict_free cimport pair_jump
from kernbench_core.model.pair_requesters cimport far_requester
from kernbench_core.fast.rolling cimport may_roll
from kernbench_core.model.share.membership cimport Flow, flow_cycles, flow_next
from kernbench_core.model.sim cimport Sim, memory_of, reads_of, writes_of
from kernbench_core.types cimport NEVER, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t


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


cdef bint crowded(Sim* s, Spm* p) noexcept nogil:
    """More flows than a bank has ports go over every bank: a short way to say that something may be denied."""
    cdef int32_t k, ports = p.ports[0]
    cdef Flow* f
    if p.blocked or p.split:
        return False
    for k in range(p.n_order):
        if s.requester[p.order[k]].compute:
            return False
        f = &s.share.flow[p.order[k]]
        ports -= f.at.run_left >= p.row
        if ports < 0:
            return True
    return False


cdef bint scratchpad_uncontended(Sim* s, int32_t spm) noexcept nogil:
    """No bank can have more askers than ports, whatever cycle the requesters ask in: then nothing is ever denied."""
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k, i
    cdef slot_t requester
    cdef Compute* e
    cdef DmaJob* j
    cdef Flow* f
    cdef uint64_t* reads
    cdef uint64_t* writes
    cdef bint ok = True
    if not p.look.judge:
        return p.look.uncontended
    p.look.judge = False
    p.look.uncontended = False
    if not by_age(p) or p.n_held or p.n_asks or crowded(s, p):
        return False
    open_ports(p)
    for k in range(p.n_order):
        requester = p.order[k]
        reads = reads_of(s, requester)
        writes = writes_of(s, requester)
        if s.requester[requester].compute:
            e = &s.compute[requester - s.n_flows]
            if e.body_left == 0:
                continue
            for i in range(s.compute_job[e.job].regions):
                footprint(p, writes if p.split and writes_to(&s.compute_job[e.job], i) else reads,
                          s.compute_job[e.job].region[i].addr, s.compute_job[e.job].region[i].nbytes)
        else:
            f = &s.share.flow[requester]
            j = &s.dma_job[f.job]
            footprint(p, writes if s.requester[requester].to_writes else reads, f.at.addr, j.extent.spm_addr + j.nbytes - f.at.addr)
        ok = reserve(p, reads, writes) and ok
        if not ok:
            return False
    p.look.uncontended = True
    return True


cdef cycle_t earliest_end(Sim* s, slot_t requester) noexcept nogil:
    """The work of a requester ends in no earlier cycle: nobody is faster for being denied."""
    cdef Requester* a = &s.requester[requester]
    cdef Compute* e
    cdef Flow* f
    if a.compute:
        e = &s.compute[requester - s.n_flows]
        if e.body_left < 2:
            return a.next_at if e.body_left else NEVER
        # A held request is served in any cycle, the body cycles behind it come on the engine's period.
        return on_period(a.next_at + 1, e.period) + (e.body_left - 2) * e.period
    f = &s.share.flow[requester]
    if not f.member:                    # all that it may have is a held request
        return a.next_at if a.first_denied != NEVER and f.asked == f.left else NEVER
    if a.first_denied == NEVER:
        return f.seen + flow_cycles(f, f.left) - 1
    return a.next_at + flow_cycles(f, f.left - f.asked)


cdef inline int64_t patience(Spm* p) noexcept nogil:
    """A flow is not pressed while all requesters together take the ports of a bank no more often than that in so many cycles; 0:
    not known."""
    cdef int64_t denials = min(p.backpressure, p.max_wait)
    if p.blocked or p.n_out or p.backpressure > CALM or p.backpressure > p.max_wait + 1:
        return 0
    if p.penalty > 1:
        denials = (denials + p.penalty - 1) // p.penalty
    return denials * (min(p.ports[0], p.ports[1]) if p.split else p.ports[0])


cdef bint spread(Sim* s, Spm* p, int64_t away) noexcept nogil:
    """In the next CALM cycles every bank is one that at least `away` flows do not come to."""
    cdef uint64_t none = p.full if away < 4 else 0, one = p.full if away < 3 else 0, two = p.full if away < 2 else 0, three = 0
    cdef uint64_t others
    cdef int32_t k
    cdef Requester* a
    cdef Flow* f
    if away > 4 or not p.narrow:
        return False
    for k in range(p.n_order):
        a = &s.requester[p.order[k]]
        if a.compute:
            break
        if a.rounds > 1:
            continue
        f = &s.share.flow[p.order[k]]
        others = f.span << f.bank | (f.span >> 1) >> (p.banks - 1 - f.bank)
        if a.first_denied != NEVER:
            others |= a.reads | a.writes
        others = p.full & ~others
        three |= two & others               # banks that so many flows more do not come to
        two |= one & others
        one |= none & others
        none |= others
        if three == p.full:
            return True
    return False


cdef inline cycle_t look_again(Sim* s, Spm* p) noexcept nogil:
    """The cycle before it is looked for a conflict-free horizon again."""
    return max(p.look.back_off - 1, p.done) if s.skip and p.look.back_off > p.done else NEVER


cdef cycle_t pair_next(Sim* s, int32_t spm) noexcept nogil:
    """The same with flows to or from other scratchpads, which may all be held where the conflict-free horizon is over."""
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k
    cdef slot_t requester
    cdef Requester* a
    cdef cycle_t to
    if s.stops.on_conflict or not s.skip or not find_conflict_free(s, spm):
        return p.done
    to = p.look.conflict_free - 1                            # behind that it is looked again before anything is asked for
    for k in range(p.n_order):
        requester = p.order[k]
        a = &s.requester[requester]
        if a.paired and requester >= s.n_flows:      # it ends with the requester at the other side
            continue
        if a.ends_at < to:
            a.ends_at = earliest_end(s, requester)
            to = min(to, a.ends_at)
    return max(to, p.done)


cdef cycle_t first_asking(Sim* s, Spm* p) noexcept nogil:
    """No requester asks for anything in an earlier cycle; NEVER: none does by itself."""
    cdef cycle_t at = NEVER
    cdef int32_t k
    for k in range(p.n_order):
        at = min(at, s.requester[p.order[k]].next_at)
    return at


cdef cycle_t scratchpad_next(Sim* s, int32_t spm) noexcept nogil:
    """The first cycle that may bring an event that others see. Until then requesters only ask, wait and move.

    Where something may be denied, a flow may be held at once, and leave its resources `backpressure_cycles` later.
    """
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k, n_order = p.n_order, out = p.n_out
    cdef slot_t* order = p.order
    cdef cycle_t to = NEVER, soon = NEVER
    cdef int64_t rounds = 0, often = 0
    cdef Requester* a
    p.look.calm = NEVER
    p.look.rolls = p.look.laid = False
    if p.n_order == 0 or s.share.devices != NULL and p.n_pairs == 0 and first_asking(s, p) == NEVER:  # flows wait for their bursts
        return NEVER
    if s.stops.on_conflict or p.n_asks or p.n_pairs:
        return pair_next(s, spm) if p.n_pairs else p.done
    if s.trace != NULL and s.trace.level >= TRACE_FULL:
        to = p.done + BLOCK                     # not too many records at once
    if s.skip and (scratchpad_uncontended(s, spm) or find_conflict_free(s, spm)):
        to = min(to, p.look.conflict_free) if not p.look.uncontended else to
    elif may_roll(s, p):
        p.look.rolls = True
        return look_again(s, p)
    elif not by_age(p):                         # of another arbiter only this is known: who asks first leaves no earlier
        soon = max(p.done, first_asking(s, p)) + p.backpressure - 1
        to = min(to, soon)
    else:
        soon = p.done + p.backpressure - 1
        to = min(to, max(soon, p.done + BLOCK - 1), look_again(s, p))
        rounds = -patience(p)
    for k in range(n_order):
        a = &s.requester[order[k]]
        rounds += a.rounds
        if a.compute:
            often += s.compute[order[k] - s.n_flows].often
        if a.ends_at < to:                      # the bound may have become better
            a.ends_at = earliest_end(s, order[k])
            to = min(to, a.ends_at)
        to = min(to, a.backpressure_at)
        if out and a.first_denied != NEVER and not a.compute and s.share.flow[order[k]].out:
            to = min(to, a.next_at)             # served, it is a member again
    p.look.calm = p.done if rounds + often <= 0 else NEVER
    if rounds > 0 and to > soon:
        to = min(to, p.done + CALM - 1) if spread(s, p, rounds) else soon
    return max(to, p.done)


cdef inline void jump_pair(Sim* s, Spm* p, slot_t requester, cycle_t to) noexcept nogil:
    """A flow between scratchpads is moved here, by its requester at this side, unless one of them is run cycle by cycle."""
    if requester < s.n_flows and p.look.step == 0 and s.spm[s.requester[far_requester(s, requester)].spm].look.step == 0:
        pair_jump(s, requester, to)


cdef void scratchpad_jump(Sim* s, int32_t spm, cycle_t now, int64_t cycles) noexcept nogil:
    """P5 and P6 of `cycles` cycles of an uncontended scratchpad, within its horizon."""
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k
    cdef slot_t requester
    cdef Requester* a
    cdef Compute* e
    cdef Flow* f
    for k in range(p.n_order):
        requester = p.order[k]
        a = &s.requester[requester]
        if a.compute:
            e = &s.compute[requester - s.n_flows]
            if e.body_left == 0 or a.next_at >= now + cycles:
                continue
            if e.dense:
                a.next_at = dense_jump(e, &s.ahead[requester - s.n_flows], s.compute_job, p, a.next_at, now + cycles)
            else:
                a.next_at = compute_jump(e, p, reads_of(s, requester), writes_of(s, requester), a.next_at, now + cycles)
            if e.body_left == 0:
                body_over(s, p, requester, a.next_at)
        elif a.paired:
            jump_pair(s, p, requester, now + cycles)
        else:
            f = &s.share.flow[requester]
            if a.next_at >= now + cycles:
                continue
            flow_jump(f, p, memory_of(s, f.job), &s.dma_job[f.job].extent, reads_of(s, requester), now + cycles - f.seen)
            if f.left == 0:
                flow_over(s, requester)
            else:
                a.next_at = flow_next(f)


cdef bint uncontended_advance(Sim* s, Spm* p, cycle_t to) noexcept nogil:
    """Go over the cycles before `to`, in which nothing is denied."""
    if p.n_watch:
        activity_phase(s, p)
    scratchpad_jump(s, <int32_t>(p - s.spm), p.done, to - p.done)
    p.done = to
    return True
