"""The contents of the buffers of flows, the flows that queue bursts, and the members.

Nothing changes for a channel between the cycles in which this module handles it. The module computes the next such cycle
(`Channel.due`), and also handles the channel when a flow enters, leaves or gets another rate.
"""
from libc.string cimport memset

from kernbench_core.model.division cimport gcd, quotient
from kernbench_core.model.controller.commands cimport controller_clock
from kernbench_core.model.controller.queues cimport enqueue
from kernbench_core.model.controller.requests cimport OPEN_WRITES, BurstSlot, Request, Turn, clock_up_to, cycle_of
from kernbench_core.model.controller.timing cimport clock_t
from kernbench_core.model.dram.extent cimport Dram, cursor_advance, cursor_open
from kernbench_core.model.share.membership cimport Flow, set_rate, share_join, share_leave, share_touch
from kernbench_core.types cimport NEVER, NONE, nbytes_t

cdef extern from *:
    """
    static inline int kb_slower(int64_t a, int64_t b, int64_t c, int64_t d) {    /* a/b < c/d */
        return (__int128)a * d < (__int128)c * b;
    }
    """
    bint kb_slower(int64_t a, int64_t b, int64_t c, int64_t d) noexcept nogil


cdef void port_open(Share* s, slot_t flow, Extent* x, int32_t memory, bint write) noexcept nogil:
    """A transfer starts: its bursts are queued from the first on."""
    cdef Controllers* d = <Controllers*>s.devices
    cdef Port* p = &d.port[flow]
    cdef BurstSlot* ring = p.ring
    memset(p, 0, sizeof(Port))
    p.ring = ring
    p.extent = x[0]
    p.memory = memory
    p.write = write
    cursor_open(&p.at, &d.memory[memory], x, s.flow[flow].channel)


cdef void port_close(Share* s, slot_t flow) noexcept nogil:
    """The last byte of a flow has moved: its writes stay in the queue, but no job waits for them."""
    cdef Controllers* d = <Controllers*>s.devices
    cdef Channel* c = &d.channel[s.flow[flow].bus]
    cdef int32_t k
    cdef Request* q
    for k in range(c.n[1]):
        q = &c.queue[1][k]
        if q.flow == flow:
            c.whole += not q.whole
            q.whole = True
            q.flow = NONE
    for k in range(c.n_active):
        if c.active[k].flow == flow and c.active[k].write:
            c.active[k].flow = NONE
    share_touch(s, s.flow[flow].bus)


cdef int64_t missing(Share* s, slot_t flow, nbytes_t end, cycle_t now) noexcept nogil:
    """The carry that the flow still has to earn up to byte `end`, in units of the carry; 0 or less: nothing."""
    cdef Flow* f = &s.flow[flow]
    cdef bint held
    cdef int64_t carry
    cdef nbytes_t requested
    if s.touch != NULL:
        s.touch(s.sim, flow, now)
    held = s.requester[flow].first_denied != NEVER
    requested = f.total - f.left + (f.requested if held else 0)
    carry = f.carry
    if f.member and not held and now > f.seen:
        carry += (now - f.seen) * f.num
    return (end - requested) * f.den - carry


cdef bint has_unrequested(Share* s, slot_t flow) noexcept nogil:
    """Whether some bytes of the flow are not yet part of a request."""
    cdef Flow* f = &s.flow[flow]
    return f.left > (f.requested if s.requester[flow].first_denied != NEVER else 0)


cdef inline clock_t clock_from(Controllers* d, cycle_t now) noexcept nogil:
    """The first DRAM clock in this cycle or later."""
    return clock_up_to(d, now - 1) + 1 if now > 0 else 0


cdef bint has_slot(Share* s, Controllers* d, slot_t flow) noexcept nogil:
    """Whether the flow has a burst to queue, and room for it."""
    cdef Port* p = &d.port[flow]
    return p.requested < s.flow[flow].total and (
        p.queued - p.there < OPEN_WRITES if p.write else p.queued - p.free < d.slots)


cdef void mark_whole(Channel* c, slot_t flow, int64_t seq) noexcept nogil:
    """Mark write bursts whose data have arrived."""
    cdef int32_t k
    for k in range(c.n[1]):
        if c.queue[1][k].flow == flow and c.queue[1][k].seq == seq:
            c.queue[1][k].whole = True
            c.whole += 1
            return


cdef void arrive(Controllers* d, Port* p, cycle_t now) noexcept nogil:
    """Record that bursts which a flow reads have arrived."""
    while p.there < p.queued and p.ring[p.there % d.slots].at <= now:
        p.limit = p.ring[p.there % d.slots].end
        p.there += 1


cdef void port_update(Share* s, Controllers* d, Channel* c, slot_t flow, cycle_t now) noexcept nogil:
    """Apply C1 to a flow."""
    cdef Port* p = &d.port[flow]
    if p.write:
        while p.there < p.queued and missing(s, flow, p.ring[p.there % d.slots].end, now) <= 0:
            mark_whole(c, flow, p.there)
            p.there += 1
            c.next_clock = min(c.next_clock, clock_from(d, now))
        p.free = p.there
    else:
        arrive(d, p, now)
        while p.free < p.there and missing(s, flow, p.ring[p.free % d.slots].end, now) <= 0:
            p.free += 1
    if c.n[<int>p.write] < d.depth[<int>p.write] and has_slot(s, d, flow):
        c.next_clock = min(c.next_clock, clock_from(d, now))


cdef int32_t order_of(Turn* t, Flow* f) noexcept nogil:
    """Compare the flow's transfer with the transfer that queued last: negative: before it; 0: the same; positive: after it."""
    if f.started != t.started:
        return 1 if f.started > t.started else -1
    if f.engine != t.engine:
        return 1 if f.engine > t.engine else -1
    if f.job_seq != t.seq:
        return 1 if f.job_seq > t.seq else -1
    return 0


cdef slot_t next_flow(Share* s, Controllers* d, Turn* t, slot_t bus, bint write) noexcept nogil:
    """The next flow that queues a burst of this direction."""
    cdef slot_t flow = s.line[bus], first = NONE, behind = NONE
    cdef int32_t order
    while flow != NONE:
        if d.port[flow].write == write and has_slot(s, d, flow):
            order = order_of(t, &s.flow[flow])
            if order == 0 and t.left:
                return flow
            if first == NONE:
                first = flow
            if behind == NONE and order > 0:
                behind = flow
        flow = s.flow[flow].line_next
    return behind if behind != NONE else first


cdef void queue_next(Share* s, Controllers* d, Channel* c, slot_t flow, clock_t now) noexcept nogil:
    """Queue the flow's next bytes, up to the end of their burst."""
    cdef Port* p = &d.port[flow]
    cdef Dram* m = &d.memory[p.memory]
    cdef BurstSlot* slot = &p.ring[p.queued % d.slots]
    cdef int64_t address = p.at.dram // m.interleave // m.channels * m.interleave + p.at.dram % m.interleave
    cdef nbytes_t size = min(d.burst - address % d.burst, p.at.run_left)
    enqueue(d, c, flow, p.queued, address // d.burst, p.write, False, now)
    p.requested += size
    slot.end = p.requested
    slot.at = NEVER
    if p.write:
        p.limit = p.requested
    p.queued += 1
    cursor_advance(&p.at, m, &p.extent, s.flow[flow].channel, size)


cdef bint fill(Share* s, Controllers* d, Channel* c, slot_t bus, clock_t now) noexcept nogil:
    """C3: fill the queues as far as there is room; return whether a burst was queued."""
    cdef int32_t way
    cdef slot_t flow
    cdef Turn* t
    cdef Flow* f
    cdef bint some = False
    for way in range(2):
        t = &c.turn[way]
        while c.n[way] < d.depth[way]:
            flow = next_flow(s, d, t, bus, way)
            if flow == NONE:
                break
            f = &s.flow[flow]
            if t.left and order_of(t, f) == 0:
                t.left -= 1
            else:
                t.left = f.weight - 1
                t.started = f.started
                t.engine = f.engine
                t.seq = f.job_seq
            queue_next(s, d, c, flow, now)
            some = True
    return some


cdef inline void find_membership(Share* s, Controllers* d, slot_t bus, slot_t flow, cycle_t now) noexcept nogil:
    """C2: a flow joins or leaves its resources. A member whose rate is limited by what it may still earn gets a new rate."""
    cdef Flow* f = &s.flow[flow]
    cdef int64_t gap = missing(s, flow, d.port[flow].limit, now)
    cdef bint last_bytes = d.port[flow].limit == f.total
    cdef bint able = has_unrequested(s, flow) if last_bytes else gap > 0
    if able != f.member:
        if able:
            share_join(s, flow, now)
        else:
            share_leave(s, flow, now)
    elif able and (d.port[flow].clipped or (gap < f.num and not last_bytes)):
        share_touch(s, bus)


cdef void channel_phase(Share* s, Controllers* d, slot_t bus, cycle_t now) noexcept nogil:
    """P4 of one channel: buffers, clocks, members."""
    cdef Channel* c = &d.channel[bus]
    cdef slot_t flow = s.line[bus]
    cdef clock_t last = clock_up_to(d, now), after
    c.done = now
    if s.res[bus].dirty:
        c.next_clock = min(c.next_clock, clock_from(d, now))
    while flow != NONE:
        port_update(s, d, c, flow, now)
        flow = s.flow[flow].line_next
    while c.next_clock <= last:
        after = controller_clock(d, c, c.next_clock)
        if fill(s, d, c, bus, c.next_clock):
            after = c.next_clock + 1
        c.next_clock = max(after, c.next_clock + 1)
    flow = s.line[bus]
    while flow != NONE:
        if not d.port[flow].write:
            arrive(d, &d.port[flow], now)       # for a command of this cycle, if a cycle has several DRAM clocks
        find_membership(s, d, bus, flow, now)
        flow = s.flow[flow].line_next


cdef void member_rate(Share* s, Controllers* d, slot_t flow, cycle_t now) noexcept nogil:
    """C2: the minimum of the shares of its links by weight, the peak of the channel, and the remainder of what the flow may
    earn."""
    cdef Flow* f = &s.flow[flow]
    cdef int64_t num = d.peak_num, den = d.peak_den, part, of, gap, g
    cdef int32_t h
    cdef slot_t res
    if f.rated == now:
        return
    f.rated = now
    for h in range(f.route.length):
        res = s.path[f.route.first + h]
        if res == f.bus:
            continue
        part = s.res[res].num * f.weight
        of = s.res[res].den * s.res[res].weight
        if (f.bus == NONE and h == 0) or kb_slower(part, of, num, den):
            num = part
            den = of
    if f.bus == NONE:
        set_rate(s, flow, num, den, now)
        return
    d.channel[f.bus].done = now
    gap = missing(s, flow, d.port[flow].limit, now)
    d.port[flow].clipped = d.port[flow].limit < f.total and kb_slower(gap, f.den, num, den)
    if d.port[flow].clipped:
        g = gcd(gap, f.den)
        num = quotient(gap, g)
        den = quotient(f.den, g)
        if num >= <int64_t>1 << 31:
            num = quotient(num, den)
            den = 1
    set_rate(s, flow, num, den, now)


cdef cycle_t flow_due(Share* s, Controllers* d, slot_t flow, cycle_t now) noexcept nogil:
    """The first cycle after `now` in which C1 or C2 can give a new result for a flow."""
    cdef Flow* f = &s.flow[flow]
    cdef Port* p = &d.port[flow]
    cdef cycle_t due = NEVER
    cdef int64_t gap
    if not p.write and p.there < p.queued and p.ring[p.there % d.slots].at > now:
        due = p.ring[p.there % d.slots].at
    if not f.member:
        return due
    if s.requester[flow].first_denied != NEVER:
        return now + 1
    gap = missing(s, flow, p.limit, now)
    if p.limit == f.total:              # a member until it has requested everything; the test is made when this is possible
        due = min(due, now + (quotient(gap - 1, f.num) + 1 if gap > 0 else 1))
    else:
        due = min(due, now + max(1, quotient(gap, f.num)))
    gap = 0
    if p.write:
        if p.there < p.queued:
            gap = missing(s, flow, p.ring[p.there % d.slots].end, now)
    elif p.free < p.there and p.requested < f.total and p.queued - p.free >= d.slots:
        gap = missing(s, flow, p.ring[p.free % d.slots].end, now)
    if gap > 0:
        due = min(due, now + quotient(gap - 1, f.num) + 1)
    return due


cdef void look_ahead(Share* s, Controllers* d, slot_t bus, cycle_t now) noexcept nogil:
    """The next cycle in which this channel must be handled, if nothing changes."""
    cdef Channel* c = &d.channel[bus]
    cdef slot_t flow = s.line[bus]
    c.due = cycle_of(d, c.next_clock) if c.next_clock != NEVER else NEVER
    while flow != NONE:
        c.due = min(c.due, flow_due(s, d, flow, now))
        flow = s.flow[flow].line_next


cdef void controllers_phase(Share* s, cycle_t now) noexcept nogil:
    """P4: handle every channel that is due, then the rates of all flows whose resources changed."""
    cdef Controllers* d = <Controllers*>s.devices
    cdef int32_t k
    cdef slot_t node
    if s.n_dirty == 0 and s.devices_next > now:
        return
    for k in range(d.n):
        if s.res[k].dirty or d.channel[k].due <= now:
            channel_phase(s, d, k, now)
    for k in range(s.n_dirty):
        node = s.res[s.dirty[k]].first
        while node != NONE:
            member_rate(s, d, node >> s.hop_shift, now)
            node = s.node_next[node]
    for k in range(s.n_dirty):
        s.res[s.dirty[k]].dirty = False
    s.n_dirty = 0
    s.devices_next = NEVER
    for k in range(d.n):
        if d.channel[k].done == now:
            look_ahead(s, d, k, now)
        s.devices_next = min(s.devices_next, d.channel[k].due)


cdef bint controllers_still(Share* s) noexcept nogil:
    """After P4 of a cycle: no controller can do any work for a transfer until a flow enters; refreshes do not count."""
    cdef Controllers* d = <Controllers*>s.devices
    cdef Channel* c
    cdef int32_t k
    cdef slot_t flow
    for k in range(d.n):
        c = &d.channel[k]
        if c.n[0] or c.n_active or c.whole:
            return False
        flow = s.line[k]
        while flow != NONE:
            if s.flow[flow].member or d.port[flow].there < d.port[flow].queued or has_slot(s, d, flow):
                return False
            flow = s.flow[flow].line_next
    return True
