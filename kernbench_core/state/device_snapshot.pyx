"""The content of a snapshot for DRAM rows: open rows, the cycles from which commands are allowed, and the flows whose bursts wait or are in
flight.

The bursts of a flow follow from its bytes, so only the flow of each burst is saved. The cycle of the next command is computed again.
"""
from libc.stdlib cimport calloc, free

from kernbench_core.model.dram.devices cimport Burst, Controller, Devices, Fetch, IssuedBurst
from kernbench_core.model.dram.device cimport COMMANDS, Bank, DeviceTiming
from kernbench_core.model.dram.extent cimport cursor_open
from kernbench_core.model.dram.queue cimport queue_burst
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.state.fields cimport (
    BANK, BURST, CONTROLLER, DEVICE, FETCH, ISSUEDBURST, RANGE_FLOW, RANGE_FLOW_Q, RANGE_GIVEN, RANGE_LATER, RANGE_QUEUED, TIME, Unpack)
from kernbench_core.types cimport DMA_TRANSFERRING, NONE, cycle_t, int64_t, nbytes_t

cdef const cycle_t LONG_AGO = 0x10000000000      # before cycle 0: activations that did not happen (state/device_layout.pyx)


cdef cycle_t longest(DeviceTiming* t) noexcept nogil:
    """The longest time for which an issued command delays another."""
    cdef cycle_t most = max(max(t.faw, t.to_read), t.to_write)
    cdef int32_t i, k
    for i in range(COMMANDS):
        for k in range(COMMANDS):
            most = max(most, max(t.in_bank[i][k], max(t.in_group[i][k], t.in_channel[i][k])))
    return most


cdef void renumber(Controller* c, slot_t* number) noexcept nogil:
    """Replace the flow numbers: `number` has the new number of each flow."""
    cdef int32_t k
    for k in range(c.queued):
        c.queue[k].flow = number[c.queue[k].flow]
    for k in range(c.n_issued):
        c.issued[k].flow = number[c.issued[k].flow]
    if c.serving != NONE:
        c.serving = number[c.serving]


cdef void settle(Sim* s, Controller* c) noexcept nogil:
    """A finished flow no longer has the bus; the next scan of the queue updates this."""
    cdef Flow* f
    if c.serving == NONE:
        return
    f = &s.share.flow[c.serving]
    if f.left == 0 or s.dma_job[f.job].state != DMA_TRANSFERRING:
        c.serving = NONE


cdef int visit_devices(Sim* s, Visitor v, slot_t* live, int32_t n) except -1:
    """Called after the flows, which are represented by their positions in `live`."""
    cdef Devices* d = <Devices*>s.share.devices
    cdef Unpack u = v if isinstance(v, Unpack) else None
    cdef slot_t* position = NULL
    cdef int32_t k
    if u is not None:
        u.limits.low[<int>RANGE_LATER] = u.limits.also[<int>RANGE_LATER] = -LONG_AGO
        u.limits.high[<int>RANGE_LATER] = s.cycle + longest(&d.timing)
        u.limits.high[<int>RANGE_FLOW] = u.limits.high[<int>RANGE_FLOW_Q] = n - 1
        u.limits.high[<int>RANGE_QUEUED] = d.depth
        u.limits.high[<int>RANGE_GIVEN] = d.room
    for k in range(n):
        if s.share.flow[live[k]].bus != NONE:
            v.table(&FETCH, &d.fetch[live[k]], sizeof(Fetch), 1)
    position = <slot_t*>calloc(s.n_flows + 1, sizeof(slot_t))
    if position == NULL:
        raise MemoryError("no memory for a snapshot")
    try:
        for k in range(n):
            position[live[k]] = k
        for k in range(d.n):
            if u is None:
                settle(s, &d.channel[k])
                renumber(&d.channel[k], position)
            visit_channel(d, v, &d.channel[k])
            renumber(&d.channel[k], live)
    finally:
        free(position)
    return 0


cdef int64_t max_device_bytes(Sim* s) noexcept nogil:
    """[B] of flows' fetches, and of full queues and buffers."""
    cdef Devices* d = <Devices*>s.share.devices
    if d == NULL:
        return 0
    return s.n_flows * <int64_t>FETCH.nbytes + d.n * (d.depth * <int64_t>BURST.nbytes + d.room * <int64_t>ISSUEDBURST.nbytes)


cdef int visit_channel(Devices* d, Visitor v, Controller* c) except -1:
    v.table(&CONTROLLER, c, sizeof(Controller), 1)
    v.table(&DEVICE, &c.device, sizeof(c.device), 1)
    v.table(&BANK, c.device.bank, sizeof(Bank), d.timing.banks)
    v.table(&TIME, c.device.group, sizeof(cycle_t), d.timing.groups * COMMANDS)
    v.table(&BURST, c.queue, sizeof(Burst), c.queued)
    v.table(&ISSUEDBURST, c.issued, sizeof(IssuedBurst), c.n_issued)
    return 0


cdef void reset_devices(Sim* s) noexcept nogil:
    cdef Devices* d = <Devices*>s.share.devices
    cdef Controller* c
    cdef int32_t k, i
    d.scans = 0
    s.share.devices_next = s.cycle
    for k in range(s.n_flows):
        d.fetch[k].marked = 0
    for k in range(d.n):
        c = &d.channel[k]
        c.queued = c.n_issued = 0
        c.serving = NONE
        c.nbytes = 0
        c.command_at = c.look_at = s.cycle
        c.done = -1
        for i in range(d.timing.banks):
            c.device.bank[i].candidates = 0
            c.device.bank[i].oldest_row = c.device.bank[i].marked = c.device.bank[i].open_row_scan = 0


cdef int32_t waiting(Controller* c, slot_t flow) noexcept nogil:
    """The number of bursts of a flow in the queue or in the buffer."""
    cdef int32_t k, n = 0
    for k in range(c.n_issued):
        n += c.issued[k].flow == flow
    for k in range(c.queued):
        n += c.queue[k].flow == flow
    return n


cdef int resume_bursts(Sim* s, Devices* d, slot_t flow, Burst* ring, int32_t room) except -1:
    """The bursts of a flow up to the bytes that it requested: the last of them are in the buffer and in the queue."""
    cdef Flow* f = &s.share.flow[flow]
    cdef Fetch* x = &d.fetch[flow]
    cdef Controller* c = &d.channel[f.bus]
    cdef Controller walk
    cdef nbytes_t requested = x.requested
    cdef int32_t mine = waiting(c, flow), k
    cdef int64_t n = 0, at
    cdef str who = f"entry {s.dma_job[f.job].entry}, flow {f.channel}"
    if requested > f.total or (f.left == 0 and mine):
        raise ValueError(
            f"{who}: requested = {requested} bytes of bursts, {mine} of them waiting: it has {f.total} bytes, and {f.left} left")
    walk.queue = ring
    x.requested = 0
    cursor_open(&x.at, &d.memory[x.memory], &x.extent, f.channel)
    while x.requested < requested:
        walk.queued = <int32_t>(n % room)
        queue_burst(&s.share, d, &walk, flow)
        n += 1
    if x.requested != requested or n < mine:
        raise ValueError(f"{who}: requested = {requested} bytes of bursts: that is no end of a burst, or {mine} are more than there are")
    at = n - mine
    for k in range(c.n_issued):
        if c.issued[k].flow == flow:
            c.issued[k].nbytes, c.issued[k].end = ring[at % room].nbytes, ring[at % room].end
            at += 1
    for k in range(c.queued):
        if c.queue[k].flow == flow:
            c.queue[k] = ring[at % room]
            at += 1
    return 0


cdef int check_channel(Sim* s, Devices* d, int32_t bus) except -1:
    cdef Controller* c = &d.channel[bus]
    cdef cycle_t latest = s.cycle + max(d.timing.to_read, d.timing.to_write)
    cdef int32_t k
    for k in range(c.n_issued):
        if s.share.flow[c.issued[k].flow].bus != bus or c.issued[k].at >= latest:
            raise ValueError(f"DRAM channel {bus}: the burst {k} in its buffer is of another channel, or comes in cycle {c.issued[k].at}")
    for k in range(c.queued):
        if s.share.flow[c.queue[k].flow].bus != bus:
            raise ValueError(f"DRAM channel {bus}: the burst {k} in its queue is of another channel")
    if c.serving != NONE and s.share.flow[c.serving].bus != bus:
        raise ValueError(f"DRAM channel {bus}: the flow that it serves is of another channel")
    if d.timing.refi and not s.cycle // d.timing.refi - 2 <= c.refreshes <= s.cycle // d.timing.refi:
        raise ValueError(f"DRAM channel {bus}: refreshes = {c.refreshes}: one is due every {d.timing.refi} cycles, up to {s.cycle}")
    c.refresh = d.timing.refi * (c.refreshes + 1)
    return 0


cdef int resume_devices(Sim* s, slot_t* live, int32_t n) except -1:
    cdef Devices* d = <Devices*>s.share.devices
    cdef int32_t room = d.depth + d.room, k
    cdef Burst* ring = <Burst*>calloc(room, sizeof(Burst))
    if ring == NULL:
        raise MemoryError("no memory to take up a snapshot")
    try:
        for k in range(d.n):
            check_channel(s, d, k)
        for k in range(n):
            if s.share.flow[live[k]].bus != NONE:
                resume_bursts(s, d, live[k], ring, room)
    finally:
        free(ring)
    return 0
