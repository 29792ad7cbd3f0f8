"""Opens and closes the lanes of flows, and fills their table.

A flow that requests whole lines at a constant rate does the same for every line: it takes a port of the next bank, pays for the line, and
waits `every` cycles or one more. Its lane (fast/lane_table.pxd) contains the few numbers that these requests need, the number of lines up
to the first request that may be of another kind, and the cycle of that request. Rolling opens a lane as soon as the next request of the
flow is known. The lane is closed, and the flow brought up to date, before a request of another kind, before code other than rolling reads
the flow, and before the flow is changed. If only the rate of the flow changes, the lane stays open (`repace_lane`).
"""
from libc.string cimport memcpy, memset

from kernbench_core.fast.address_runs cimport gap_of
from kernbench_core.fast.lane_table cimport EPOCH, FAR, LANES, WINDOW, LaneTable, Lanes
from kernbench_core.model.bank cimport Requester
from kernbench_core.model.bank_counters cimport tally_eight
from kernbench_core.model.division cimport divided, quotient
from kernbench_core.model.dram.extent cimport Dram
from kernbench_core.model.share.membership cimport MANY, Flow, Pace, Resource, credit_in, find_pace, set_rate, take_pace
from kernbench_core.trace.events cimport TRACE_FULL
from kernbench_core.types cimport NEVER, NONE, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t v) noexcept nogil


cdef enum:
    MOST_LINES = 1 << 20      # of a lane
    MOST_CYCLES = 1 << 28     # between two lines of a lane, and up to its first one
    MOST_CREDIT = 1 << 30     # so that credits fit into 32 bits


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


cdef inline bint has_lane(Sim* s, slot_t requester) noexcept nogil:
    """Whether the requester has a lane: the same as when the table was filled last."""
    cdef int32_t k = s.lane_of[requester]
    return s.lane[k // LANES].owner[k & (LANES - 1)] == requester


cdef inline bint fits(int64_t num, int64_t cost, int64_t every) noexcept nogil:
    """Whether a lane can have this rate."""
    return 0 < every < MOST_CYCLES and num < MOST_CREDIT and cost >> 42 == 0


cdef inline void set_until(Lanes* g, int32_t j, int64_t num, int64_t cost, uint64_t inverse) noexcept nogil:
    """Compute the cycle of the first request after the lines of the lane."""
    cdef int64_t waits = divided(g.lines[j] * cost - g.carry[j] - 1, num, inverse) + 1
    g.until[j] = <int32_t>min(g.at[j] + waits, FAR)


cdef bint open_lane(Sim* s, Spm* p, slot_t requester) noexcept nogil:
    """Open the lane of a requester for its next request; false if it is not a whole line or was denied, and if requests are traced."""
    cdef LaneTable* x = s.lanes
    cdef int32_t k = s.lane_of[requester], j = k & (LANES - 1)
    cdef Lanes* g = &s.lane[k // LANES]
    cdef Requester* a = &s.requester[requester]
    cdef Flow* f
    cdef int64_t carry, lines, turns
    cdef nbytes_t row, turn = x.gap + x.interleave
    if a.compute or a.first_denied != NEVER or s.trace != NULL and s.trace.level >= TRACE_FULL:
        return False
    f = &s.share.flow[requester]
    if f.compressed:            # its chunks have the length of expanded bytes, and it has another rate than other members of its channel
        return False
    if g.opened[j]:
        close_lane(s, requester, p.done)
    carry = f.carry + (a.next_at + 1 - f.seen) * f.num - f.cost
    if <uint64_t>carry >= <uint64_t>f.num or f.piece != x.line:
        return False
    if a.next_at - x.epoch >= 2 * MOST_CYCLES or not fits(f.num, f.cost, f.every):
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
    g.rest[j] = <int32_t>f.rest
    g.every[j] = <int32_t>f.every
    set_until(g, j, f.num, f.cost, f.inverse)
    x.any_open = True
    return True


cdef void close_lane(Sim* s, slot_t requester, cycle_t now) noexcept nogil:
    """Bring the flow of an open lane up to date, before its request of cycle `now` or a later one."""
    cdef LaneTable* x = s.lanes
    cdef int32_t k = s.lane_of[requester], j = k & (LANES - 1)
    cdef Lanes* g = &s.lane[k // LANES]
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
    f.carry = g.carry[j] + f.cost - (x.epoch + g.at[j] + 1 - now) * f.num
    f.seen = now
    s.requester[requester].next_at = x.epoch + g.at[j]
    g.lines[j] = g.opened[j] = 0
    g.until[j] = g.at[j]


cdef inline void repace(Sim* s, slot_t flow, Lanes* g, int32_t j, Pace* t, int64_t rel) noexcept nogil:
    """Give an open lane another rate from cycle `rel` of the table on."""
    cdef Flow* f = &s.share.flow[flow]
    cdef int64_t credit = credit_in(f, g.carry[j] + f.cost - (g.at[j] + 1 - rel) * f.num, t.den)
    cdef int64_t waits = divided(t.cost - credit - 1, t.num, t.inverse)
    g.at[j] = <int32_t>(rel + waits)
    g.carry[j] = <int32_t>(credit + (waits + 1) * t.num - t.cost)
    g.num[j] = <int32_t>t.num
    g.rest[j] = <int32_t>t.rest
    g.every[j] = <int32_t>t.every
    set_until(g, j, t.num, t.cost, t.inverse)
    f.raw_num = t.raw_num
    f.raw_den = t.raw_den
    take_pace(f, t)
    s.requester[flow].rounds = t.rounds if f.left == f.at.run_left else MANY
    s.requester[flow].ends_at = 0


cdef inline bint may_repace(Sim* s, Pace* t, cycle_t now) noexcept nogil:
    """Whether open lanes can get this rate: it must fit, and the scratchpad must know that it is changed in this cycle."""
    cdef Spm* p = &s.spm[0]
    return (p.done == now and p.lookahead.touched and not p.lookahead.conflict_free and now - s.lanes.epoch < MOST_CYCLES
            and fits(t.num, t.cost, t.every))


cdef bint repace_lane(void* sim, slot_t flow, cycle_t now) noexcept nogil:
    """Give an open lane the rate `Share.pace` from cycle `now` on, as `set_rate` does for any flow; false if this lane cannot have it."""
    cdef Sim* s = <Sim*>sim
    cdef int32_t k = s.lane_of[flow], j = k & (LANES - 1)
    cdef Lanes* g = &s.lane[k // LANES]
    if g.owner[j] != flow or g.lines[j] == 0 or not may_repace(s, &s.share.pace, now):
        return False
    repace(s, flow, g, j, &s.share.pace, now - s.lanes.epoch)
    return True


cdef bint repace_members(void* sim, slot_t channel, cycle_t now) noexcept nogil:
    """Give all members of a DRAM channel their equal shares of the channel from cycle `now` on; false if lanes cannot have this rate."""
    cdef Sim* s = <Sim*>sim
    cdef Resource* r = &s.share.res[channel]
    cdef slot_t node = r.first, flow
    cdef int32_t k, j
    cdef Pace t
    cdef Lanes* g
    find_pace(&t, r.num, r.den * r.weight, &s.share.flow[node >> s.share.hop_shift])
    if not may_repace(s, &t, now):
        return False
    while node != NONE:
        flow = node >> s.share.hop_shift
        node = s.share.node_next[node]
        k = s.lane_of[flow]
        j = k & (LANES - 1)
        g = &s.lane[k // LANES]
        if g.owner[j] == flow and g.lines[j]:
            if g.num[j] != t.num or s.share.flow[flow].den != t.den:
                repace(s, flow, g, j, &t, now - s.lanes.epoch)
        else:
            set_rate(&s.share, flow, t.raw_num, t.raw_den, now)
    return True


cdef void place_requester(Sim* s, Spm* p, slot_t requester) noexcept nogil:
    """Open the lane of a requester without one, or note the cycle of its next request, or in which it leaves its resources."""
    cdef int32_t k = s.lane_of[requester], j = k & (LANES - 1)
    cdef Lanes* g = &s.lane[k // LANES]
    cdef Requester* a = &s.requester[requester]
    if not open_lane(s, p, requester):
        g.at[j] = g.until[j] = <int32_t>min(min(a.next_at, a.backpressure_at) - s.lanes.epoch, FAR)


cdef int32_t enter_order(Sim* s, Spm* p) noexcept nogil:
    """Note the tie-break order, which lanes are in use, and in `moved` which requesters have no open lane. Return the last lane in use."""
    cdef LaneTable* x = s.lanes
    cdef int32_t k, lane, j, last = 0
    cdef Lanes* g
    memcpy(x.order, p.order, p.n_order * sizeof(slot_t))
    memset(x.moved, 0, sizeof(x.moved))
    memset(x.used, 0, x.blocks)
    x.n = p.n_order
    for k in range(x.n):
        lane = s.lane_of[x.order[k]]
        g = &s.lane[lane // LANES]
        j = lane & (LANES - 1)
        if g.owner[j] == x.order[k]:
            last = max(last, lane)
            x.used[lane // LANES] |= 1 << j
            g.position[j] = k
            if g.lines[j]:
                continue
        x.moved[k >> 6] |= <uint64_t>1 << (k & 63)
    return last


cdef void free_lanes(Sim* s, int32_t n) noexcept nogil:
    """Free the lanes that are not in use, of the first `n` structs."""
    cdef int32_t k, j
    for k in range(n):
        for j in range(LANES):
            if not s.lanes.used[k] >> j & 1:
                s.lane[k].owner[j] = NONE
                s.lane[k].at[j] = s.lane[k].until[j] = FAR


cdef int32_t give_lanes(Sim* s) noexcept nogil:
    """Give the first free lanes to the requesters that have none. Return the last of these lanes."""
    cdef LaneTable* x = s.lanes
    cdef uint64_t todo
    cdef int32_t r, k, lane = 0
    for r in range((x.n + 63) // 64):
        todo = x.moved[r]
        while todo:
            k = 64 * r + trailing_zeros(todo)
            todo &= todo - 1
            if has_lane(s, x.order[k]):
                continue
            while x.used[lane // LANES] >> (lane & (LANES - 1)) & 1:
                lane += 1
            x.used[lane // LANES] |= 1 << (lane & (LANES - 1))
            s.lane_of[x.order[k]] = lane
            s.lane[lane // LANES].owner[lane & (LANES - 1)] = x.order[k]
            s.lane[lane // LANES].position[lane & (LANES - 1)] = k
    return lane


cdef void fill_lanes(Sim* s, Spm* p) noexcept nogil:
    """Enter all requesters, from the scratchpad's next cycle on. Open lanes stay open."""
    cdef LaneTable* x = s.lanes
    cdef int32_t last
    if x.n == 0:
        set_line_constants(s, p)
        free_lanes(s, (s.n_flows + s.n_compute) // LANES + 1)
    if x.n == 0 or not 0 <= p.done - x.epoch < EPOCH:
        close_lanes(s, p)
        x.epoch = p.done
    last = enter_order(s, p)
    free_lanes(s, x.blocks)
    last = max(last, give_lanes(s))
    x.blocks = last // LANES + 1
    place_moved(s, p)
    p.lookahead.has_lanes = True


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
    cdef Lanes* g = &s.lane[k // LANES]
    if g.owner[j] != flow:                      # it came after the table was filled
        return
    if g.opened[j]:
        close_lane(s, flow, p.done)
    if p.lookahead.has_lanes:
        x.moved[g.position[j] >> 6] |= <uint64_t>1 << (g.position[j] & 63)
        x.any_moved = True
