"""Which burst is queued next, and which command is given: docs/model/dram_rows.md, R4 to R7.

A channel gives at most one column command (RD, WR) and one row command (ACT, PRE, REF) in a DRAM clock.
"""
from libc.string cimport memmove

from kernbench_core.model.dram.extent cimport cursor_advance
from kernbench_core.model.dram.device cimport (
    ACT, PRE, RD, REF, WR, Bank, device_closable, device_close, device_give, device_ready, device_refresh)
from kernbench_core.model.share.membership cimport Flow, share_touch
from kernbench_core.types cimport NEVER, NONE, cycle_t, int32_t, int64_t, slot_t


cdef int32_t order_of(Controller* c, Flow* f) noexcept nogil:
    """Below 0, 0 or above 0: the flow's transfer comes before the one that queued last, is it, or comes behind."""
    if f.started != c.turn_started:
        return 1 if f.started > c.turn_started else -1
    if f.engine != c.turn_engine:
        return 1 if f.engine > c.turn_engine else -1
    if f.job_seq != c.turn_seq:
        return 1 if f.job_seq > c.turn_seq else -1
    return 0


cdef slot_t next_turn(Share* s, Devices* d, Controller* c, slot_t bus) noexcept nogil:
    """The flow that queues a burst: in turn, `weight` bursts each."""
    cdef slot_t flow = s.line[bus], first = NONE, behind = NONE
    cdef int32_t order
    while flow != NONE:
        if d.fetch[flow].asked < s.flow[flow].total:
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
    """The flow's next bytes, up to the end of their burst, go to the end of the queue."""
    cdef Fetch* x = &d.fetch[flow]
    cdef Dram* m = &d.memory[x.memory]
    cdef Burst* q = &c.queue[c.queued]
    cdef int64_t number = (x.at.dram // m.interleave // m.channels * m.interleave + x.at.dram % m.interleave) // d.burst
    cdef int32_t groups = d.timing.groups, each = d.timing.banks // d.timing.groups
    q.flow = flow
    q.write = x.write
    q.nbytes = min(d.burst - x.at.dram % d.burst, x.at.run_left)
    q.bank = <int32_t>(number % groups) * each          # neighbours lie in different groups,
    number = number // groups // d.columns              # a row of each side by side,
    q.bank += <int32_t>(number % each)                  # and behind them the next banks
    q.row = number // each
    x.asked += q.nbytes
    q.end = x.asked
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


cdef void look(Devices* d, Controller* c) noexcept nogil:
    """What each burst in the queue may do now, times apart."""
    cdef int32_t k
    cdef Burst* q
    cdef Bank* b
    d.looks += 1
    for k in range(c.queued):
        q = &c.queue[k]
        b = &c.device.bank[q.bank]
        q.leads = b.seen != d.looks
        if q.leads:
            b.seen = d.looks
            b.wanted = q.row
            b.hits = 0
        q.hit = d.fetch[q.flow].seen != d.looks and b.row == q.row and (b.wanted == q.row or b.passed < d.batch)
        d.fetch[q.flow].seen = d.looks
        b.hits += q.hit


cdef void give_burst(Devices* d, Controller* c, int32_t k, cycle_t now) noexcept nogil:
    cdef Burst* q = &c.queue[k]
    cdef Given* g = &c.given[c.n_given]
    device_give(&c.device, &d.timing, q.bank, WR if q.write else RD, now)
    if q.write != c.writes:
        c.writes = q.write
        c.streak = 0
    c.streak += 1
    c.device.bank[q.bank].passed += c.device.bank[q.bank].wanted != q.row
    g.flow = q.flow
    g.nbytes = q.nbytes
    g.end = q.end
    g.at = now + (d.timing.to_write if q.write else d.timing.to_read)
    c.n_given += 1
    c.bursts += 1
    c.queued -= 1
    memmove(q, q + 1, (c.queued - k) * sizeof(Burst))


cdef cycle_t column_turn(Devices* d, Controller* c, cycle_t now) noexcept nogil:
    """Give a RD or WR: `now`; else the cycle from which on one may be given."""
    cdef int32_t k
    cdef bint reads = False, writes = False, way = c.writes
    cdef cycle_t at, soonest = NEVER
    if c.n_given == d.room:
        return NEVER
    for k in range(c.queued):
        if c.queue[k].hit:
            if c.queue[k].write:
                writes = True
            else:
                reads = True
    if reads and writes:
        way = not way if c.streak >= d.batch else way
    else:
        way = writes
    for k in range(c.queued):
        if not c.queue[k].hit or c.queue[k].write != way:
            continue
        at = device_ready(&c.device, &d.timing, c.queue[k].bank, WR if way else RD)
        if at <= now:
            give_burst(d, c, k, now)
            return now
        soonest = min(soonest, at)
    return soonest


cdef cycle_t row_turn(Devices* d, Controller* c, cycle_t now) noexcept nogil:
    """Open a row for the oldest burst of a bank, or close the one in its way: `now`; else when that may be done."""
    cdef int32_t k, command
    cdef Burst* q
    cdef Bank* b
    cdef cycle_t at, soonest = NEVER
    for k in range(c.queued):
        q = &c.queue[k]
        b = &c.device.bank[q.bank]
        if not q.leads or b.row == q.row or b.hits:
            continue
        command = ACT if b.row == NONE else PRE
        at = device_ready(&c.device, &d.timing, q.bank, command)
        if at <= now:
            device_give(&c.device, &d.timing, q.bank, command, now)
            if command == ACT:
                b.row = q.row
                b.passed = 0
                c.activations += 1
            return now
        soonest = min(soonest, at)
    return soonest


cdef cycle_t refresh_turn(Devices* d, Controller* c, cycle_t now) noexcept nogil:
    """A refresh is due: close all banks, then refresh; `now`, or when the next of these may be done."""
    cdef bint closed
    cdef cycle_t at = device_closable(&c.device, &d.timing, &closed)
    if closed:
        at = c.device.ready[REF]
    if at > now:
        return at
    if closed:
        device_refresh(&c.device, &d.timing, now)
        c.refresh += d.timing.refi
        c.refreshes += 1
    else:
        device_close(&c.device, &d.timing, now)
    return now


cdef void queue_turn(Devices* d, Controller* c, cycle_t now) noexcept nogil:
    """Give what can be given in this cycle, and find the next in which something can."""
    cdef cycle_t column, row = NEVER, refi = d.timing.refi
    if now % d.timing.period:
        c.command_at = (now // d.timing.period + 1) * d.timing.period
        return
    if refi and c.refresh <= now:
        column = refresh_turn(d, c, now)
    else:
        look(d, c)
        column = column_turn(d, c, now)
        if column == now:
            look(d, c)
        row = row_turn(d, c, now)
        if refi:
            column = min(column, c.refresh) if column != now else now
    c.command_at = now + d.timing.period if column == now or row == now else min(column, row)


cdef void queue_forget(Share* s, slot_t flow) noexcept nogil:
    """A flow's last byte has moved: its bursts that are left here are dropped. It may be out for backpressure, and nothing else
    wakes the controller then."""
    cdef Devices* d = <Devices*>s.devices
    cdef Controller* c = &d.channel[s.flow[flow].bus]
    cdef int32_t k, n = 0, before = c.n_given + c.queued
    for k in range(c.n_given):
        if c.given[k].flow != flow:
            c.given[n] = c.given[k]
            n += 1
    c.n_given = n
    n = 0
    for k in range(c.queued):
        if c.queue[k].flow != flow:
            c.queue[n] = c.queue[k]
            n += 1
    c.queued = n
    if c.n_given + c.queued != before:
        share_touch(s, s.flow[flow].bus)
