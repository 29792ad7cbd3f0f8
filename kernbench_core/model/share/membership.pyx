"""Membership of resources, and the values that follow from a rate. The other files of this folder define which rates follow
from membership.

`share_enter` and `share_quit` are the entry points: a flow that can use its resources enters, and a flow that is done or out
for backpressure quits. Under `shared_bw_v1` and `max_min_v1`, a flow that enters is a member at once. Under the other rules it
waits in a line. Under `fifo_v1` the first flow in the line of each channel is the member, and under `row_buffer_v1`
model/dram/row_buffer.pyx chooses the member.
"""
from libc.string cimport memset

from kernbench_core.model.division cimport gcd, quotient, reciprocal
from kernbench_core.model.bank cimport BOUNDED_CYCLES, Requester
from kernbench_core.types cimport NEVER, NONE, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t


cdef void share_accrue(Resource* r, cycle_t now) noexcept nogil:
    """Count the cycles up to `now` with the members of these cycles."""
    if r.members:
        r.busy += now - r.since
        r.member_cycles += r.members * (now - r.since)
    r.since = now


cdef void share_touch(Share* s, slot_t res) noexcept nogil:
    if not s.res[res].dirty:
        s.res[res].dirty = True
        s.dirty[s.n_dirty] = res
        s.n_dirty += 1


cdef void settle(Share* s, slot_t flow, cycle_t now) noexcept nogil:
    """Bring the carry up to cycle `now`; a held flow earns nothing."""
    cdef Flow* f = &s.flow[flow]
    if s.touch != NULL:
        s.touch(s.sim, flow, now)
    if f.member and s.requester[flow].first_denied == NEVER and now > f.seen:
        flow_accrue(f, now - f.seen)
    f.seen = now
    s.requester[flow].ends_at = 0


cdef inline bint off_channels(Share* s, Flow* f) noexcept nogil:
    """Whether the route of a flow begins with a link."""
    return f.route.length > 0 and s.path[f.route.first] >= s.channels


cdef void share_join(Share* s, slot_t flow, cycle_t now) noexcept nogil:
    """Make the flow a member from cycle `now` on."""
    cdef Flow* f = &s.flow[flow]
    cdef Resource* r
    cdef int32_t h
    cdef slot_t node, res
    cdef int32_t off = off_channels(s, f)
    settle(s, flow, now)
    f.member = True
    f.raw_den = 0                       # forces the rate to be set again, whatever it was
    for h in range(f.route.length):
        res = s.path[f.route.first + h]
        r = &s.res[res]
        share_accrue(r, now)
        r.weight += f.weight
        r.members += 1
        r.off_channels += off
        node = (flow << s.hop_shift) + h
        s.node_prev[node] = NONE
        s.node_next[node] = r.first
        if r.first != NONE:
            s.node_prev[r.first] = node
        r.first = node
        share_touch(s, res)


cdef void share_leave(Share* s, slot_t flow, cycle_t now) noexcept nogil:
    """The flow was a member before cycle `now`."""
    cdef Flow* f = &s.flow[flow]
    cdef Resource* r
    cdef int32_t h
    cdef slot_t node, res
    cdef int32_t off = off_channels(s, f)
    settle(s, flow, now)
    f.member = False
    if s.requester[flow].first_denied == NEVER:
        s.requester[flow].next_at = NEVER
    for h in range(f.route.length):
        res = s.path[f.route.first + h]
        r = &s.res[res]
        share_accrue(r, now)
        r.weight -= f.weight
        r.members -= 1
        r.off_channels -= off
        node = (flow << s.hop_shift) + h
        if s.node_prev[node] != NONE:
            s.node_next[s.node_prev[node]] = s.node_next[node]
        else:
            r.first = s.node_next[node]
        if s.node_next[node] != NONE:
            s.node_prev[s.node_next[node]] = s.node_prev[node]
        share_touch(s, res)


cdef bint earlier(Flow* a, Flow* b) noexcept nogil:
    if a.started != b.started:
        return a.started < b.started
    if a.engine != b.engine:
        return a.engine < b.engine
    return a.job_seq < b.job_seq


cdef void share_enter(Share* s, slot_t flow, cycle_t now) noexcept nogil:
    cdef Flow* f = &s.flow[flow]
    cdef slot_t* link
    f.entered = True
    if not s.queues or f.bus == NONE:
        share_join(s, flow, now)
        return
    link = &s.line[f.bus]
    while link[0] != NONE and earlier(&s.flow[link[0]], f):
        link = &s.flow[link[0]].line_next
    f.line_next = link[0]
    link[0] = flow
    share_touch(s, f.bus)


cdef void share_quit(Share* s, slot_t flow, cycle_t now) noexcept nogil:
    cdef Flow* f = &s.flow[flow]
    cdef slot_t* link
    if not f.entered:
        return
    f.entered = False
    if f.member:
        share_leave(s, flow, now)
    if s.queues and f.bus != NONE:
        link = &s.line[f.bus]
        while link[0] != flow:
            link = &s.flow[link[0]].line_next
        link[0] = f.line_next
        share_touch(s, f.bus)


cdef void find_pace(Pace* t, int64_t num, int64_t den, nbytes_t line, nbytes_t row) noexcept nogil:
    """The values that follow from a rate; the divisions are shared, because most flows of a resource have the same rate."""
    cdef int64_t g = gcd(num, den)
    t.raw_num = num
    t.raw_den = den
    t.line = line
    t.row = row
    t.num = quotient(num, g)
    t.den = quotient(den, g)
    t.inverse = reciprocal(t.num)
    t.cost = line * t.den
    t.every = quotient(t.cost, t.num)
    t.rest = t.cost - t.every * t.num
    t.rounds = 0
    t.span = (<uint64_t>1 << min(quotient(BOUNDED_CYCLES * t.num, t.cost) + 2, 63)) - 1 if line else 0
    if line:  # the bytes that it earns, rounded up, a line that it was denied, and parts of lines at both ends
        t.rounds = <int32_t>min(quotient((quotient((BOUNDED_CYCLES + 1) * t.num, t.cost) + 4) * line - 1, row) + 1, MANY)


cdef void pace_rebuild(Flow* f) noexcept nogil:
    """Recompute the rate of a flow from a restored snapshot; its line and row are known."""
    cdef Pace t
    memset(&t, 0, sizeof(t))
    t.den = 1                           # never had a rate
    if f.raw_den:
        find_pace(&t, f.raw_num, f.raw_den, f.line, f.row)
    take_pace(f, &t)
    f.rated = -1


cdef void share_rebuild(Share* s) noexcept nogil:
    """Recompute what follows from the lists of members after a snapshot was restored."""
    cdef int32_t k
    cdef slot_t node, before
    for k in range(s.n_res):
        s.res[k].binds = True
        s.res[k].off_channels = 0
        before = NONE
        node = s.res[k].first
        while node != NONE:
            s.res[k].off_channels += off_channels(s, &s.flow[node >> s.hop_shift])
            s.node_prev[node] = before
            before = node
            node = s.node_next[node]


cdef void set_rate(Share* s, slot_t flow, int64_t num, int64_t den, cycle_t now) noexcept nogil:
    """Set the rate of the flow on its resources to num/den from `now` on; the carry keeps its value in bytes, rounded down to
    the new unit."""
    cdef Flow* f = &s.flow[flow]
    cdef Requester* a = &s.requester[flow]
    cdef Pace* t = &s.pace
    if f.compressed:
        num *= f.ratio_num
        den *= f.ratio_den
    if num == f.raw_num and den == f.raw_den:
        return
    if num != t.raw_num or den != t.raw_den or f.line != t.line or f.row != t.row:
        find_pace(t, num, den, f.line, f.row)
    if s.repace != NULL and s.repace(s.sim, flow, now):
        return
    settle(s, flow, now)
    f.raw_num = num
    f.raw_den = den
    f.carry = credit_in(f, f.carry, t.den)
    take_pace(f, t)
    if a.first_denied == NEVER:
        a.next_at = next_request_cycle(s, f)
        a.rounds = t.rounds + (f.carry >= f.cost) if f.left == f.at.run_left else MANY
    else:
        a.rounds = t.rounds + 1 if f.left == f.at.run_left + f.requested else MANY
