"""Finds the cycle before which no request is denied, by computing the coming requests.

While no request is denied, the requests of a requester follow from its own state. The requests of all requesters in the next cycles are
therefore overlaid, bank by bank; the first request that finds no free port ends the conflict-free horizon. If all requesters return to
their present states after some cycles (the recurrence period), and these cycles are free of conflicts, then so are all cycles until a
requester, a rate or an address run ends.

Each look-ahead covers twice as many cycles as the one before, as long as no conflict is found and nothing changes. If a denial is near, the
next look-ahead is made later each time. Where the scratchpad can roll (fast/rolling.pyx), no look-ahead is made: rolling costs less.
"""
from libc.string cimport memcpy, memset

from kernbench_core.fast.request_table cimport requests_from
from kernbench_core.fast.future_requests cimport ALL, SPAN, Course, open_carry
from kernbench_core.model.division cimport gcd, quotient
from kernbench_core.model.arbiter.oldest_first cimport by_age
from kernbench_core.model.bank cimport Requester, Spm
from kernbench_core.model.compute cimport MAX_REGIONS, Compute, Stream, stream_banks, stream_next
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.model.dram.extent cimport Dram
from kernbench_core.fast.closed_forms cimport banks_differ
from kernbench_core.fast.lanes cimport stop_rolling
from kernbench_core.fast.simd cimport vectors
from kernbench_core.fast.pair_conflict_free cimport open_pair, set_pair_horizon, pair_may_look_ahead, invalidate_pair_horizon
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.model.sim cimport memory_of, next_body_cycle
from kernbench_core.types cimport NEVER, int64_t, nbytes_t, uint64_t
from kernbench_core.fast.block_ports cimport PORTS, take

cdef enum:
    MAX_DOUBLINGS = 7         # a look-ahead covers at most SPAN << MAX_DOUBLINGS cycles
    TRIES = 64                # number of look-aheads without gain, over all scratchpads, after which look-aheads become rare
    RARE = 5                  # longest back-off: (SPAN << 3 * RARE) // 128 cycles
    WORTH = 8                 # number of look-aheads without gain that one with gain outweighs
    QUIET = 24                # back-off after a change, if look-aheads had no gain
    REQUESTERS = 320               # limit of requesters, and of TEs and VEs, above which no look-ahead is made
    BODIES = 16

cdef struct Plan:             # SPAN cycles from `begin` on
    cycle_t begin
    cycle_t end               # end of the conflict-free horizon, as far as the look-ahead knows it
    int32_t each[2]           # ports of a bank: for reads (or shared), for writes
    uint64_t taken[2][PORTS * SPAN + 16]


cdef bint open_flow(Sim* s, Spm* p, Course* x, Flow* f, Requester* a) noexcept nogil:
    """Set the course of a flow; false if its requests may be cut."""
    cdef DmaJob* j = &s.dma_job[f.job]
    cdef Dram* d = memory_of(s, f.job)
    x.at = a.next_at
    if x.at == NEVER:
        return True
    x.side = 1 if a.to_writes else 0
    open_carry(x, f)
    x.bank = f.bank
    x.lines = (f.at.run_left - f.piece) // p.line       # the last piece of a run may be smaller than a line, or continue in the next run
    x.hop = -1
    if j.extent.rows == 1 and j.extent.cached == NULL and f.at.shift % p.line == 0 and d.interleave % p.line == 0:
        x.lines = 1 + (f.at.run_left - f.piece + p.line - 1) // p.line
        x.chunk = d.interleave // p.line
        x.hop = x.chunk * (d.channels - 1) % p.banks
        return banks_differ(p, d, quotient(max(x.carry, f.cost) + f.num, f.cost) + 2)
    return quotient(max(x.carry, f.cost) + f.num, f.cost) + 2 <= p.banks


cdef bint open_body(Sim* s, Spm* p, Course* x, Compute* e, Requester* a) noexcept nogil:
    """Set the course of a TE or VE; false before its first body cycle, which may differ from the others."""
    cdef int32_t k
    x.at = a.next_at if e.body_left else NEVER
    if x.at == NEVER:
        return True
    x.i = next_body_cycle(s, x.requester - s.n_flows)
    x.dense = e.dense
    if e.dense:
        return True
    memcpy(x.stream, e.stream, e.streams * sizeof(Stream))
    for k in range(e.streams):
        if x.stream[k].at < 0:
            return False
    return True


cdef inline bint overlay_lines(Plan* w, Spm* p, Course* x, Flow* f, int32_t ports) noexcept nogil:
    """`ports`: the ports of a bank, if they are few, else 0."""
    cdef int64_t carry = x.carry, pay = x.pay, bank = x.bank, lines = x.lines, every = f.every if f.every else 1
    cdef int64_t earned = every * f.num, num = f.num, cost = f.cost, banks = p.banks
    cdef int32_t each = ports if ports else w.each[x.side]
    cdef uint64_t mask
    cdef uint64_t* taken
    cdef uint64_t* first = w.taken[x.side]
    cdef cycle_t at = x.at, end = min(w.begin + SPAN, w.end)
    while at < end:
        taken = first + (at - w.begin) * each
        while carry >= pay:
            mask = <uint64_t>1 << bank
            if lines == 0 and x.hop == ALL:
                x.at = NEVER
                return True
            if lines == 0 or taken[each - 1] & mask:
                w.end = at
                return False
            take(taken, each, mask)
            carry -= pay
            pay = cost
            bank = bank + 1 if bank + 1 < banks else 0
            lines -= 1
            if lines == 0 and x.hop >= 0:
                lines = x.chunk
                bank += x.hop
                bank = bank - banks if bank >= banks else bank
        at += every
        carry += earned
        if carry < pay:
            at += 1
            carry += num
    x.at = at
    x.carry = carry
    x.pay = pay
    x.bank = bank
    x.lines = lines
    return True


cdef bint overlay_flow(Plan* w, Spm* p, Course* x, Flow* f) noexcept nogil:
    """Add a flow's requests in the cycles of the plan; false if a request is denied or not known, which ends the conflict-free horizon."""
    cdef int32_t each = w.each[x.side]
    return overlay_lines(w, p, x, f, 1) if each == 1 else overlay_lines(w, p, x, f, 2) if each == 2 else overlay_lines(w, p, x, f, 0)


cdef bint overlay_body(Plan* w, Spm* p, Course* x, Compute* e) noexcept nogil:
    """The same for a TE or VE: one port of a bank, however many of its streams access the bank."""
    cdef cycle_t end = min(w.begin + SPAN, w.end), next
    cdef uint64_t reads, writes
    cdef uint64_t* taken
    cdef Stream* t
    cdef int32_t k
    while x.at < end:
        reads = 0
        writes = 0
        for k in range(e.streams):
            t = &x.stream[k]
            if e.sparse and t.next > x.i:
                continue
            if p.split and t.write:
                writes |= stream_banks(t, p, x.i)
            else:
                reads |= stream_banks(t, p, x.i)
            if e.sparse:
                stream_next(t)
        taken = w.taken[0] + (x.at - w.begin) * w.each[0]
        if taken[w.each[0] - 1] & reads:
            w.end = x.at
            return False
        take(taken, w.each[0], reads)
        if writes:
            taken = w.taken[1] + (x.at - w.begin) * w.each[1]
            if taken[w.each[1] - 1] & writes:
                w.end = x.at
                return False
            take(taken, w.each[1], writes)
        next = x.i + 1
        if e.sparse:
            next = NEVER
            for k in range(e.streams):
                next = min(next, x.stream[k].next)
        x.at = x.at + (next - x.i) * e.period if next < e.body else NEVER
        x.i = next
    return True


cdef bint overlay_dense(Sim* s, Plan* w, Spm* p, Course* x, Compute* e) noexcept nogil:
    """The same for a dense TE or VE, whose requests are computed many at a time."""
    cdef int32_t each = w.each[0]
    cdef int64_t n = min(min(w.begin + SPAN, w.end) - x.at, e.body - x.i), c
    cdef uint64_t* taken = w.taken[0] + (x.at - w.begin) * each
    cdef uint64_t* want
    if n <= 0:
        return True
    want = requests_from(&s.ahead[x.requester - s.n_flows], e, s.compute_job, p, x.i, n)
    if each <= 2 and vectors.level:
        c = vectors.take[each - 1](taken, want, n)
    else:
        c = 0
        while c < n and not want[c] & taken[(c + 1) * each - 1]:
            take(taken + c * each, each, want[c])
            c += 1
    if c < n:
        w.end = x.at + c
        return False
    x.i += n
    x.at = x.at + n if x.i < e.body else NEVER
    return True


cdef int64_t recurrence_period(Sim* s, Spm* p, Course* x) noexcept nogil:
    """The number of cycles after which the requester is in the same state as now, apart from its bytes."""
    cdef Flow* f
    cdef Compute* e
    cdef Dram* d
    cdef nbytes_t row = p.row
    cdef int64_t period = 1, each
    cdef int32_t k
    if s.requester[x.requester].compute:
        e = &s.compute[x.requester - s.n_flows]
        for k in range(e.streams):
            each = p.row // gcd(p.row, e.stream[k].per_cycle)
            period = period // gcd(period, each) * each
            if period > SPAN << MAX_DOUBLINGS:
                break
        return period * e.period
    f = &s.share.flow[x.requester]
    if x.hop > 0:
        d = memory_of(s, f.job)
        row = d.interleave * d.channels
        row = row // gcd(row, p.row) * p.row // d.channels
    row *= f.den
    return row // gcd(row, f.num)


cdef cycle_t first_conflict(Sim* s, Spm* p, Course* x, int32_t n, cycle_t to) noexcept nogil:
    """The first cycle before `to` in which a request is denied or not known; else `to`."""
    cdef Plan w
    cdef int32_t k
    cdef cycle_t next
    cdef bint clear = True
    w.begin = p.done
    w.end = to
    w.each[0] = p.ports[0]
    w.each[1] = p.ports[1] if p.split else 0
    while clear and w.begin < to:
        next = NEVER
        memset(w.taken[0], 0, SPAN * w.each[0] * sizeof(uint64_t))
        memset(w.taken[1], 0, SPAN * w.each[1] * sizeof(uint64_t))
        for k in range(n):
            if x[k].dense:
                clear &= overlay_dense(s, &w, p, &x[k], &s.compute[x[k].requester - s.n_flows])
            elif s.requester[x[k].requester].compute:
                clear &= overlay_body(&w, p, &x[k], &s.compute[x[k].requester - s.n_flows])
            else:
                clear &= overlay_flow(&w, p, &x[k], &s.share.flow[x[k].requester])
            next = min(next, x[k].at)
        w.begin = max(w.begin + SPAN, next)
    return w.end


cdef int32_t open_courses(Sim* s, Spm* p, Course* x, Stream* streams) noexcept nogil:
    """Set the courses of all requesters; return their number, or -1 if their requests are not known."""
    cdef int32_t k, n = 0, bodies = 0
    cdef Requester* a
    for k in range(p.n_order):
        a = &s.requester[p.order[k]]
        x[n].requester = p.order[k]
        x[n].dense = False
        if a.compute:
            x[n].stream = streams + MAX_REGIONS * bodies
            bodies += 1
            if bodies > BODIES or not open_body(s, p, &x[n], &s.compute[x[n].requester - s.n_flows], a):
                return -1
        elif a.paired:
            if not open_pair(s, p, &x[n]):
                return -1
        elif not open_flow(s, p, &x[n], &s.share.flow[x[n].requester], a):
            return -1
        n += x[n].at != NEVER
    return n


cdef cycle_t known_to(Sim* s, Spm* p, Course* x, int32_t n) noexcept nogil:
    """No flow reaches a piece that is smaller than a line, or a piece whose bank is not known, before this cycle."""
    cdef cycle_t to = NEVER
    cdef Flow* f
    cdef int64_t lines
    cdef int32_t k
    for k in range(n):
        if s.requester[x[k].requester].compute or s.requester[x[k].requester].paired:       # all lines of these are known
            continue
        f = &s.share.flow[x[k].requester]
        lines = x[k].lines
        if x[k].hop >= 0:
            if (f.left - f.piece) % p.line == 0:
                continue
            lines = (f.left - f.piece) // p.line
        to = min(to, x[k].at + (lines * f.every if f.every else lines // (quotient(f.num, f.cost) + 2)))
    return to


cdef int64_t common_period(Sim* s, Spm* p, Course* x, int32_t n) noexcept nogil:
    """The common recurrence period of all requesters; a number above the limit if it is long."""
    cdef int64_t period = 1, each
    cdef int32_t k
    for k in range(n):
        each = recurrence_period(s, p, &x[k])
        if each > SPAN << MAX_DOUBLINGS:
            return NEVER
        period = period // gcd(period, each) * each
        if period > SPAN << MAX_DOUBLINGS:
            return NEVER
    return period


cdef cycle_t conflict_free_to(Sim* s, Spm* p, Course* x, int32_t n) noexcept nogil:
    """No request is denied before this cycle."""
    cdef cycle_t known = known_to(s, p, x, n), first = p.done, start = NEVER, to
    cdef int64_t period = common_period(s, p, x, n) if p.lookahead.back_offs <= 2 else NEVER
    cdef int64_t far = 2 * SPAN << max(0, min(MAX_DOUBLINGS - 1, -p.lookahead.back_offs))
    cdef int32_t k
    for k in range(n):
        first = max(first, x[k].at + 1)             # after its first request, every requester is regular
        start = min(start, x[k].at)
    start = max(p.done, start) if n else p.done
    if period > 2 * far or first > start + far:
        return first_conflict(s, p, x, n, min(start + far, known))
    to = first_conflict(s, p, x, n, min(first + period, known))
    return known if to == first + period else to


cdef void end_conflict_free(Sim* s, Spm* p, cycle_t now) noexcept nogil:
    """The conflict-free horizon held up to cycle `now`, and ends there; look-aheads without gain become rarer, those with gain cover more
    cycles."""
    if now - p.lookahead.back_off >= 4 * SPAN:
        p.lookahead.back_offs = max(p.lookahead.back_offs - 2, -MAX_DOUBLINGS)
        s.lookahead_credit = min(s.lookahead_credit + WORTH, TRIES)
    elif now - p.lookahead.back_off < SPAN:
        p.lookahead.back_offs = min(max(p.lookahead.back_offs, 0) + 1, RARE) if s.lookahead_credit > 0 else RARE
        s.lookahead_credit = max(s.lookahead_credit - 1, 0)
    p.lookahead.conflict_free = 0
    p.lookahead.back_off = now + (SPAN << 3 * p.lookahead.back_offs) // 128 if p.lookahead.back_offs > 0 else now


cdef void invalidate_conflict_free(Sim* s, Spm* p, cycle_t now) noexcept nogil:
    """The scratchpad is changed in cycle `now`: the conflict-free horizon is no longer valid."""
    if p.n_pairs:
        invalidate_pair_horizon(p, now)
        return
    if p.lookahead.conflict_free:
        end_conflict_free(s, p, now)
    if p.lookahead.back_offs > 1:
        p.lookahead.back_off = max(p.lookahead.back_off, now + QUIET)


cdef bint find_conflict_free(Sim* s, int32_t spm) noexcept nogil:
    """Find the cycle `conflict_free` of the scratchpad, which is in the future and before which no request is denied."""
    cdef Spm* p = &s.spm[spm]
    cdef Course[REQUESTERS] x
    cdef Stream[MAX_REGIONS * BODIES] streams
    cdef int32_t n
    if p.lookahead.conflict_free > p.done:
        return True
    if not by_age(p):
        return False
    if p.n_pairs:
        if not pair_may_look_ahead(p):
            return False
        n = open_courses(s, p, x, streams)
        return set_pair_horizon(p, first_conflict(s, p, x, n, min(p.done + SPAN, known_to(s, p, x, n))) if n >= 0 else p.done)
    # the cycles of the last look-ahead are over: look further ahead
    if p.lookahead.conflict_free and p.lookahead.conflict_free - p.lookahead.back_off >= 2 * SPAN:
        p.lookahead.conflict_free = 0
        p.lookahead.back_offs = max(p.lookahead.back_offs - 1, -MAX_DOUBLINGS)
    elif p.lookahead.conflict_free:
        end_conflict_free(s, p, p.lookahead.conflict_free)
    if p.lookahead.back_offs == 0 and s.lookahead_credit <= 0:
        p.lookahead.back_offs = RARE
        p.lookahead.back_off = p.done + (SPAN << 3 * RARE) // 128
    if p.done < p.lookahead.back_off or p.n_held:
        return False
    if not p.narrow or p.blocked or p.n_out or p.n_component_requests or p.n_order > REQUESTERS:
        return False
    stop_rolling(s, p)
    n = open_courses(s, p, x, streams)
    p.lookahead.conflict_free = conflict_free_to(s, p, x, n) if n >= 0 else p.done
    p.lookahead.back_off = p.done
    if p.lookahead.conflict_free - p.done < SPAN:
        end_conflict_free(s, p, p.lookahead.conflict_free)
        return False
    return True


cdef void save_back_offs(Sim* s) noexcept nogil:
    """A run returns, and equal states must look the same: the back-offs are kept for the next run, outside of snapshots."""
    cdef int32_t k
    for k in range(s.n_spm):
        s.kept[2 * k] = s.spm[k].lookahead.back_off
        s.kept[2 * k + 1] = s.spm[k].lookahead.back_offs
        s.spm[k].lookahead.pair_back_off = s.spm[k].lookahead.pair_back_offs = 0
        s.spm[k].lookahead.conflict_free = s.spm[k].lookahead.back_off = s.spm[k].lookahead.back_offs = 0
    s.kept[2 * s.n_spm] = TRIES - s.lookahead_credit
    s.lookahead_credit = 0


cdef void restore_back_offs(Sim* s) noexcept nogil:
    """A run continues, perhaps from a snapshot of an earlier cycle. Only the frequency of look-aheads depends on the restored values."""
    cdef int32_t k
    for k in range(s.n_spm):
        s.spm[k].lookahead.back_off = min(s.kept[2 * k], s.cycle + (SPAN << 3 * RARE) // 128)
        s.spm[k].lookahead.back_offs = <int32_t>s.kept[2 * k + 1]
    s.lookahead_credit = TRIES - s.kept[2 * s.n_spm]
