"""The content of a snapshot for DRAM controllers: open rows, the clocks from which commands are allowed, requests, and the buffers of
flows.

Places of bursts follow from their numbers, and cursors from the queued bytes: they are computed again.
"""
from libc.stdlib cimport calloc, free

from kernbench_core.model.controller.address cimport place_burst
from kernbench_core.model.controller.buffers cimport port_update
from kernbench_core.model.controller.requests cimport Channel, Controllers, BurstSlot, Port, Request, Turn, clock_up_to
from kernbench_core.model.controller.timing cimport COMMANDS, LEVELS, RANK, WINDOW, BankState, Timing, clock_t
from kernbench_core.model.dram.extent cimport Dram, cursor_advance, cursor_open
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.state.fields cimport (
    BANKSTATE, CHANNEL, BURSTSLOT, PORT, RANGE_FLOW, RANGE_FLOW_Q, RANGE_GIVEN, RANGE_LATER, RANGE_QUEUED, REQUEST, TIME, TURN, Unpack)
from kernbench_core.types cimport NONE, cycle_t, int64_t, nbytes_t

cdef const cycle_t LONG_AGO = 0x10000000000      # before clock 0: activations that did not happen (state/controller_layout.pyx)


cdef clock_t longest(Timing* t) noexcept nogil:
    """The longest time for which an issued command delays another."""
    cdef clock_t most = max(t.faw, max(t.to_read, t.to_write) + t.burst + t.running) + t.two_part
    cdef int32_t i, k, level
    for level in range(LEVELS):
        for i in range(COMMANDS):
            for k in range(COMMANDS):
                most = max(most, max(t.gap[level][i][k], t.other[level][i][k]))
    for k in range(COMMANDS):
        most = max(most, t.clocks[k])
    return most + 2


cdef void renumber_list(Request* list_, int32_t n, slot_t* number) noexcept nogil:
    cdef int32_t k
    for k in range(n):
        if list_[k].flow != NONE:
            list_[k].flow = number[list_[k].flow]


cdef void renumber(Channel* c, slot_t* number) noexcept nogil:
    """Replace the flow numbers: `number` has the new number of each flow."""
    renumber_list(c.queue[0], c.n[0], number)
    renumber_list(c.queue[1], c.n[1], number)
    renumber_list(c.active, c.n_active, number)


cdef void settle(Sim* s, Controllers* d) noexcept nogil:
    """Bring buffers up to the run's cycle, independent of the last time that they were handled."""
    cdef int32_t k
    cdef slot_t flow
    for k in range(d.n):
        flow = s.share.line[k]
        while flow != NONE:
            port_update(&s.share, d, &d.channel[k], flow, s.cycle)
            flow = s.share.flow[flow].line_next


cdef int visit_controllers(Sim* s, Visitor v, slot_t* live, int32_t n) except -1:
    """Called after the flows, which are represented by their positions in `live`."""
    cdef Controllers* d = <Controllers*>s.share.devices
    cdef Unpack u = v if isinstance(v, Unpack) else None
    cdef slot_t* position = NULL
    cdef int32_t k
    if u is None:
        settle(s, d)
    else:
        u.limits.low[<int>RANGE_LATER] = u.limits.also[<int>RANGE_LATER] = -LONG_AGO
        u.limits.high[<int>RANGE_LATER] = max(s.cycle, clock_up_to(d, s.cycle)) + longest(&d.timing)
        u.limits.high[<int>RANGE_FLOW] = u.limits.high[<int>RANGE_FLOW_Q] = n - 1
        u.limits.high[<int>RANGE_QUEUED] = max(d.depth[0], d.depth[1])
        u.limits.high[<int>RANGE_GIVEN] = d.timing.banks
    for k in range(n):
        if s.share.flow[live[k]].bus != NONE:
            visit_port(s, d, v, live[k])
    position = <slot_t*>calloc(s.n_flows + 1, sizeof(slot_t))
    if position == NULL:
        raise MemoryError("no memory for a snapshot")
    try:
        for k in range(n):
            position[live[k]] = k
        for k in range(d.n):
            if u is None:
                renumber(&d.channel[k], position)
            try:
                visit_channel(d, v, &d.channel[k], k)
            finally:
                renumber(&d.channel[k], live)
    finally:
        free(position)
    return 0


cdef int visit_port(Sim* s, Controllers* d, Visitor v, slot_t flow) except -1:
    """The counts of a port, and the places of bursts from the first that is not free."""
    cdef Port* p = &d.port[flow]
    cdef int64_t i
    v.table(&PORT, p, sizeof(Port), 1)
    if not p.free <= p.there <= p.queued or p.queued - p.free > d.slots:
        raise ValueError(f"flow {s.share.flow[flow].channel}: {p.free} of {p.there} of {p.queued} bursts: {d.slots} places")
    for i in range(p.free, p.queued):
        v.table(&BURSTSLOT, &p.ring[i % d.slots], sizeof(BurstSlot), 1)
    return 0


cdef int64_t max_controller_bytes(Sim* s) noexcept nogil:
    """[B] of flows' buffers, and of full queues."""
    cdef Controllers* d = <Controllers*>s.share.devices
    cdef int64_t requests = d.depth[0] + d.depth[1] + d.timing.banks
    return s.n_flows * (<int64_t>PORT.nbytes + d.slots * <int64_t>BURSTSLOT.nbytes) + d.n * requests * <int64_t>REQUEST.nbytes


cdef int visit_channel(Controllers* d, Visitor v, Channel* c, int32_t number) except -1:
    cdef int32_t k
    v.table(&CHANNEL, c, sizeof(Channel), 1)
    if c.n[0] > d.depth[0] or c.n[1] > d.depth[1]:
        raise ValueError(f"DRAM channel {number}: {c.n[0]} reads and {c.n[1]} writes wait: there is room for {d.depth[0]} and {d.depth[1]}")
    v.table(&TURN, &c.turn[0], sizeof(Turn), 2)
    v.table(&BANKSTATE, c.device.bank, sizeof(BankState), d.timing.banks)
    for k in range(LEVELS):
        v.table(&TIME, c.device.ready[k], sizeof(clock_t), d.timing.nodes[k] * COMMANDS)
    v.table(&TIME, c.device.opened, sizeof(clock_t), d.timing.nodes[<int>RANK] * WINDOW)
    for k in range(2):
        v.table(&REQUEST, c.queue[k], sizeof(Request), c.n[k])
    v.table(&REQUEST, c.active, sizeof(Request), c.n_active)
    return 0


cdef void reset_controllers(Sim* s) noexcept nogil:
    cdef Controllers* d = <Controllers*>s.share.devices
    cdef Channel* c
    cdef int32_t k, i
    s.share.devices_next = s.cycle
    for k in range(d.n):
        c = &d.channel[k]
        c.n[0] = c.n[1] = c.n_active = c.whole = c.opening = 0
        c.scans = 0
        c.waits = False
        c.refreshing = NONE
        c.next_clock = clock_up_to(d, s.cycle - 1) + 1 if s.cycle else 0
        c.due = s.cycle
        c.done = -1
        for i in range(d.timing.banks):
            c.device.bank[i].active = 0
            c.device.bank[i].scan = 0


cdef int resume_port(Sim* s, Controllers* d, slot_t flow) except -1:
    """Set the cursor of a flow after its queued bytes, and the ends of its bursts."""
    cdef Flow* f = &s.share.flow[flow]
    cdef Port* p = &d.port[flow]
    cdef Dram* m = &d.memory[p.memory]
    cdef nbytes_t requested = 0, size
    cdef int64_t n = 0, address
    cdef str who = f"entry {s.dma_job[f.job].entry}, flow {f.channel}"
    cursor_open(&p.at, m, &p.extent, f.channel)
    p.limit = p.requested if p.write else 0
    p.clipped = True
    while requested < p.requested and requested < f.total:
        address = p.at.dram // m.interleave // m.channels * m.interleave + p.at.dram % m.interleave
        size = min(d.burst - address % d.burst, p.at.run_left)
        requested += size
        if n >= p.free and n < p.queued and p.ring[n % d.slots].end != requested:
            raise ValueError(f"{who}: its burst {n} ends at {p.ring[n % d.slots].end}: it follows from the rest that it is {requested}")
        n += 1
        if n == p.there and not p.write:
            p.limit = requested
        cursor_advance(&p.at, m, &p.extent, f.channel, size)
    if requested != p.requested or n != p.queued:
        raise ValueError(f"{who}: requested = {p.requested} bytes, but no sequence of {p.queued} bursts ends there")
    return 0


cdef int resume_list(Sim* s, Controllers* d, int32_t bus, Request* list_, int32_t n, bint write, bint waits) except -1:
    """Restore the requests of a channel, and check that they are possible."""
    cdef Channel* c = &d.channel[bus]
    cdef int32_t k
    cdef Request* q
    for k in range(n):
        q = &list_[k]
        place_burst(d, q)
        if waits and q.write != write:
            raise ValueError(f"DRAM channel {bus}: request {k} is in the wrong queue")
        if q.flow == NONE:
            if not q.write or not q.whole:
                raise ValueError(f"DRAM channel {bus}: request {k} is of no flow, and is no write that is whole")
        elif s.share.flow[q.flow].bus != bus or d.port[q.flow].write != q.write or not 0 <= q.seq < d.port[q.flow].queued:
            raise ValueError(f"DRAM channel {bus}: request {k} is none of its flow")
        elif not q.write and not d.port[q.flow].there <= q.seq:
            raise ValueError(f"DRAM channel {bus}: request {k} is there already")
        if not waits:
            if not q.whole:
                raise ValueError(f"DRAM channel {bus}: request {k} is active, and not whole")
            c.device.bank[q.bank].active += 1
        elif q.write:
            c.whole += q.whole
        elif not q.whole:
            raise ValueError(f"DRAM channel {bus}: request {k} is a read that is not whole")
    return 0


cdef int resume_channel(Sim* s, Controllers* d, int32_t bus) except -1:
    cdef Channel* c = &d.channel[bus]
    cdef int32_t k, n
    cdef BankState* b
    resume_list(s, d, bus, c.queue[0], c.n[0], False, True)
    resume_list(s, d, bus, c.queue[1], c.n[1], True, True)
    resume_list(s, d, bus, c.active, c.n_active, False, False)
    for k in range(d.timing.banks):
        b = &c.device.bank[k]
        if b.active > 1 or (b.opening and (not b.active or b.row != NONE)):
            raise ValueError(f"DRAM channel {bus}: bank {k} has {b.active} active requests")
        c.opening += b.opening
    for k in range(c.n_active):
        b = &c.device.bank[c.active[k].bank]
        if not b.opening and b.row != c.active[k].row:
            raise ValueError(f"DRAM channel {bus}: request {k} is active, and its row is not open")
    if c.cas:
        n = c.n_active if c.cas_list == 2 else c.n[c.cas_list] if c.cas_list < 2 else 0
        if c.cas_index >= n:
            raise ValueError(f"DRAM channel {bus}: a CAS was given for request {c.cas_index} of {n}")
    if c.pair_pseudo < 0 or c.pair_bank >= d.timing.banks:
        raise ValueError(f"DRAM channel {bus}: pair_bank = {c.pair_bank}, pair_pseudo = {c.pair_pseudo}")
    return 0


cdef int resume_controllers(Sim* s, slot_t* live, int32_t n) except -1:
    cdef Controllers* d = <Controllers*>s.share.devices
    cdef int32_t k
    for k in range(n):
        if s.share.flow[live[k]].bus != NONE:
            resume_port(s, d, live[k])
    for k in range(d.n):
        resume_channel(s, d, k)
    return 0
