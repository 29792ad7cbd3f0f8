"""P4 of `shared_bw_v1` for flows with open lanes.

If all weights are 1, the flows of a route have the same rate. When the members of resources change, the rate of each route over these
resources is therefore computed once (`find_route_rates`), and then the lanes of the routes with another rate get it, eight lanes at a time
(`repace_lanes`). The `Flow` of an open lane gets the new rate when the lane is closed (`close_lane`). Flows without an open lane are few:
new members, and flows whose next request is not for a whole line. They get their rates one by one.
"""
from kernbench_core.fast.lane_table cimport FAR, LANES, LaneTable, Lanes, RouteRate, block_of
from kernbench_core.fast.lanes cimport fits, set_until, stop_rolling
from kernbench_core.fast.simd cimport vectors
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.division cimport quotient
from kernbench_core.model.share.membership cimport Flow, Pace, Share, find_pace, set_rate
from kernbench_core.model.share.shared_bw cimport KnownRate, find_rate
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport NONE, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint8_t, uint64_t

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t v) noexcept nogil


cdef inline bint find_route_rate(Sim* s, int32_t route, RouteRate* r) noexcept nogil:
    """Compute the rate of a route; false if lanes cannot have it. If it is another rate, mark the lanes of the route in
    `LaneTable.repaced`."""
    cdef LaneTable* x = s.lanes
    cdef KnownRate rate
    cdef Pace* t = &s.share.pace
    cdef int32_t w
    find_rate(&s.share, &s.route[route], 1, &rate)
    if rate.num == r.pace.raw_num and rate.den == r.pace.raw_den:
        return True
    if rate.num != t.raw_num or rate.den != t.raw_den or t.line != x.line or t.row != s.spm[0].row:
        find_pace(t, rate.num, rate.den, x.line, s.spm[0].row)
    if not fits(t.num, t.den, t.cost, t.every):
        return False
    r.pace = t[0]
    r.terms[0] = <int32_t>t.num
    r.terms[1] = <int32_t>t.den
    r.terms[2] = <int32_t>t.every
    r.terms[3] = <int32_t>t.rest
    for w in range((x.blocks + 7) // 8):
        x.repaced[w] |= s.lanes_of_route[route * x.lane_words + w]
    return True


cdef inline bint find_route_rates(Sim* s, int32_t n) noexcept nogil:
    """Compute the rates of the routes over the first `n` resources in `Share.dirty`, if they have open lanes; false if lanes cannot have
    one of them."""
    cdef LaneTable* x = s.lanes
    cdef int32_t w, i, route
    cdef uint64_t todo
    for w in range(x.route_words):
        todo = 0
        for i in range(n):
            todo |= s.routes_over[s.share.dirty[i] * x.route_words + w]
        while todo:
            route = 64 * w + trailing_zeros(todo)
            todo &= todo - 1
            if s.route_rate[route].n_open and not find_route_rate(s, route, &s.route_rate[route]):
                return False
    return True


cdef void repace_eight(Sim* s, Lanes* g, uint8_t lanes, int32_t now) noexcept nogil:
    """Give some of eight lanes the rates of their routes from cycle `now` on. The bandwidth credit of a lane keeps its value in bytes,
    rounded down, as in `set_rate`."""
    cdef nbytes_t line = s.lanes.line
    cdef int32_t* terms
    cdef int32_t j
    cdef int64_t credit, cost, waits
    if vectors.level:
        vectors.repace(g.num, lanes, now, <int32_t>line, s.route_rate[0].terms, sizeof(RouteRate) // sizeof(int32_t))
        return
    for j in range(LANES):
        if not lanes >> j & 1:
            continue
        terms = s.route_rate[g.route[j]].terms
        credit = g.carry[j] + line * g.den[j] - (g.at[j] + 1 - now) * <int64_t>g.num[j]
        credit = quotient(credit * terms[1], g.den[j])
        cost = line * terms[1]
        waits = quotient(cost - credit - 1, terms[0])
        g.num[j] = terms[0]
        g.den[j] = terms[1]
        g.every[j] = terms[2]
        g.rest[j] = terms[3]
        g.at[j] = <int32_t>(now + waits)
        g.carry[j] = <int32_t>(credit + (waits + 1) * g.num[j] - cost)
        set_until(g, j, g.num[j], cost, 0)


cdef inline void repace_lanes(Sim* s, int32_t now) noexcept nogil:
    """Give the lanes in `LaneTable.repaced` the rates of their routes, and let no lane be marked any more."""
    cdef LaneTable* x = s.lanes
    cdef int32_t w, k
    cdef uint64_t todo
    for w in range((x.blocks + 7) // 8):
        todo = x.repaced[w]
        x.repaced[w] = 0
        k = 8 * w
        while todo:
            if todo & 255:
                repace_eight(s, &s.lane[k], <uint8_t>(todo & 255), now)
            todo >>= 8
            k += 1


cdef inline void set_flow_rate(Share* h, slot_t flow, cycle_t now) noexcept nogil:
    """Set the rate of a flow without an open lane."""
    cdef Flow* f = &h.flow[flow]
    cdef KnownRate rate
    if f.rated == now:
        return
    f.rated = now
    find_rate(h, &f.route, 1, &rate)
    set_rate(h, flow, rate.num, rate.den, now)


cdef inline void set_other_rates(Sim* s, int32_t n, cycle_t now) noexcept nogil:
    """Set the rates of the members without an open lane. New members come first in the lists of their resources."""
    cdef LaneTable* x = s.lanes
    cdef Share* h = &s.share
    cdef int32_t i, w, k
    cdef slot_t node, flow
    cdef uint64_t todo
    for i in range(n):
        node = h.res[h.dirty[i]].first
        while node != NONE:
            flow = node >> h.hop_shift
            if h.flow[flow].raw_den and h.flow[flow].rated != now:
                break
            set_flow_rate(h, flow, now)
            node = h.node_next[node]
    for w in range((x.blocks + 7) // 8):
        todo = x.used[w] & ~x.open[w]
        while todo:
            k = 64 * w + trailing_zeros(todo)
            todo &= todo - 1
            flow = s.lane[block_of(k)].owner[k & (LANES - 1)]
            if flow != NONE and flow < s.n_flows and h.flow[flow].member:
                set_flow_rate(h, flow, now)


cdef bint set_lane_rates(void* sim, int32_t n, cycle_t now) noexcept nogil:
    """Set the rates of all members of the first `n` resources in `Share.dirty`. If this returns false, the caller must set the rates; all
    lanes are closed then, and some members may have their new rate already. The scratchpad must have been run up to this cycle, and must
    be known to change in it: `set_rate` does this otherwise."""
    cdef Sim* s = <Sim*>sim
    cdef Spm* p = &s.spm[0]
    cdef bint fit
    if not s.lanes.any_open:
        return False
    if (p.done == now and p.lookahead.touched and p.lookahead.conflict_free == 0 and p.lookahead.has_lanes
            and now - s.lanes.epoch < FAR >> 2):
        fit = find_route_rates(s, n)
        repace_lanes(s, <int32_t>(now - s.lanes.epoch))     # in any case: `RouteRate.pace` is already the new rate of the marked lanes
        if fit:
            set_other_rates(s, n, now)
            return True
    stop_rolling(s, p)
    p.lookahead.has_lanes = False
    return False
