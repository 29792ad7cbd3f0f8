"""P5 and P6 of a block of cycles, lane by lane.

Arbitration has a fixed order, and what a lane asks for depends on its own state only: a lane is never disturbed by those behind it.
So the first lane goes through all cycles of the block, then the second through what ports the first has left, and so on; a lane's
state stays in registers meanwhile, and asking costs some forty instructions. The order is that of one cycle, so no request may
come of age inside the block: scratchpad.pyx sees to that.

`taken` has one word for each cycle and port of a bank: word k of a cycle are the banks with more than k ports taken. The words of a
block are counted as grants when it is over.
"""
from libc.string cimport memset

from kernbench_core.bank cimport BLOCK, Lane, Spm, bank_of
from kernbench_core.compute cimport Compute, Stream, on_period, sleep_idle, stream_lines, stream_next
from kernbench_core.events cimport TRACE_FULL, FlowTrace, StreamTrace
from kernbench_core.flow cimport ask_pieces, reaches_end, take_pieces
from kernbench_core.lane cimport body_over, flow_over, hold, press_later, unhold
from kernbench_core.record_bank cimport record_served
from kernbench_core.record_narrow cimport close_notes, note_denial, open_notes
from kernbench_core.record_walk cimport after_work_asks, before_work_asks, open_run, put_note, run_asked, run_served, streams_of
from kernbench_core.share cimport Flow, flow_next, quotient
from kernbench_core.sim cimport Sim, memory_of
from kernbench_core.tally cimport tally_done, tally_eight, tally_word
from kernbench_core.types cimport NEVER, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint32_t, uint64_t
from kernbench_core.walk cimport PORTS, Walk, grant, run_of, take


cdef inline void count_denial(Spm* p, uint64_t denied) noexcept nogil:
    """Eight are counted at once."""
    p.denied[p.n_denied] = denied
    p.n_denied += 1
    if p.n_denied == 8:
        tally_eight(&p.denials, p.denied)
        p.n_denied = 0


cdef void narrow_count(Spm* p) noexcept nogil:
    """Count what is still to be counted."""
    cdef int32_t k
    for k in range(p.n_denied, 8):
        p.denied[k] = 0
    tally_eight(&p.denials, p.denied)
    for k in range(p.n_denied):
        p.denied[k] = 0
    p.n_denied = 0


cdef inline int64_t ask_lines(
        Spm* p, Walk* w, Flow* f, int64_t c, uint64_t* taken, int32_t ports, slot_t lane, bint traced) noexcept nogil:
    """A flow slower than a line a cycle asks line by line, inside a run and while it is not denied: the cycle in which that ends."""
    cdef int64_t num = f.num, line = w.line * f.den, carry = f.carry, run = f.at.run_left, bank = f.bank, earned = f.seen - w.begin
    cdef int64_t k, gap, n = w.n, banks = w.banks, enough = 2 * w.line
    cdef bint writes = taken == w.taken[1]
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
        if traced:
            put_note(w, lane, c, 0 if writes else mask, mask if writes else 0)
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


cdef inline int64_t ask_rows(
        Spm* p, Walk* w, Flow* f, int64_t c, uint64_t* taken, int32_t ports, slot_t lane, bint traced) noexcept nogil:
    """The same for a flow that asks for lines in every cycle: always as many, or one more."""
    cdef int64_t num = f.num, line = w.line * f.den, carry = f.carry, run = f.at.run_left, bank = f.bank, k
    cdef int64_t lines = quotient(num, line), least = lines * line, enough = (lines + 2) * w.line
    cdef bint writes = taken == w.taken[1]
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
        if traced:
            put_note(w, lane, c, 0 if writes else mask, mask if writes else 0)
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


cdef inline int64_t ask_quickly(
        Spm* p, Walk* w, Lane* a, Flow* f, int64_t c, int32_t ports, slot_t lane, bint traced) noexcept nogil:
    """Go through all requests of the block that are nothing special; the cycle of the first that is, or that comes after it."""
    cdef int32_t side = 1 if ports == 0 and a.to_writes else 0
    cdef int32_t each = ports if ports else w.ports[side]
    cdef int64_t line = w.line * f.den, end
    cdef nbytes_t rest = f.at.run_left
    cdef int32_t bank = f.bank
    if f.piece != w.line or f.carry >= line or p.blocked or line >> 32 or not f.member or (traced and w.trace.level > TRACE_FULL):
        return c
    if f.num >= line:
        end = ask_rows(p, w, f, c, w.taken[side], each, lane, traced)
    else:
        end = ask_lines(p, w, f, c, w.taken[side], each, lane, traced)
    if traced and f.at.run_left != rest:
        open_run(&w.flow_trace[lane], f, rest, bank)
        run_asked(&w.flow_trace[lane], w.begin + c)
    return end


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
        ask_pieces(f, p, memory_of(s, f.job), &s.dma_job[f.job].extent, &mask)
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


cdef inline void tell(
        Sim* s, Spm* p, Walk* w, slot_t lane, int64_t c, uint64_t reads, uint64_t writes, uint64_t denied, cycle_t since) noexcept nogil:
    """A traced request was arbitrated; it was first denied in cycle `since`."""
    if denied:
        note_denial(s, p, w, lane, c, reads, writes, denied, since == NEVER)
        return
    put_note(w, lane, c, reads, writes)
    if since != NEVER or lane >= s.n_flows or not run_served(s, &s.share.flow[lane], &s.flow_trace[lane], w.begin + c):
        record_served(s, p, lane, since, w.begin + c)


cdef inline void walk_flow(Sim* s, Spm* p, Walk* w, slot_t lane, int32_t ports, bint traced) noexcept nogil:
    """One flow over the block; `ports`: of each bank, where they are shared and few, else 0."""
    cdef FlowTrace* t = &s.flow_trace[lane]
    cdef Lane* a = &s.lane[lane]
    cdef Flow* f = &s.share.flow[lane]
    cdef int64_t c = a.next_at - w.begin
    cdef uint64_t mask, asked
    while c < w.n:
        if a.first_denied == NEVER:
            c = ask_quickly(p, w, a, f, c, ports, lane, traced)
            if c >= w.n:
                a.next_at = w.begin + c
                break
            if traced:
                open_run(t, f, f.at.run_left, f.bank)
            mask = ask_once(s, p, w, lane, w.begin + c)
            if mask == 0:
                c = a.next_at - w.begin
                continue
            if traced:
                run_asked(t, w.begin + c)
        else:
            mask = a.reads | a.writes
        asked = mask
        if ports == 0 and a.to_writes:
            mask = grant(p, w, c, ports, 0, mask)
            a.writes = mask
        else:
            mask = grant(p, w, c, ports, mask, 0)
            a.reads = mask
        if traced:
            tell(s, p, w, lane, c, 0 if a.to_writes else asked, asked if a.to_writes else 0, mask, a.first_denied)
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


cdef inline void stream_ahead(Stream* t, Walk* w, cycle_t i, int64_t n, uint64_t* want) noexcept nogil:
    """Add the lines of `n` body cycles from `i` on to `want[n]`; the stream stays where it is."""
    cdef int64_t k, lines, bank = t.line, at = t.at, end = i * t.per_cycle, q = t.per_cycle, step = t.step
    cdef uint64_t mask
    if t.steady and i + n <= t.whole:
        mask = (t.steady << bank | (t.steady >> 1) >> (w.banks - 1 - bank)) & w.full
        for k in range(n):
            want[k] |= mask
            mask = (mask << step | mask >> (w.banks - step)) & w.full
        return
    for k in range(n):
        end += q
        if end > t.nbytes:
            end = t.nbytes
        if end <= at:
            continue
        lines = (end - at + w.line - 1) >> w.shift
        want[k] |= run_of(w, bank, lines)
        at += lines * w.line
        bank += lines
        if bank >= w.banks:
            bank = bank - w.banks if lines <= w.banks else bank % w.banks


cdef inline void stream_forward(Stream* t, Walk* w, cycle_t i, int64_t n) noexcept nogil:
    """Go over `n` body cycles from `i` on."""
    cdef int64_t lines = stream_lines(t, i + n - 1, w.line, w.shift)
    t.line = <int64_t>(<uint32_t>(t.line + lines) % <uint32_t>w.banks)


cdef inline void set_held(Spm* p, Lane* a, cycle_t since) noexcept nogil:
    """After its block: the lane's request has been denied since then; NEVER: it has none that was."""
    p.n_held += (since != NEVER) - (a.first_denied != NEVER)
    a.first_denied = since
    if since < p.oldest:
        p.oldest = since
    if p.n_held == 0:
        p.oldest = NEVER
        p.judge = True


cdef inline void look_ahead(Walk* w, Compute* e, cycle_t i, int64_t n, uint64_t* want) noexcept nogil:
    """What an engine asks for in `n` body cycles from `i` on: `want[n]`."""
    cdef int64_t k
    cdef int32_t j
    for k in range(n):
        want[k] = 0
    for j in range(e.streams):
        stream_ahead(&e.stream[j], w, i, n, want)


cdef inline bint walk_dense(Sim* s, Spm* p, Walk* w, Lane* a, Compute* e, int32_t ports) noexcept nogil:
    """A dense engine that asks in every cycle of the block, for the lines of the next body cycle or for what it still lacks of the
    last: the same without a branch. False, and nothing done, where that is not so."""
    cdef uint64_t[BLOCK] want               # of the body cycles to come
    cdef uint64_t[BLOCK] missing            # of each denial
    cdef int64_t k, c = a.next_at - w.begin, n = w.n - c, served = 0, denials = 0, first = 0
    cdef bint held = a.first_denied != NEVER, denied = False
    cdef cycle_t i = e.body - e.body_left + held, since
    cdef uint64_t need
    cdef int32_t j
    if e.body_left <= n or e.period != 1 or p.penalty != 1 or w.split or w.shift < 0 or p.blocked:
        return False
    want[0] = a.reads                       # what is held comes first
    look_ahead(w, e, i, n - held, want + held)
    need = want[0]
    for k in range(n):
        need &= ~take(w.taken[0] + (c + k) * ports, ports, need)
        missing[denials] = need
        denied = need != 0
        denials += denied
        served += 1 - denied
        first = first if denied else k + 1
        need = need if denied else want[served if served < n else 0]
    for k in range(denials):
        count_denial(p, missing[k])
    s.denied += denials
    e.conflict += denials
    if held:
        e.conflict += w.begin + c - a.first_denied
    since = NEVER
    if denied:
        since = a.first_denied if held and served == 0 else w.begin + c + first
        e.conflict -= w.begin + w.n - since
    if served + denied > held:
        for j in range(e.streams):
            stream_forward(&e.stream[j], w, i, served + denied - held)
    e.body_left -= served
    a.next_at = w.begin + w.n
    a.reads = need if denied else 0
    if since != a.first_denied:
        set_held(p, a, since)
    return True


cdef inline void ask_next(
        Spm* p, Walk* w, Compute* e, int32_t ports, uint64_t* reads, uint64_t* writes, StreamTrace* t) noexcept nogil:
    """The request of the next body cycle; `t`: where the run is traced, else NULL."""
    cdef cycle_t i = e.body - e.body_left
    cdef uint64_t mask
    cdef int32_t k
    reads[0] = 0
    writes[0] = 0
    if t != NULL:
        before_work_asks(e, t)
    for k in range(e.streams):
        mask = stream_line(&e.stream[k], p, w, i) if e.sparse else stream_banks(&e.stream[k], p, w, i)
        if ports == 0 and w.split and e.stream[k].write:
            writes[0] |= mask
        else:
            reads[0] |= mask
    if t != NULL:
        after_work_asks(e, t)


cdef inline void walk_compute(Sim* s, Spm* p, Walk* w, slot_t lane, int32_t ports, bint traced) noexcept nogil:
    """One TE or VE over the block, request by request."""
    cdef Lane* a = &s.lane[lane]
    cdef Compute* e = &s.compute[lane - s.n_flows]
    cdef int64_t c = a.next_at - w.begin
    cdef uint64_t reads = a.reads, writes = a.writes, denied
    cdef cycle_t since = a.first_denied
    while c < w.n:
        if since == NEVER:
            ask_next(p, w, e, ports, &reads, &writes, streams_of(s, lane) if traced else NULL)
        denied = grant(p, w, c, ports, reads, writes)
        if traced:
            tell(s, p, w, lane, c, reads, writes, denied, since)
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


cdef inline void walk_lanes(Sim* s, Spm* p, Walk* w, slot_t* order, int32_t ports, bint traced) noexcept nogil:
    cdef int32_t k, n_order = p.n_order
    cdef slot_t lane
    cdef Lane* a
    cdef Compute* e
    for k in range(n_order):
        lane = order[k]
        a = &s.lane[lane]
        if a.next_at >= w.begin + w.n:
            if a.backpressure_at < w.begin + w.n:
                press_later(s, lane)
        elif a.compute:
            e = &s.compute[lane - s.n_flows]
            if traced or e.sparse or not walk_dense(s, p, w, a, e, ports if ports else w.ports[0]):
                walk_compute(s, p, w, lane, ports, traced)
        else:
            walk_flow(s, p, w, lane, ports, traced)


cdef void walk_traced(Sim* s, Spm* p, Walk* w, slot_t* order) noexcept nogil:
    """For any number of ports."""
    open_notes(w, s.trace)
    w.flow_trace = s.flow_trace
    walk_lanes(s, p, w, order, 0, True)
    close_notes(s, p, w)


cdef void narrow_block(Sim* s, Spm* p, slot_t* order, int64_t n) noexcept nogil:
    """`n` cycles from `p.done` on, at most BLOCK, in which nothing changes the order; only the last may bring an event."""
    cdef uint64_t[2 * PORTS * BLOCK + 8] words
    cdef int64_t k, used
    cdef bint traced = s.trace != NULL and s.trace.level >= TRACE_FULL
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
        if traced:
            walk_traced(s, p, &w, order)
        else:
            walk_lanes(s, p, &w, order, 0, False)
        return
    used = (used + 7) // 8 * 8
    memset(words, 0, used * sizeof(uint64_t))
    if traced:
        walk_traced(s, p, &w, order)
    elif p.ports[0] == 1:
        walk_lanes(s, p, &w, order, 1, False)
    elif p.ports[0] == 2:
        walk_lanes(s, p, &w, order, 2, False)
    else:
        walk_lanes(s, p, &w, order, 0, False)
    for k in range(used // 8):
        tally_eight(&p.grants, words + 8 * k)
