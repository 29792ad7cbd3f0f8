"""The next burst to queue: docs/model/dram_rows.md, R1 and R4."""
from kernbench_core.model.dram.devices cimport Burst, Controller, Devices, Fetch
from kernbench_core.model.dram.extent cimport Dram, cursor_advance
from kernbench_core.model.dram.map.address_map cimport ADDRESS_MAPS
from kernbench_core.model.share.membership cimport Flow, Share, share_touch
from kernbench_core.types cimport NONE, int32_t, int64_t, slot_t


cdef int32_t order_of(Controller* c, Flow* f) noexcept nogil:
    """Compare the flow's transfer with the transfer that queued last: negative: before it; 0: the same; positive: after it."""
    if f.started != c.turn_started:
        return 1 if f.started > c.turn_started else -1
    if f.engine != c.turn_engine:
        return 1 if f.engine > c.turn_engine else -1
    if f.job_seq != c.turn_seq:
        return 1 if f.job_seq > c.turn_seq else -1
    return 0


cdef slot_t next_turn(Share* s, Devices* d, Controller* c, slot_t bus) noexcept nogil:
    """The flow that queues the next burst: flows take turns, with `weight` bursts in each turn."""
    cdef slot_t flow = s.line[bus], first = NONE, behind = NONE
    cdef int32_t order
    while flow != NONE:
        if d.fetch[flow].requested < s.flow[flow].total:
            order = order_of(c, &s.flow[flow])
            if order == 0 and c.turn_left:
                return flow
            if first == NONE:
                first = flow
            if behind == NONE and order > 0:
                behind = flow
        flow = s.flow[flow].line_next
    return behind if behind != NONE else first


cdef void queue_burst(Share* s, Devices* d, Controller* c, slot_t flow) noexcept nogil:
    """Append the flow's next bytes, up to the end of their burst, to the queue."""
    cdef Fetch* x = &d.fetch[flow]
    cdef Dram* m = &d.memory[x.memory]
    cdef Burst* q = &c.queue[c.queued]
    cdef int64_t number = (x.at.dram // m.interleave // m.channels * m.interleave + x.at.dram % m.interleave) // d.burst
    q.flow = flow
    q.write = x.write
    q.nbytes = min(d.burst - x.at.dram % d.burst, x.at.run_left)
    ADDRESS_MAPS[d.map].locate(d, q, number)
    x.requested += q.nbytes
    q.end = x.requested
    cursor_advance(&x.at, m, &x.extent, s.flow[flow].channel, q.nbytes)
    c.queued += 1


cdef void queue_fill(Share* s, Devices* d, slot_t bus) noexcept nogil:
    """Fill the queue of a channel."""
    cdef Controller* c = &d.channel[bus]
    cdef slot_t flow
    cdef Flow* f
    while c.queued < d.depth:
        flow = next_turn(s, d, c, bus)
        if flow == NONE:
            return
        f = &s.flow[flow]
        if c.turn_left and order_of(c, f) == 0:
            c.turn_left -= 1
        else:
            c.turn_left = f.weight - 1
            c.turn_started = f.started
            c.turn_engine = f.engine
            c.turn_seq = f.job_seq
        queue_burst(s, d, c, flow)


cdef void queue_forget(Share* s, slot_t flow) noexcept nogil:
    """Remove the queued bursts of a flow whose last byte has moved. The flow may be out for backpressure, and then nothing else
    wakes the controller."""
    cdef Devices* d = <Devices*>s.devices
    cdef Controller* c = &d.channel[s.flow[flow].bus]
    cdef int32_t k, n = 0, before = c.n_issued + c.queued
    for k in range(c.n_issued):
        if c.issued[k].flow != flow:
            c.issued[n] = c.issued[k]
            n += 1
    c.n_issued = n
    n = 0
    for k in range(c.queued):
        if c.queue[k].flow != flow:
            c.queue[n] = c.queue[k]
            n += 1
    c.queued = n
    if c.n_issued + c.queued != before:
        share_touch(s, s.flow[flow].bus)
