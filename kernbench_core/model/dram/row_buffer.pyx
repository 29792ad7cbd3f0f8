"""The member of each DRAM channel under row_buffer_v1, and the rate of its burst (docs/model/dram_rows.md, R3).

A channel has at most one member: the flow whose burst is on its data bus. This flow is like any other: its bytes reach the
scratchpad by its carry, and the burst ends when the flow has earned its bytes.
"""
from libc.string cimport memset

from kernbench_core.model.division cimport quotient
from kernbench_core.model.dram.controller cimport controller_step
from kernbench_core.model.dram.devices cimport Controller, IssuedBurst
from kernbench_core.model.dram.extent cimport cursor_open
from kernbench_core.model.dram.queue cimport queue_fill
from kernbench_core.model.share.membership cimport Flow, set_rate, share_join, share_leave, share_touch
from kernbench_core.types cimport NEVER, NONE, cycle_t, int32_t, int64_t, nbytes_t, slot_t


cdef void fetch_open(Share* s, slot_t flow, Extent* x, int32_t memory, bint write) noexcept nogil:
    """A transfer starts: its bursts are fetched from the first on."""
    cdef Devices* d = <Devices*>s.devices
    memset(&d.fetch[flow], 0, sizeof(d.fetch[flow]))
    d.fetch[flow].extent = x[0]
    d.fetch[flow].memory = memory
    d.fetch[flow].write = write
    cursor_open(&d.fetch[flow].at, &d.memory[memory], x, s.flow[flow].channel)


cdef int64_t missing(Share* s, IssuedBurst* g, cycle_t now, bint* over) noexcept nogil:
    """The carry that the flow still has to earn for its burst, in units of the carry; `over`: the flow has earned it, and has
    requested all bytes of its last burst."""
    cdef Flow* f = &s.flow[g.flow]
    cdef bint held
    cdef int64_t carry
    cdef nbytes_t requested
    if s.touch != NULL:
        s.touch(s.sim, g.flow, now)
    held = s.requester[g.flow].first_denied != NEVER
    requested = f.total - f.left + (f.requested if held else 0)
    carry = f.carry
    if f.member and not held and now > f.seen:
        carry += (now - f.seen) * f.num
    carry = (g.end - requested) * f.den - carry
    over[0] = carry <= 0 and (g.end < f.total or requested == f.total)
    return carry


cdef int32_t on_bus(Share* s, Controller* c, cycle_t now) noexcept nogil:
    """The first burst that has arrived and whose flow may use its resources; NONE if there is none."""
    cdef int32_t k
    for k in range(c.n_issued):
        if c.issued[k].at > now:
            break
        if s.flow[c.issued[k].flow].entered:
            return k
    return NONE


cdef void take_off(Controller* c, int32_t k) noexcept nogil:
    """Remove the k-th burst, which has ended."""
    cdef int32_t i
    c.n_issued -= 1
    for i in range(k, c.n_issued):
        c.issued[i] = c.issued[i + 1]


cdef int32_t end_bursts(Share* s, Controller* c, cycle_t now) noexcept nogil:
    """Remove the ended bursts from the bus, and return the burst that is on the bus next."""
    cdef int32_t k
    cdef bint over
    for k in range(c.n_issued):
        if c.issued[k].flow == c.serving:  # its burst was on the bus in the cycle before, whichever burst is on the bus now
            missing(s, &c.issued[k], now, &over)
            if over:
                take_off(c, k)
            break
    while True:
        k = on_bus(s, c, now)
        if k == NONE:
            return NONE
        missing(s, &c.issued[k], now, &over)
        if not over:
            return k
        take_off(c, k)


cdef void take_bus(Share* s, Controller* c, slot_t bus, int32_t k, cycle_t now) noexcept nogil:
    """Make the flow of the k-th burst the member of the channel; NONE: no flow."""
    cdef slot_t flow = c.issued[k].flow if k != NONE else NONE, member = s.res[bus].first
    if member != NONE:
        member = member >> s.hop_shift
    if member != flow:
        if member != NONE:
            share_leave(s, member, now)
        if flow != NONE:
            share_join(s, flow, now)
    elif flow != NONE and c.nbytes != c.issued[k].nbytes:
        share_touch(s, bus)
    c.serving = flow
    c.nbytes = c.issued[k].nbytes if k != NONE else 0


cdef void burst_share(Share* s, Devices* d, slot_t flow, cycle_t now) noexcept nogil:
    """The same as shared_bw_v1, except that the channel gives every burst the time of a whole burst."""
    cdef Flow* f = &s.flow[flow]
    cdef int64_t num = 0, den = 1, part, of
    cdef int32_t h
    cdef slot_t res
    if f.rated == now:
        return
    f.rated = now
    for h in range(f.route.length):
        res = s.path[f.route.first + h]
        if res == f.bus:
            part = d.channel[res].nbytes
            of = d.timing.burst
        else:
            part = s.res[res].num * f.weight
            of = s.res[res].den * s.res[res].weight
        if h == 0 or part * den < num * of:
            num = part
            den = of
    set_rate(s, flow, num, den, now)


cdef void look_ahead(Share* s, Controller* c, cycle_t now) noexcept nogil:
    """The earliest cycle in which the burst on the bus may end, or in which the next burst arrives."""
    cdef int32_t k = on_bus(s, c, now)
    cdef int64_t gap
    cdef bint over
    c.look_at = NEVER
    if k == NONE:
        for k in range(c.n_issued):
            if c.issued[k].at > now:
                c.look_at = c.issued[k].at
                return
        return
    gap = missing(s, &c.issued[k], now, &over)
    c.look_at = now + 1
    if gap > 0 and s.requester[c.issued[k].flow].first_denied == NEVER:
        c.look_at = now + quotient(gap - 1, s.flow[c.issued[k].flow].num) + 1


cdef void device_phase(Share* s, cycle_t now) noexcept nogil:
    """P4: handle every channel that is due, then the rates of all flows whose resources changed."""
    cdef Devices* d = <Devices*>s.devices
    cdef Controller* c
    cdef int32_t k, served
    cdef slot_t node
    if s.n_dirty == 0 and s.devices_next > now:
        return
    for k in range(d.n):
        c = &d.channel[k]
        if not s.res[k].dirty and c.command_at > now and c.look_at > now:
            continue
        c.done = now
        served = end_bursts(s, c, now)
        if now % d.timing.period == 0:
            queue_fill(s, d, k)
        controller_step(d, c, now)  # commands issued now have later arrivals, so their bursts are at the end of the list
        take_bus(s, c, k, served, now)
    for k in range(s.n_dirty):
        node = s.res[s.dirty[k]].first
        while node != NONE:
            burst_share(s, d, node >> s.hop_shift, now)
            node = s.node_next[node]
    for k in range(s.n_dirty):
        s.res[s.dirty[k]].dirty = False
    s.n_dirty = 0
    s.devices_next = NEVER
    for k in range(d.n):
        c = &d.channel[k]
        if c.done == now or (c.serving != NONE and s.flow[c.serving].rated == now):
            look_ahead(s, c, now)
        s.devices_next = min(s.devices_next, min(c.command_at, c.look_at))


cdef bint devices_still(Share* s) noexcept nogil:
    """After P4 of a cycle: no controller can do any work for a transfer until a flow enters; refreshes do not count."""
    cdef Devices* d = <Devices*>s.devices
    cdef Controller* c
    cdef int32_t k, i
    cdef slot_t flow
    for k in range(d.n):
        c = &d.channel[k]
        if c.queued and c.n_issued < d.room:
            return False
        for i in range(c.n_issued):
            if s.flow[c.issued[i].flow].entered:
                return False
        flow = s.line[k]
        while c.queued < d.depth and flow != NONE:
            if d.fetch[flow].requested < s.flow[flow].total:
                return False
            flow = s.flow[flow].line_next
    return True
