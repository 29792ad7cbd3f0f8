"""P5 and P6 of a scratchpad in one walk over its lanes.

What a lane asks for depends on its own state only, and nothing that moves changes another's request of the same cycle: so asking,
granting and moving are one walk in the order of arbitration. That order is the fixed tie-break order, but that requests first denied
`max_wait_cycles` ago go before the others, oldest first.

There are two walks. `wide_ask` is the plain one, for any number of banks and ports. `narrow_cycle` does the same where all banks
fit one word and ports are few: there the ports of a cycle are counted in three bit planes that stay in registers.
"""
from kernbench_core.bank cimport Lane, Spm, bank_of, grant, tally_done, tally_planes, tally_word
from kernbench_core.compute cimport Compute, Stream, compute_want, on_period, sleep_idle, stream_lines
from kernbench_core.flow cimport ask_pieces, cap_carry, flow_want
from kernbench_core.lane cimport body_over, flow_over, hold, unhold
from kernbench_core.share cimport Flow, flow_accrue, flow_next, quotient
from kernbench_core.sim cimport Sim, reads_of, writes_of
from kernbench_core.types cimport NEVER, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t

cdef inline void body_cycle(Sim* s, Spm* p, Lane* a, slot_t lane, Compute* e, cycle_t now) noexcept nogil:
    """P6 of a TE or VE: one body cycle is done."""
    e.body_left -= 1
    if e.body_left:
        a.next_at = on_period(now + 1, e.period) + sleep_idle(e) * e.period
    else:
        body_over(s, p, lane, now)


cdef inline void move_bytes(Sim* s, Lane* a, slot_t lane, Flow* f) noexcept nogil:
    """P6 of a flow: what it asked for moves."""
    f.left -= f.asked
    if f.left == 0:
        flow_over(s, lane)
    else:
        a.next_at = flow_next(f) if f.member else NEVER


cdef void press_later(Sim* s, Lane* a, slot_t lane) noexcept nogil:
    """In P7 of this cycle the flow leaves its resources."""
    a.backpressure_at = NEVER
    s.pressed[s.n_pressed] = lane
    s.n_pressed += 1


cdef slot_t* aged_first(Sim* s, Spm* p, cycle_t now) noexcept nogil:
    """The lanes in the order of this cycle: aged requests by age, ties and the rest in tie-break order."""
    cdef int32_t k, i, n = 0
    cdef slot_t lane
    cdef cycle_t since, oldest = NEVER
    for k in range(p.n_order):
        since = s.lane[p.order[k]].first_denied
        if since < oldest:
            oldest = since
        if since == NEVER or now - since < p.max_wait:
            continue
        i = n
        while i and s.lane[p.turn[i - 1]].first_denied > since:
            p.turn[i] = p.turn[i - 1]
            i -= 1
        p.turn[i] = p.order[k]
        n += 1
    p.oldest = oldest
    if n == 0:
        return p.order
    for k in range(p.n_order):
        lane = p.order[k]
        if s.lane[lane].first_denied == NEVER or now - s.lane[lane].first_denied < p.max_wait:
            p.turn[n] = lane
            n += 1
    return p.turn


cdef void open_ports(Spm* p) noexcept nogil:
    cdef int32_t k, w, side
    for side in range(1 + p.split):
        for k in range(p.ports[side]):
            for w in range(p.words):
                p.free[side][k * p.words + w] = <uint64_t>-1


cdef void wide_ask(Sim* s, Spm* p, slot_t lane, cycle_t now) noexcept nogil:
    """A lane whose time has come: ask, and move or be held."""
    cdef Lane* a = &s.lane[lane]
    cdef Compute* e = NULL
    cdef Flow* f = NULL
    cdef uint64_t* reads = reads_of(s, lane)
    cdef uint64_t* writes = writes_of(s, lane)
    if a.compute:
        e = &s.compute[lane - s.n_flows]
    else:
        f = &s.share.flow[lane]
    if a.first_denied == NEVER:
        if a.compute:
            if not compute_want(e, p, reads, writes):
                body_cycle(s, p, a, lane, e, now)
                return
        else:
            flow_accrue(f, now + 1 - f.seen)
            f.seen = now + 1
            if not flow_want(f, p, &s.dram, &s.dma_job[f.job].extent, writes if a.to_writes else reads):
                a.next_at = now + 1
                return
    if not grant(p, reads, writes):
        hold(s, p, lane, now)
        return
    if a.first_denied != NEVER:
        unhold(s, p, lane, now)
    if a.compute:
        body_cycle(s, p, a, lane, e, now)
    else:
        move_bytes(s, a, lane, f)


cdef struct Shape:            # what the narrow walk needs of a scratchpad, in registers
    nbytes_t line
    int32_t shift
    int32_t banks
    uint64_t full


cdef inline uint64_t run_of(Shape h, int32_t bank, int64_t n) noexcept nogil:
    """The banks of `n` consecutive lines of the interleaved map, or of `n` consecutive banks, the first on `bank`."""
    cdef uint64_t m
    if n >= h.banks:
        return h.full
    m = (<uint64_t>1 << n) - 1
    return (m << bank | (m >> 1) >> (h.banks - 1 - bank)) & h.full


cdef inline uint64_t narrow_flow(Sim* s, Spm* p, Shape h, Lane* a, Flow* f, cycle_t now) noexcept nogil:
    """Earn up to and with this cycle, then ask as `flow_want` does. A flow that asks for nothing sleeps on."""
    cdef int64_t n = 1, asked = f.piece, run = f.at.run_left, den = f.den
    cdef int64_t carry = f.carry + (now + 1 - f.seen) * f.num, over = carry - asked * den
    cdef int32_t bank = f.bank, next_bank
    cdef uint64_t mask = 0
    f.seen = now + 1
    f.carry = carry
    if p.blocked or (run <= p.row and carry >= run * den):
        if not ask_pieces(f, p, &s.dram, &s.dma_job[f.job].extent, &mask):
            a.next_at = now + 1             # the piece goes on in the next run, and the carry does not reach its end
        return mask
    if over < 0:
        a.next_at = flow_next(f)
        return 0
    if over >= h.line * den:
        n += quotient(over, h.line * den)
        if n > h.banks:
            n = h.banks
        asked += (n - 1) * h.line
    next_bank = bank + <int32_t>n
    run -= asked
    f.bank = next_bank - h.banks if next_bank >= h.banks else next_bank
    f.asked = asked
    f.at.run_left = run
    f.piece = h.line if run > h.line else run
    f.carry = carry - asked * den
    if n == h.banks:                        # only a request that was cut off leaves more than a line
        cap_carry(f, p)
    return run_of(h, bank, n)


cdef inline uint64_t narrow_stream(Stream* t, Spm* p, Shape h) noexcept nogil:
    """`stream_want` for one word of banks."""
    cdef int64_t line = t.line, n
    if t.steady and t.left >= t.per_cycle:          # the same number of lines every cycle
        t.left -= t.per_cycle
        n = line + t.step
        t.line = n - h.banks if n >= h.banks else n
        return (t.steady << line | (t.steady >> 1) >> (h.banks - 1 - line)) & h.full
    n = stream_lines(t, h.line, h.shift)
    if n == 0:
        return 0
    t.line = line + n
    if p.blocked:
        return run_of(h, bank_of(p, line), bank_of(p, line + n - 1) - bank_of(p, line) + 1)
    if t.line >= h.banks:
        t.line = t.line - h.banks if n < h.banks else t.line % h.banks
    return run_of(h, <int32_t>line, n)


cdef inline void narrow_cycle(Sim* s, Spm* p, slot_t* order, cycle_t now, bint split, bint single) noexcept nogil:
    """The walk for one word of banks and at most seven ports of a kind; `split`: read and write ports; `single`: one shared port.

    r0, r1, r2 are the bit planes of how many (read) ports of each bank are taken, w0, w1, w2 those of write ports; a bank is full
    where they spell the number of its ports.
    """
    cdef uint64_t r0 = 0, r1 = 0, r2 = 0, w0 = 0, w1 = 0, w2 = 0, carry
    cdef uint64_t nr0 = p.unused[0][0], nr1 = p.unused[0][1], nr2 = p.unused[0][2]
    cdef uint64_t nw0 = p.unused[1][0], nw1 = p.unused[1][1], nw2 = p.unused[1][2]
    cdef uint64_t reads, writes = 0, got, denied
    cdef int32_t k, i, n_order = p.n_order
    cdef slot_t lane
    cdef Lane* a
    cdef Compute* e = NULL
    cdef Flow* f = NULL
    cdef cycle_t soonest = NEVER
    cdef Shape h
    h.line = p.line
    h.shift = p.line_shift
    h.banks = p.banks
    h.full = p.full
    for k in range(n_order):
        lane = order[k]
        a = &s.lane[lane]
        if a.next_at > now:
            if a.next_at < soonest:
                soonest = a.next_at
            if a.backpressure_at < soonest:
                soonest = a.backpressure_at
                if soonest <= now:
                    soonest = now + 1
                    press_later(s, a, lane)
            continue
        reads = a.reads
        if split:
            writes = a.writes
        if a.compute:
            e = &s.compute[lane - s.n_flows]
            if a.first_denied == NEVER:
                for i in range(e.streams):
                    if split and e.stream[i].write:
                        writes |= narrow_stream(&e.stream[i], p, h)
                    else:
                        reads |= narrow_stream(&e.stream[i], p, h)
        else:
            f = &s.share.flow[lane]
            if a.first_denied == NEVER:
                if split and a.to_writes:
                    writes = narrow_flow(s, p, h, a, f, now)
                else:
                    reads = narrow_flow(s, p, h, a, f, now)
                if (reads | writes) == 0:
                    if a.next_at < soonest:
                        soonest = a.next_at
                    continue
        if single:
            got = reads & ~r0
            denied = reads & r0
            r0 |= got
        else:
            got = (reads | writes) & ~(reads & (r0 ^ nr0) & (r1 ^ nr1) & (r2 ^ nr2))
            if split:
                got &= ~(writes & (w0 ^ nw0) & (w1 ^ nw1) & (w2 ^ nw2))
                denied = got & writes
                carry = w0 & denied
                w0 ^= denied
                denied = w1 & carry
                w1 ^= carry
                w2 ^= denied
                tally_word(&p.grants, 0, got)
                tally_done(&p.grants, 1)
            denied = (reads | writes) & ~got
            got &= reads
            carry = r0 & got
            r0 ^= got
            got = r1 & carry
            r1 ^= carry
            r2 ^= got
        if denied:
            a.reads = reads & denied
            a.writes = writes & denied
            tally_word(&p.denials, 0, denied)
            tally_done(&p.denials, 1)
            hold(s, p, lane, now)
            if a.backpressure_at <= now:
                press_later(s, a, lane)
            elif a.backpressure_at < soonest:
                soonest = a.backpressure_at
        else:
            if a.first_denied != NEVER:
                a.reads = 0
                a.writes = 0
                unhold(s, p, lane, now)
            if a.compute:
                body_cycle(s, p, a, lane, e, now)
            else:
                move_bytes(s, a, lane, f)
        if a.next_at < soonest:
            soonest = a.next_at
    if not split and r0 | r1 | r2:
        tally_planes(&p.grants, r0, r1, r2)
    p.soonest = soonest


cdef void scratchpad_cycle(Sim* s, int32_t spm, cycle_t now) noexcept nogil:
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k
    cdef Lane* a
    cdef slot_t* order = p.order
    cdef cycle_t soonest = NEVER
    if p.n_held and now - p.oldest >= p.max_wait:
        order = aged_first(s, p, now)
    if p.narrow:
        if p.split:
            narrow_cycle(s, p, order, now, True, False)
        elif p.ports[0] == 1:
            narrow_cycle(s, p, order, now, False, True)
        else:
            narrow_cycle(s, p, order, now, False, False)
        return
    open_ports(p)
    for k in range(p.n_order):
        a = &s.lane[order[k]]
        if a.next_at <= now:
            wide_ask(s, p, order[k], now)
        if a.backpressure_at <= now:
            press_later(s, a, order[k])
        soonest = min(soonest, a.next_at, a.backpressure_at)
    p.soonest = soonest
