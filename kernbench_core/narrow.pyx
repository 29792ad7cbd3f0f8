"""P5 and P6 of a block of cycles, lane by lane.

Arbitration has a fixed order, and what a lane asks for depends on its own state only: a lane is never disturbed by those behind it.
So the first lane goes through all cycles of the block, then the second through what ports the first has left, and so on; a lane's
state stays in registers meanwhile, and asking costs some forty instructions. The order is that of one cycle, so no request may
come of age inside the block: scratchpad.pyx sees to that.

`taken` has one word for each cycle and port of a bank: word k of a cycle are the banks with more than k ports taken. The words of a
block are counted as grants when it is over.
"""
from libc.string cimport memset

from kernbench_core.ahead cimport ahead_of
from kernbench_core.bank cimport BLOCK, DENIED, Lane, Spm, bank_of
from kernbench_core.compute cimport Compute, Stream, compute_seek, on_period, sleep_idle, stream_lines, stream_next
from kernbench_core.flow cimport ask_pieces, reaches_end, take_pieces
from kernbench_core.lane cimport body_over, flow_over, hold, press_later, unhold
from kernbench_core.share cimport Flow, flow_next, quotient
from kernbench_core.sim cimport Sim, body_cycle
from kernbench_core.tally cimport tally_done, tally_eight, tally_word
from kernbench_core.types cimport NEVER, cycle_t, int32_t, int64_t, slot_t, uint64_t
from kernbench_core.walk cimport PORTS, Walk, grant, run_of, take


cdef void count_denials(Spm* p) noexcept nogil:
    """Count those that are noted, in eights; what is left over stays."""
    cdef int32_t k, i
    for k in range(p.n_denied // 8):
        tally_eight(&p.denials, p.denied + 8 * k)
    for i in range(p.n_denied % 8):
        p.denied[i] = p.denied[p.n_denied // 8 * 8 + i]
    p.n_denied %= 8


cdef inline void count_denial(Spm* p, uint64_t denied) noexcept nogil:
    p.denied[p.n_denied] = denied
    p.n_denied += 1
    if p.n_denied >= DENIED - BLOCK:
        count_denials(p)


cdef void narrow_count(Spm* p) noexcept nogil:
    """Count all that are noted."""
    memset(p.denied + p.n_denied, 0, (DENIED - p.n_denied) * sizeof(uint64_t))
    p.n_denied = DENIED
    count_denials(p)
    memset(p.denied, 0, sizeof(p.denied))


cdef inline int64_t ask_lines(Spm* p, Walk* w, Flow* f, int64_t c, uint64_t* taken, int32_t ports) noexcept nogil:
    """A flow slower than a line a cycle asks line by line, inside a run and while it is not denied: the cycle in which that ends."""
    cdef int64_t num = f.num, line = w.line * f.den, carry = f.carry, run = f.at.run_left, bank = f.bank, earned = f.seen - w.begin
    cdef int64_t k, gap, n = w.n, banks = w.banks, enough = 2 * w.line
    cdef uint64_t mask, inverse = f.inverse
    while c < n and run >= enough:
        k = carry + (c + 1 - earned) * num - line
        mask = <uint64_t>1 << bank
        if taken[c * ports + ports - 1] & mask or k < 0:
            break
        take(taken + c * ports, ports, mask)
        if w.split:
            tally_word(&p.grants, 0, mask)
            tally_done(&p.grants, 1)
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


cdef inline int64_t ask_rows(Spm* p, Walk* w, Flow* f, int64_t c, uint64_t* taken, int32_t ports) noexcept nogil:
    """The same for a flow that asks for lines in every cycle: always as many, or one more."""
    cdef int64_t num = f.num, line = w.line * f.den, carry = f.carry, run = f.at.run_left, bank = f.bank, k
    cdef int64_t lines = quotient(num, line), least = lines * line, enough = (lines + 2) * w.line
    cdef uint64_t mask
    if lines + 2 > w.banks or f.seen != w.begin + c:
        return c
    while c < w.n and run >= enough:
        k = lines + (carry + num - least >= line)
        mask = run_of(w, bank, k)
        if taken[c * ports + ports - 1] & mask:
            break
        take(taken + c * ports, ports, mask)
        if w.split:
            tally_word(&p.grants, 0, mask)
            tally_done(&p.grants, 1)
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


cdef inline int64_t ask_quickly(Spm* p, Walk* w, Lane* a, Flow* f, int64_t c, int32_t ports) noexcept nogil:
    """Go through all requests of the block that are nothing special; the cycle of the first that is, or that comes after it."""
    cdef int32_t side = 1 if ports == 0 and a.to_writes else 0
    cdef int32_t each = ports if ports else w.ports[side]
    cdef int64_t line = w.line * f.den
    if f.piece != w.line or f.carry >= line or p.blocked or line >> 32 or not f.member:
        return c
    if f.num >= line:
        return ask_rows(p, w, f, c, w.taken[side], each)
    return ask_lines(p, w, f, c, w.taken[side], each)


cdef uint64_t ask_once(Sim* s, Spm* p, Walk* w, slot_t lane, cycle_t now) noexcept nogil:
    """Earn up to and with this cycle, then ask as `flow_want` does; 0 where the carry reaches no piece yet."""
    cdef Lane* a = &s.lane[lane]
    cdef Flow* f = &s.share.flow[lane]
    cdef uint64_t mask = 0
    cdef int64_t n
    f.carry += (now + 1 - f.seen) * f.num
    f.seen = now + 1
    n = f.carry - f.piece * f.den
    a.next_at = now + 1
    if p.blocked or reaches_end(f, p):          # if not: the piece goes on in the next run, and the carry does not reach its end
        ask_pieces(f, p, &s.dram, &s.dma_job[f.job].extent, &mask)
        return mask
    if n < 0:
        a.next_at = flow_next(f)
        return 0
    n = 1 + quotient(n, p.line * f.den)
    if n > w.banks:
        n = w.banks
    mask = run_of(w, f.bank, n)
    take_pieces(f, p, n)
    return mask


cdef inline void walk_flow(Sim* s, Spm* p, Walk* w, slot_t lane, int32_t ports) noexcept nogil:
    """One flow over the block; `ports`: of each bank, where they are shared and few, else 0."""
    cdef Lane* a = &s.lane[lane]
    cdef Flow* f = &s.share.flow[lane]
    cdef int64_t c = a.next_at - w.begin
    cdef uint64_t mask
    while c < w.n:
        if a.first_denied == NEVER:
            c = ask_quickly(p, w, a, f, c, ports)
            if c >= w.n:
                a.next_at = w.begin + c
                break
            mask = ask_once(s, p, w, lane, w.begin + c)
            if mask == 0:
                c = a.next_at - w.begin
                continue
        else:
            mask = a.reads | a.writes
        if ports == 0 and a.to_writes:
            mask = grant(p, w, c, ports, 0, mask)
            a.writes = mask
        else:
            mask = grant(p, w, c, ports, mask, 0)
            a.reads = mask
        if mask:
            count_denial(p, mask)
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


cdef inline uint64_t stream_banks(Stream* t, Spm* p, Walk* w, cycle_t i) noexcept nogil:
    """`stream_want` for one word of banks."""
    cdef int64_t line = t.line, n
    if t.steady and i < t.whole:                    # the same number of lines every cycle
        t.at += t.per_cycle
        n = line + t.step
        t.line = n - w.banks if n >= w.banks else n
        return (t.steady << line | (t.steady >> 1) >> (w.banks - 1 - line)) & w.full
    n = stream_lines(t, i, w.line, w.shift)
    if n == 0:
        return 0
    t.line = line + n
    if p.blocked:
        return run_of(w, bank_of(p, line), bank_of(p, line + n - 1) - bank_of(p, line) + 1)
    if t.line >= w.banks:
        t.line = t.line - w.banks if n < w.banks else t.line % w.banks
    return run_of(w, line, n)


cdef inline uint64_t stream_line(Stream* t, Spm* p, Walk* w, cycle_t i) noexcept nogil:
    """The same for a sparse engine: nothing, or one line, or in the first cycle perhaps two."""
    cdef uint64_t mask = 0
    while t.next == i:
        mask |= <uint64_t>1 << (bank_of(p, t.line) if p.blocked else t.line)
        t.line += 1
        if not p.blocked and t.line == w.banks:
            t.line = 0
        t.at += w.line
        stream_next(t)
    return mask


cdef inline void set_held(Spm* p, Lane* a, cycle_t since) noexcept nogil:
    """After its block: the lane's request has been denied since then; NEVER: it has none that was."""
    p.n_held += (since != NEVER) - (a.first_denied != NEVER)
    a.first_denied = since
    if since < p.oldest:
        p.oldest = since
    if p.n_held == 0:
        p.oldest = NEVER
        p.judge = True


cdef inline void walk_dense(Sim* s, Spm* p, Walk* w, Lane* a, Compute* e, uint64_t* next, int32_t ports) noexcept nogil:
    """A dense engine that asks in every cycle of the block, which does not end its body: for what it still lacks of the last body
    cycle, or for the lines of the next (`next`). The same without a branch."""
    cdef int64_t k, c = a.next_at - w.begin, n = w.n - c, waits = 0
    cdef bint held = a.first_denied != NEVER
    cdef int32_t before = p.n_denied, denials = before
    cdef uint64_t* first = next
    cdef uint64_t* taken = w.taken[0] + c * ports
    cdef uint64_t need = a.reads if held else next[0]
    cdef int64_t served
    cdef cycle_t since
    next += 1 - held
    for k in range(n):
        need &= ~take(taken, ports, need)
        taken += ports
        p.denied[denials] = need
        served = -<int64_t>(need == 0)      # all ones, or none
        denials += 1 + <int32_t>served
        waits = (waits + 1) & ~served
        need |= next[0] & <uint64_t>served
        next -= served
    p.n_denied = denials
    denials -= before
    s.denied += denials
    e.conflict += denials
    if held:
        e.conflict += w.begin + c - a.first_denied
    since = NEVER
    if waits:
        since = a.first_denied if held and waits == n else w.begin + w.n - waits
        e.conflict -= w.begin + w.n - since
    e.body_left -= n - denials
    a.next_at = w.begin + w.n
    a.reads = need if waits else 0
    if since != a.first_denied:
        set_held(p, a, since)
    if p.n_denied >= DENIED - BLOCK:
        count_denials(p)


cdef inline void ask_next(Spm* p, Walk* w, Compute* e, int32_t ports, uint64_t* reads, uint64_t* writes) noexcept nogil:
    """The request of the next body cycle."""
    cdef cycle_t i = e.body - e.body_left
    cdef uint64_t mask
    cdef int32_t k
    reads[0] = 0
    writes[0] = 0
    for k in range(e.streams):
        mask = stream_line(&e.stream[k], p, w, i) if e.sparse else stream_banks(&e.stream[k], p, w, i)
        if ports == 0 and w.split and e.stream[k].write:
            writes[0] |= mask
        else:
            reads[0] |= mask


cdef inline void walk_compute(Sim* s, Spm* p, Walk* w, slot_t lane, int32_t ports) noexcept nogil:
    """One TE or VE over the block, request by request."""
    cdef Lane* a = &s.lane[lane]
    cdef Compute* e = &s.compute[lane - s.n_flows]
    cdef int64_t c = a.next_at - w.begin
    cdef uint64_t reads = a.reads, writes = a.writes, denied
    cdef cycle_t since = a.first_denied
    while c < w.n:
        if since == NEVER:
            ask_next(p, w, e, ports, &reads, &writes)
        denied = grant(p, w, c, ports, reads, writes)
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
            set_held(p, a, NEVER)
            body_over(s, p, lane, w.begin + c)
            return
        c = on_period(w.begin + c + 1, e.period) + sleep_idle(e) * e.period - w.begin
    a.next_at = w.begin + c
    if since != a.first_denied:
        set_held(p, a, since)
    a.reads = reads if since != NEVER else 0
    a.writes = writes if since != NEVER else 0


cdef inline void walk_lanes(Sim* s, Spm* p, Walk* w, slot_t* order, int32_t ports) noexcept nogil:
    cdef int32_t k, n_order = p.n_order
    cdef slot_t lane
    cdef Lane* a
    cdef Compute* e
    cdef cycle_t i
    cdef int64_t n
    cdef uint64_t* want
    for k in range(n_order):
        lane = order[k]
        a = &s.lane[lane]
        if a.next_at >= w.begin + w.n:
            if a.backpressure_at < w.begin + w.n:
                press_later(s, lane)
        elif a.compute:
            e = &s.compute[lane - s.n_flows]
            i = body_cycle(s, lane - s.n_flows)
            n = w.n - (a.next_at - w.begin)
            if e.dense and e.body_left > n:
                want = ahead_of(&s.ahead[lane - s.n_flows], e, s.compute_job, p, i, n)
                walk_dense(s, p, w, a, e, want, ports if ports else w.ports[0])
            else:
                if e.dense:
                    compute_seek(e, s.compute_job, p, i)
                walk_compute(s, p, w, lane, ports)
        else:
            walk_flow(s, p, w, lane, ports)


cdef void narrow_block(Sim* s, Spm* p, slot_t* order, int64_t n) noexcept nogil:
    """`n` cycles from `p.done` on, at most BLOCK, in which nothing changes the order; only the last may bring an event."""
    cdef uint64_t[2 * PORTS * BLOCK + 8] words
    cdef int64_t k, used
    cdef Walk w
    w.begin = p.done
    w.n = n
    w.line = p.line
    w.shift = p.line_shift
    w.banks = p.banks
    w.full = p.full
    w.split = p.split
    w.ports[0] = p.ports[0]
    w.ports[1] = p.ports[1]
    used = n * p.ports[0]
    w.taken[0] = words
    w.taken[1] = words + used
    if p.split:
        memset(words, 0, (used + n * p.ports[1]) * sizeof(uint64_t))
        walk_lanes(s, p, &w, order, 0)
        return
    used = (used + 7) // 8 * 8
    memset(words, 0, used * sizeof(uint64_t))
    if p.ports[0] == 1:
        walk_lanes(s, p, &w, order, 1)
    elif p.ports[0] == 2:
        walk_lanes(s, p, &w, order, 2)
    else:
        walk_lanes(s, p, &w, order, 0)
    for k in range(used // 8):
        tally_eight(&p.grants, words + 8 * k)
