"""Opens and closes the lanes of flows, and makes the timing wheel.

A flow that requests whole lines at a constant rate does the same for every line: it takes a port of the next bank, pays for the line, and
waits `every` cycles or one more. Its lane (fast/timing_wheel.pxd) contains the few numbers that these requests need, and the number of
lines up to the first request that may be of another kind. Rolling opens a lane when the flow is due. The lane is closed, and the flow
brought up to date, before a request of another kind, and before code other than rolling reads the flow. If only the rate of the flow
changes, the lane stays open (`repace_lane`). Before another change, it is paused (`touch_lane`).
"""
from libc.string cimport memcpy, memset

from kernbench_core.fast.address_runs cimport gap_of
from kernbench_core.model.bank cimport Requester
from kernbench_core.model.bank_counters cimport tally_eight
from kernbench_core.model.division cimport divided, quotient
from kernbench_core.model.dram.extent cimport Dram
from kernbench_core.model.share.membership cimport MANY, Flow, Pace, credit_in, take_pace
from kernbench_core.fast.timing_wheel cimport BANKS, BUCKETS, RUNS, Lane, Wheel, wheel_insert, wheel_remove
from kernbench_core.types cimport NEVER, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t v) noexcept nogil


cdef enum:
    MOST = 1 << 30            # lines of a lane, and cycles between them


cdef inline void reinsert(Sim* s, Spm* p, int32_t position) noexcept nogil:
    """Put a requester at the cycle of its next request, or at the cycle in which it leaves its resources."""
    cdef slot_t requester = s.wheel.order[position]
    cdef Lane* g = &s.lane[requester]
    if g.opened == 0 or g.paused:
        g.at = min(s.requester[requester].next_at, s.requester[requester].backpressure_at)
    wheel_insert(s.wheel, g, position, p.done)


cdef void set_line_constants(Sim* s, Spm* p) noexcept nogil:
    """Set the values that the lines of all lanes have in common, for the whole run."""
    cdef Wheel* x = s.wheel
    cdef Dram* d = s.memory
    cdef int32_t k, n
    x.line = p.line if p.line_shift >= 0 and not p.blocked else -1
    x.shift = p.line_shift
    x.interleave = d.interleave
    x.gap = gap_of(d, p) if x.line > 0 and d.interleave & (p.line - 1) == 0 and d.interleave <= RUNS * p.line else 0
    x.chunk = <int32_t>(d.interleave >> p.line_shift) if x.gap else 0
    for k in range(p.banks):
        x.next[k] = (k + 1) % p.banks
        for n in range(1, x.chunk):
            x.next[k + BANKS * n] = x.next[k] + BANKS * (n - 1)
    if x.gap:
        for k in range(p.banks):
            x.next[k] = (k + 1 + (x.gap >> x.shift)) % p.banks + BANKS * (x.chunk - 1)


cdef void fill_wheel(Sim* s, Spm* p) noexcept nogil:
    """Put all requesters on the wheel, from the scratchpad's next cycle on."""
    cdef Wheel* x = s.wheel
    cdef int32_t k
    if x.n == 0:
        set_line_constants(s, p)
    x.n = p.n_order
    x.due_words = (p.n_order + 63) >> 6
    x.next_far = p.done + BUCKETS
    x.any_moved = False
    memset(x.nonempty, 0, sizeof(x.nonempty))
    memset(x.due, 0, x.due_words * sizeof(x.due[0]))
    memset(x.far, 0, x.due_words * sizeof(uint64_t))
    memset(x.moved, 0, x.due_words * sizeof(uint64_t))
    memcpy(x.order, p.order, p.n_order * sizeof(slot_t))
    for k in range(x.n):
        s.lane[x.order[k]].position = k
        reinsert(s, p, k)
    p.lookahead.on_wheel = True


cdef inline void reinsert_marked(Sim* s, Spm* p, uint64_t* mask) noexcept nogil:
    """Put the requesters of a mask again, and clear the mask."""
    cdef uint64_t todo
    cdef int32_t r
    for r in range(s.wheel.due_words):
        todo = mask[r]
        mask[r] = 0
        while todo:
            reinsert(s, p, 64 * r + trailing_zeros(todo))
            todo &= todo - 1


cdef void reinsert_moved(Sim* s, Spm* p) noexcept nogil:
    """Put the requesters whose flow was changed."""
    reinsert_marked(s, p, s.wheel.moved)
    s.wheel.any_moved = False


cdef inline cycle_t first_far(Sim* s) noexcept nogil:
    """The first cycle in which a requester is due, if none is due in the next BUCKETS cycles; NEVER: none is due without an event."""
    cdef Wheel* x = s.wheel
    cdef cycle_t at = NEVER
    cdef uint64_t todo
    cdef int32_t r
    for r in range(x.due_words):
        todo = x.far[r]
        while todo:
            at = min(at, s.lane[x.order[64 * r + trailing_zeros(todo)]].at)
            todo &= todo - 1
    return at


cdef void reinsert_far(Sim* s, Spm* p, cycle_t to) noexcept nogil:
    """Put requesters of `far` that are due in the next BUCKETS cycles into their buckets. If no bucket has a requester then, go on to the
    cycle in which the first requester is due, or to `to`."""
    cdef Wheel* x = s.wheel
    cdef int32_t bucket = 0
    reinsert_marked(s, p, x.far)
    x.next_far = p.done + BUCKETS
    while bucket < BUCKETS and x.nonempty[bucket] == 0:
        bucket += 1
    if bucket == BUCKETS and p.n_watch == 0:
        p.done = min(to, first_far(s))
        x.next_far = p.done


cdef inline void settle_carry(Lane* g, Flow* f, Requester* a, cycle_t now) noexcept nogil:
    """The flow itself has the carry from now on; `now`: the cycle of the lane's next request, or an earlier one."""
    f.carry = g.carry + f.cost - (g.at + 1 - now) * f.num
    f.seen = now
    a.next_at = g.at


cdef bint open_lane(Sim* s, Spm* p, slot_t requester) noexcept nogil:
    """Open the lane of a requester that is due in cycle `p.done`; false if its request is not a whole line, or if it was denied."""
    cdef Wheel* x = s.wheel
    cdef Lane* g = &s.lane[requester]
    cdef Requester* a = &s.requester[requester]
    cdef Flow* f
    cdef int64_t carry, lines, turns
    cdef nbytes_t row, turn = x.gap + x.interleave
    if a.compute or a.first_denied != NEVER:
        return False
    f = &s.share.flow[requester]
    if f.compressed and x.gap:  # its chunks have the length of expanded bytes, and the wheel knows only the chunks of the memory
        return False
    if g.opened and g.paused == 0:
        close_lane(s, requester, p.done)
    carry = f.carry + (p.done + 1 - f.seen) * f.num - f.cost
    if <uint64_t>carry >= <uint64_t>f.num or f.piece != x.line or f.every == 0 or f.every >= MOST:
        return False
    if g.paused:
        g.lines = g.paused
        g.paused = 0
    else:
        lines = f.at.run_left >> x.shift
        g.place = f.bank + (BANKS * (<int32_t>lines - 1) if x.gap else 0)
        if x.gap and lines << x.shift == f.at.run_left:       # the row goes on behind the run
            row = f.at.row_end - (f.at.dram + f.at.run_seen + x.gap)
            if row > 0:
                turns = quotient(row, turn)
                lines += turns * x.chunk + (min(row - turns * turn, x.interleave) >> x.shift)
        if lines < 2:                           # the last line may be cut, or continue in the next row
            return False
        g.lines = g.opened = <int32_t>min(lines, MOST) - 1
        g.side = p.ports[1] if p.split and not a.to_writes else 0
    g.at = p.done
    g.carry = carry
    g.num = f.num
    g.rest = f.rest
    g.every = <int32_t>f.every
    x.any_open = True
    return True


cdef void close_lane(Sim* s, slot_t requester, cycle_t now) noexcept nogil:
    """Bring the flow of an open lane up to date, before its request of cycle `now` or a later one."""
    cdef Wheel* x = s.wheel
    cdef Lane* g = &s.lane[requester]
    cdef Flow* f = &s.share.flow[requester]
    cdef int64_t lines = g.opened - g.lines - g.paused, over = lines - (f.at.run_left >> x.shift), turns
    if over < 0:
        f.at.run_left -= lines << x.shift
    else:
        turns = quotient(over, x.chunk)
        f.at.dram += f.at.run_seen + x.gap + turns * (x.gap + x.interleave)
        f.at.addr = f.at.dram + f.at.shift
        f.at.run_seen = min(x.interleave, f.at.row_end - f.at.dram)
        f.at.run_left = f.at.run_seen - ((over - turns * x.chunk) << x.shift)
    f.left -= lines << x.shift
    f.bank = g.place & (BANKS - 1)
    if g.paused == 0:
        settle_carry(g, f, &s.requester[requester], now)
    g.lines = g.opened = g.paused = 0


cdef bint repace_lane(void* sim, slot_t flow, cycle_t now) noexcept nogil:
    """Give an open lane the rate `Share.pace` from cycle `now` on, as `set_rate` does for any flow; false if this lane cannot have
    it, or if the scratchpad does not know yet that it is changed in this cycle."""
    cdef Sim* s = <Sim*>sim
    cdef Lane* g = &s.lane[flow]
    cdef Flow* f = &s.share.flow[flow]
    cdef Requester* a = &s.requester[flow]
    cdef Pace* t = &s.share.pace
    cdef Spm* p = &s.spm[0]
    cdef int64_t credit, waits
    if g.lines == 0 or p.done != now or not p.lookahead.touched or p.lookahead.conflict_free or t.every == 0 or t.every >= MOST:
        return False
    credit = credit_in(f, g.carry + f.cost - (g.at + 1 - now) * g.num, t.den)
    waits = divided(t.cost - credit - 1, t.num, t.inverse)
    if p.lookahead.on_wheel:
        wheel_remove(s.wheel, g)
    g.at = now + waits
    g.carry = credit + (waits + 1) * t.num - t.cost
    g.num = t.num
    g.rest = t.rest
    g.every = <int32_t>t.every
    if p.lookahead.on_wheel:
        wheel_insert(s.wheel, g, g.position, now)
    f.raw_num = t.raw_num
    f.raw_den = t.raw_den
    take_pace(f, t)
    a.rounds = t.rounds if f.left == f.at.run_left else MANY
    a.ends_at = 0
    return True


cdef void count_ports(Sim* s, Spm* p) noexcept nogil:
    """Count the ports that were taken."""
    cdef Wheel* x = s.wheel
    cdef int32_t k
    for k in range((x.words + 7) // 8):
        tally_eight(&p.grants, x.word + 8 * k)
    memset(x.word, 0, (x.words + 7) // 8 * 8 * sizeof(uint64_t))
    x.words = 0


cdef void close_lanes(Sim* s, Spm* p) noexcept nogil:
    """Bring all flows up to date."""
    cdef int32_t k
    if not s.wheel.any_open:
        return
    for k in range(p.n_order):
        if s.lane[p.order[k]].opened:
            close_lane(s, p.order[k], p.done)
    s.wheel.any_open = False


cdef void stop_rolling(Sim* s, Spm* p) noexcept nogil:
    """Other code may run the scratchpad, or read its state: bring flows and the counts of grants up to date."""
    if s.n_spm > 1:
        return
    if s.wheel.words:
        count_ports(s, p)
    close_lanes(s, p)


cdef void touch_lane(Sim* s, slot_t flow) noexcept nogil:
    """A flow is changed before the next cycle of its scratchpad."""
    cdef Spm* p = &s.spm[s.requester[flow].spm]
    cdef Wheel* x = s.wheel
    cdef Lane* g = &s.lane[flow]
    if g.lines:
        settle_carry(g, &s.share.flow[flow], &s.requester[flow], p.done)
        g.paused = g.lines
        g.lines = 0
    elif g.opened and g.paused == 0:
        close_lane(s, flow, p.done)
    if p.lookahead.on_wheel:
        wheel_remove(x, g)
        x.moved[g.position >> 6] |= <uint64_t>1 << (g.position & 63)
        x.any_moved = True
