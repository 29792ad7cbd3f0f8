"""Opens and closes the lanes of flows, and fills their table.

A flow that requests whole lines at a constant rate does the same for every line: it takes a port of the next bank, pays for the line, and
waits `every` cycles or one more. Its lane (fast/lane_table.pxd) contains the few numbers that these requests need, the number of lines up
to the first request that may be of another kind, and the cycle of that request. Rolling opens a lane as soon as the next request of the
flow is known. The lane is closed, and the flow brought up to date, before a request of another kind, before code other than rolling reads
the flow, and before the flow is changed. If only the rate of the flow changes, the lane stays open (`repace_lane`, and
fast/lane_rates.pyx).
"""
from libc.string cimport memset

from kernbench_core.fast.address_runs cimport gap_of
from kernbench_core.fast.lane_table cimport (
    DUE_WORDS, EPOCH, FAR, LANES, TURN_WORDS, WINDOW, LaneTable, Lanes, RouteRate, block_of)
from kernbench_core.model.bank cimport Requester
from kernbench_core.model.bank_counters cimport tally_eight
from kernbench_core.model.division cimport divided, quotient
from kernbench_core.model.dram.extent cimport Dram
from kernbench_core.model.share.membership cimport MANY, Flow, Pace, credit_in, take_pace
from kernbench_core.trace.events cimport TRACE_FULL
from kernbench_core.types cimport NEVER, NONE, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t v) noexcept nogil
    int leading_zeros "__builtin_clzll"(uint64_t v) noexcept nogil


cdef void set_line_constants(Sim* s, Spm* p) noexcept nogil:
    """Set the values that the lines of all lanes have in common, for the whole run."""
    cdef LaneTable* x = s.lanes
    cdef Dram* d = s.memory
    x.line = p.line if p.line_shift >= 0 and not p.blocked else -1
    x.shift = p.line_shift
    x.interleave = d.interleave
    x.gap = gap_of(d, p) if x.line > 0 and d.interleave & (p.line - 1) == 0 and d.interleave >> p.line_shift < MOST_LINES else 0
    x.chunk = <int32_t>(d.interleave >> p.line_shift) if x.gap else 1
    x.hop = <int32_t>((x.gap >> x.shift) % p.banks) if x.gap else 0
    x.banks = p.banks
    x.window = WINDOW


cdef bint open_lane(Sim* s, Spm* p, slot_t requester) noexcept nogil:
    """Open the lane of a requester for its next request; false if it is not a whole line or was denied, and if requests are traced."""
    cdef LaneTable* x = s.lanes
    cdef int32_t k = s.lane_of[requester], j = k & (LANES - 1)
    cdef Lanes* g = &s.lane[block_of(k)]
    cdef Requester* a = &s.requester[requester]
    cdef Flow* f
    cdef int64_t carry, lines, turns
    cdef nbytes_t row, turn = x.gap + x.interleave
    if a.first_denied != NEVER or s.trace != NULL and s.trace.level >= TRACE_FULL:
        return False
    f = &s.share.flow[requester]
    if f.compressed:            # its chunks have the length of expanded bytes, and it has another rate than other members of its channel
        return False
    if g.opened[j]:
        close_lane(s, requester, p.done)
    carry = f.carry + (a.next_at + 1 - f.seen) * f.num - f.cost
    if <uint64_t>carry >= <uint64_t>f.num or f.piece != x.line:
        return False
    if a.next_at - x.epoch >= 2 * MOST_CYCLES or not fits(f.num, f.den, f.cost, f.every):
        return False
    lines = f.at.run_left >> x.shift
    g.bank[j] = f.bank
    g.run[j] = <int32_t>lines - 1 if x.gap else 0
    if x.gap and lines << x.shift == f.at.run_left:             # the row goes on behind the run
        row = f.at.row_end - (f.at.dram + f.at.run_seen + x.gap)
        if row > 0:
            turns = quotient(row, turn)
            lines += turns * x.chunk + (min(row - turns * turn, x.interleave) >> x.shift)
    if lines < 2:                               # the last line may be cut, or continue in the next row
        return False
    g.lines[j] = g.opened[j] = <int32_t>min(lines, MOST_LINES) - 1
    g.side[j] = p.split and a.to_writes
    g.at[j] = <int32_t>(a.next_at - x.epoch)
    g.carry[j] = <int32_t>carry
    g.num[j] = <int32_t>f.num
    g.den[j] = <int32_t>f.den
    g.rest[j] = <int32_t>f.rest
    g.every[j] = <int32_t>f.every
    set_until(g, j, f.num, f.cost, f.inverse)
    note_open(s, k, requester)
    return True


cdef inline void take_rate(Sim* s, slot_t flow, Pace* t) noexcept nogil:
    """Give the flow of an open lane the rate that the lane has got, and all that follows from it."""
    cdef Flow* f = &s.share.flow[flow]
    f.raw_num = t.raw_num
    f.raw_den = t.raw_den
    take_pace(f, t)
    s.requester[flow].rounds = t.rounds if f.left == f.at.run_left else MANY


cdef inline void note_open(Sim* s, int32_t lane, slot_t flow) noexcept nogil:
    """A lane is open for lines of this flow."""
    cdef LaneTable* x = s.lanes
    cdef Flow* f = &s.share.flow[flow]
    cdef int32_t route = s.dma_job[f.job].route + f.channel
    cdef RouteRate* r = &s.route_rate[route]
    if r.n_open == 0:
        r.pace.raw_num = f.raw_num
        r.pace.raw_den = f.raw_den
    r.n_open += 1
    s.lane[block_of(lane)].route[lane & (LANES - 1)] = route
    s.lanes_of_route[route * x.lane_words + (lane >> 6)] |= <uint64_t>1 << (lane & 63)
    x.open[lane >> 6] |= <uint64_t>1 << (lane & 63)
    x.any_open = True


cdef inline void note_closed(Sim* s, int32_t lane, int32_t route) noexcept nogil:
    """A lane is no longer open for a flow of this route."""
    cdef LaneTable* x = s.lanes
    s.route_rate[route].n_open -= 1
    s.lanes_of_route[route * x.lane_words + (lane >> 6)] &= ~(<uint64_t>1 << (lane & 63))
    x.open[lane >> 6] &= ~(<uint64_t>1 << (lane & 63))


cdef void close_lane(Sim* s, slot_t requester, cycle_t now) noexcept nogil:
    """Bring the flow of an open lane up to date, before its request of cycle `now` or a later one."""
    cdef LaneTable* x = s.lanes
    cdef int32_t k = s.lane_of[requester], j = k & (LANES - 1)
    cdef Lanes* g = &s.lane[block_of(k)]
    cdef Flow* f = &s.share.flow[requester]
    cdef int64_t lines = g.opened[j] - g.lines[j], over = lines - (f.at.run_left >> x.shift), turns
    if over < 0:
        f.at.run_left -= lines << x.shift
    else:
        turns = quotient(over, x.chunk)
        f.at.dram += f.at.run_seen + x.gap + turns * (x.gap + x.interleave)
        f.at.addr = f.at.dram + f.at.shift
        f.at.run_seen = min(x.interleave, f.at.row_end - f.at.dram)
        f.at.run_left = f.at.run_seen - ((over - turns * x.chunk) << x.shift)
    f.left -= lines << x.shift
    f.bank = g.bank[j]
    if f.num != g.num[j] or f.den != g.den[j]:
        take_rate(s, requester, &s.route_rate[g.route[j]].pace)
    f.carry = g.carry[j] + f.cost - (x.epoch + g.at[j] + 1 - now) * f.num
    f.seen = now
    s.requester[requester].next_at = x.epoch + g.at[j]
    s.requester[requester].ends_at = 0          # the rate may have changed, and changed back
    g.lines[j] = g.opened[j] = 0
    g.until[j] = g.at[j]
    note_closed(s, k, g.route[j])


cdef bint repace_lane(void* sim, slot_t flow, cycle_t now) noexcept nogil:
    """Give an open lane the rate `Share.pace` from cycle `now` on, as `set_rate` does for any flow; false if this lane cannot have it, or
    if the scratchpad does not know yet that it is changed in this cycle."""
    cdef Sim* s = <Sim*>sim
    cdef int32_t k = s.lane_of[flow], j = k & (LANES - 1)
    cdef Lanes* g = &s.lane[block_of(k)]
    cdef Flow* f = &s.share.flow[flow]
    cdef Pace* t = &s.share.pace
    cdef Spm* p = &s.spm[0]
    cdef int64_t rel = now - s.lanes.epoch, credit, waits
    if g.owner[j] != flow or g.lines[j] == 0 or p.done != now or not p.lookahead.touched or p.lookahead.conflict_free:
        return False
    if rel >= MOST_CYCLES or not fits(t.num, t.den, t.cost, t.every):
        return False
    credit = credit_in(f, g.carry[j] + f.cost - (g.at[j] + 1 - rel) * f.num, t.den)
    waits = divided(t.cost - credit - 1, t.num, t.inverse)
    g.at[j] = <int32_t>(rel + waits)
    g.carry[j] = <int32_t>(credit + (waits + 1) * t.num - t.cost)
    g.num[j] = <int32_t>t.num
    g.den[j] = <int32_t>t.den
    g.rest[j] = <int32_t>t.rest
    g.every[j] = <int32_t>t.every
    set_until(g, j, t.num, t.cost, t.inverse)
    take_rate(s, flow, t)
    s.requester[flow].ends_at = 0
    return True


cdef void place_requester(Sim* s, Spm* p, slot_t requester) noexcept nogil:
    """Open the lane of a requester without one, or note the cycle of its next request, or in which it leaves its resources."""
    cdef int32_t k = s.lane_of[requester], j = k & (LANES - 1)
    cdef Lanes* g = &s.lane[block_of(k)]
    cdef Requester* a = &s.requester[requester]
    if a.compute or not open_lane(s, p, requester):
        g.at[j] = g.until[j] = <int32_t>min(min(a.next_at, a.backpressure_at) - s.lanes.epoch, FAR)


cdef void free_lane(Lanes* g, int32_t j) noexcept nogil:
    g.owner[j] = NONE
    g.at[j] = g.until[j] = FAR


cdef inline void move(LaneTable* x, int32_t position) noexcept nogil:
    """The next cycle of a requester must be read again."""
    x.moved[position >> 6] |= <uint64_t>1 << (position & 63)


cdef int32_t enter_order(Sim* s, Spm* p, int32_t* added) noexcept nogil:
    """Note the tie-break order, and which lanes are in use. Write the positions of the requesters without a lane into `added`, and return
    their number."""
    cdef LaneTable* x = s.lanes
    cdef int32_t k, lane, n = 0
    cdef Lanes* g
    x.n = p.n_order
    for k in range(x.n):
        x.order[k] = p.order[k]
        lane = s.lane_of[x.order[k]]
        g = &s.lane[block_of(lane)]
        if g.owner[lane & (LANES - 1)] == x.order[k]:
            x.used[lane >> 6] |= <uint64_t>1 << (lane & 63)
            g.position[lane & (LANES - 1)] = k
        else:
            added[n] = k
            n += 1
    return n


cdef void give_lanes(Sim* s, int32_t* added, int32_t n) noexcept nogil:
    """Give the first free lanes to `n` new requesters."""
    cdef LaneTable* x = s.lanes
    cdef int32_t i, lane, w = 0
    cdef Lanes* g
    for i in range(n):
        while x.used[w] == <uint64_t>-1:
            w += 1
        lane = 64 * w + trailing_zeros(~x.used[w])
        x.used[w] |= <uint64_t>1 << (lane & 63)
        g = &s.lane[block_of(lane)]
        g.owner[lane & (LANES - 1)] = x.order[added[i]]
        g.position[lane & (LANES - 1)] = added[i]
        s.lane_of[x.order[added[i]]] = lane


cdef void settle_lanes(Sim* s, uint64_t* before) noexcept nogil:
    """Free the lanes that were in use before and are not any more. Note in `moved` which requesters have no open lane."""
    cdef LaneTable* x = s.lanes
    cdef int32_t w, lane, words = (x.blocks + 7) // 8
    cdef uint64_t todo
    memset(x.moved, 0, (x.n + 63) // 64 * sizeof(uint64_t))
    for w in range(x.lane_words):
        if x.used[w]:
            x.blocks = 8 * w + block_of(63 - leading_zeros(x.used[w])) + 1
        todo = before[w] & ~x.used[w] if w < words else 0
        while todo:
            lane = 64 * w + trailing_zeros(todo)
            todo &= todo - 1
            free_lane(&s.lane[block_of(lane)], lane & (LANES - 1))
        todo = x.used[w] & ~x.open[w]
        while todo:
            lane = 64 * w + trailing_zeros(todo)
            todo &= todo - 1
            move(x, s.lane[block_of(lane)].position[lane & (LANES - 1)])


cdef void begin_table(Sim* s, Spm* p) noexcept nogil:
    """The first cycle of rolling in a run: all lanes are free."""
    cdef int32_t k, j
    set_line_constants(s, p)
    for k in range((s.n_flows + s.n_compute) // LANES + 1):
        for j in range(LANES):
            free_lane(&s.lane[k], j)


cdef void fill_lanes(Sim* s, Spm* p) noexcept nogil:
    """Enter all requesters, from the scratchpad's next cycle on. Open lanes stay open."""
    cdef LaneTable* x = s.lanes
    cdef uint64_t[DUE_WORDS] before
    cdef int32_t[64 * TURN_WORDS] added
    cdef int32_t w
    if x.n == 0:
        begin_table(s, p)
    if x.n == 0 or not 0 <= p.done - x.epoch < EPOCH:
        close_lanes(s, p)
        x.epoch = p.done
    for w in range((x.blocks + 7) // 8):
        before[w] = x.used[w]
        x.used[w] = 0
    give_lanes(s, added, enter_order(s, p, added))
    settle_lanes(s, before)
    place_moved(s, p)
    p.lookahead.has_lanes = True
    p.lookahead.lacks_lanes = False


cdef void place_moved(Sim* s, Spm* p) noexcept nogil:
    """Open the lanes of the requesters in `moved`, or note the cycles of their next requests."""
    cdef LaneTable* x = s.lanes
    cdef uint64_t todo
    cdef int32_t r
    for r in range((x.n + 63) // 64):
        todo = x.moved[r]
        x.moved[r] = 0
        while todo:
            place_requester(s, p, x.order[64 * r + trailing_zeros(todo)])
            todo &= todo - 1
    x.any_moved = False


cdef void count_ports(Sim* s, Spm* p) noexcept nogil:
    """Count the ports that were taken."""
    cdef LaneTable* x = s.lanes
    cdef int32_t k
    for k in range((x.words + 7) // 8):
        tally_eight(&p.grants, x.word + 8 * k)
    memset(x.word, 0, (x.words + 7) // 8 * 8 * sizeof(uint64_t))
    x.words = 0


cdef void close_lanes(Sim* s, Spm* p) noexcept nogil:
    """Bring all flows up to date."""
    cdef LaneTable* x = s.lanes
    cdef int32_t k, j
    if not x.any_open:
        return
    for k in range(x.blocks):
        for j in range(LANES):
            if s.lane[k].opened[j]:
                close_lane(s, s.lane[k].owner[j], p.done)
    x.any_open = False


cdef void stop_rolling(Sim* s, Spm* p) noexcept nogil:
    """Other code may run the scratchpad, or read its state: bring flows and the counts of grants up to date."""
    if s.n_spm > 1:
        return
    if s.lanes.words:
        count_ports(s, p)
    close_lanes(s, p)


cdef void touch_lane(Sim* s, slot_t flow) noexcept nogil:
    """A flow is changed before the next cycle of its scratchpad."""
    cdef Spm* p = &s.spm[s.requester[flow].spm]
    cdef LaneTable* x = s.lanes
    cdef int32_t k = s.lane_of[flow], j = k & (LANES - 1)
    cdef Lanes* g = &s.lane[block_of(k)]
    if g.owner[j] != flow:                      # it came after the table was filled
        return
    if g.opened[j]:
        close_lane(s, flow, p.done)
    if p.lookahead.has_lanes:
        move(x, g.position[j])
        x.any_moved = True
