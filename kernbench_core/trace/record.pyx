"""Records the events of jobs, transfers and flows. docs/model/traces.md defines the cycle, phase and position of each event."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.compute cimport Compute, ComputeJob
from kernbench_core.model.control cimport Entry
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.trace.events cimport (
    MISSING, REC_BACK_END, REC_BACK_START, REC_CONTROL, REC_CPU_END, REC_CPU_START, REC_EMIT,
    REC_END, REC_ENQUEUE, REC_FLITS, REC_ISSUE, REC_JOIN,
    REC_JOIN_LINK, REC_LEAVE, REC_LEAVE_LINK, REC_LOOKUP, REC_OVERLAP,
    REC_RESUME, REC_RETURN, REC_STALL, REC_START, REC_SUSPEND, TRACE_FULL,
    Event, FlowTrace,
    emit, late)
from kernbench_core.model.noc.interface cimport Interface
from kernbench_core.model.noc.routers cimport WAITS
from kernbench_core.model.share.membership cimport Flow, on_resources
from kernbench_core.model.sim cimport flow_channel
from kernbench_core.types cimport (
    COMPONENT, CONTROL, DMA, MEMORY, NEVER, NONE, OP_COMPONENT, OP_COMPUTE, OP_DMA, PRIORITY_DEFERRED, QUEUE_FULL, int64_t)

cdef struct OrderKey:            # position of a job in the order of a cycle
    int32_t kind
    int32_t engine
    int64_t job


cdef OrderKey order_key_of(Sim* s, int32_t entry) noexcept nogil:
    cdef Entry* e = &s.control.entry[entry]
    cdef OrderKey p
    p.job = e.number
    if e.op == OP_DMA:
        p.kind = DMA
        p.engine = s.dma_job[e.job].engine
    elif e.op == OP_COMPONENT:
        p.kind = COMPONENT
        p.engine = s.n_dma + s.n_compute        # behind M_CPUs
    else:
        p.kind = s.compute[s.compute_job[e.job].engine].kind
        p.engine = s.compute[s.compute_job[e.job].engine].id
    return p


cdef void record_issue(Sim* s, int32_t entry) noexcept nogil:
    """P2: record that a job is issued, or that a control entry has completed."""
    cdef Entry* e = &s.control.entry[entry]
    cdef bint job = e.op == OP_DMA or e.op == OP_COMPUTE or e.op == OP_COMPONENT
    cdef Event* r
    s.issued += 1
    r = emit(s.trace, REC_ISSUE if job else REC_CONTROL, e.issue, 2, CONTROL, 0, s.issued, -1, 20 if job else 11, entry)
    if r:
        r.v[0] = e.number


cdef void record_arrival(Sim* s, int32_t entry) noexcept nogil:
    """P2: record that an entry that the host wrote arrives in the queue, before entries are issued."""
    emit(s.trace, REC_ENQUEUE, s.control.mmio.arrival[entry], 2, CONTROL, 0, 0, -1, 10, entry)


cdef void record_submit(Sim* s, int32_t entry) noexcept nogil:
    """Record that a component has submitted a job that is described as a command."""
    cdef Event* r = emit(s.trace, REC_ENQUEUE, s.control.entry[entry].issue, 2, CONTROL, 0, s.issued + 1, -1, 10, entry)
    if r:
        record_issue(s, entry)


cdef void record_service(Sim* s, Event* r, slot_t job) noexcept nogil:
    """The cycles of the body and of the whole job; without a load that was hidden before its start."""
    cdef ComputeJob* j = &s.compute_job[job]
    cdef Compute* e = &s.compute[j.engine]
    r.v[1] = j.body
    if e.overlaps:
        r.v[1] += s.array_job[job].drain - e.outside
    r.v[2] = j.init + r.v[1] + j.finalize


cdef void record_start(Sim* s, int32_t entry, cycle_t now) noexcept nogil:
    cdef OrderKey p = order_key_of(s, entry)
    cdef Event* r = emit(s.trace, REC_START + p.kind if p.kind < 3 else REC_CPU_START, now, 3, p.kind, p.engine, p.job, -1, 11, entry)
    cdef Compute* e
    if r:
        r.v[0] = p.job
        if s.control.entry[entry].op == OP_DMA:
            r.v[1] = s.dma_job[s.control.entry[entry].job].head
        elif s.control.entry[entry].op == OP_COMPUTE:
            record_service(s, r, s.control.entry[entry].job)
    if s.control.entry[entry].op == OP_COMPUTE:
        e = &s.compute[s.compute_job[s.control.entry[entry].job].engine]
        e.conflict_before = e.conflict
    if s.overlap and entry < s.control.n and s.overlap_with[entry] != NONE:
        r = emit(s.trace, REC_OVERLAP, now, 7, p.kind, p.engine, p.job, -1, 101, entry)
        if r:
            r.v[0] = p.job
            r.v[1] = s.overlap_with[entry]


cdef void record_end(Sim* s, int32_t entry, cycle_t end) noexcept nogil:
    cdef Entry* e = &s.control.entry[entry]
    cdef OrderKey p = order_key_of(s, entry)
    cdef Event* r = emit(s.trace, REC_END + p.kind if p.kind < 3 else REC_CPU_END, end, 0, p.kind, p.engine, p.job, -1, 12, entry)
    cdef Compute* c
    if not r:
        return
    r.v[0] = p.job
    r.v[1] = end - e.issue
    r.v[2] = end - e.start
    r.v[3] = e.start
    r.v[5] = end
    r.v[4] = 0
    if e.op == OP_COMPUTE:
        c = &s.compute[s.compute_job[e.job].engine]
        r.v[4] = s.array_job[e.job].held if c.overlaps else c.conflict - c.conflict_before


cdef void emit_stall(Sim* s, DmaJob* j, int32_t phase, int64_t by_job, int32_t place, int32_t channel, cycle_t now) noexcept nogil:
    cdef Event* r = emit(s.trace, REC_STALL, now, phase, DMA, j.engine, j.seq, place, 112, j.entry)
    if r:
        r.v[0] = j.seq
        r.v[1] = j.reason
        r.v[2] = channel if channel >= 0 else MISSING
        r.v[3] = MISSING
        r.v[4] = by_job


cdef void emit_resume(Sim* s, DmaJob* j, int32_t phase, int32_t place, int32_t channel, cycle_t now) noexcept nogil:
    cdef Event* r = emit(s.trace, REC_RESUME, now, phase, DMA, j.engine, j.seq, place, 113, j.entry)
    if r:
        r.v[0] = j.seq
        r.v[1] = j.reason
        r.v[2] = now - j.stalled_at
        r.v[3] = channel if channel >= 0 else MISSING
        if phase == 6:
            late(r)                             # after the RESUME_EVENT of a held request


cdef int64_t longest_running(Sim* s, DmaJob* j) noexcept nogil:
    """The oldest running transfer of the job's channel."""
    cdef slot_t flow
    cdef DmaJob* other
    cdef DmaJob* found = NULL
    for flow in range(s.n_flows):
        if s.flow_trace[flow].used:
            other = &s.dma_job[s.share.flow[flow].job]
            if other.engine == j.engine and other.channel == j.channel and (
                    found == NULL or other.started < found.started or (other.started == found.started and other.seq < found.seq)):
                found = other
    return found.seq if found else MISSING


cdef void record_queue_stall(Sim* s, slot_t job, cycle_t now) noexcept nogil:
    """P3: record that a stall episode `queue_full` or `priority_deferred` begins."""
    cdef DmaJob* j = &s.dma_job[job]
    cdef int64_t by_job = longest_running(s, j) if j.reason == QUEUE_FULL else s.dma[j.engine].last_started
    emit_stall(s, j, 3, by_job, -1, j.channel, now)


cdef void record_queue_resume(Sim* s, slot_t job, cycle_t now) noexcept nogil:
    """P3: record the end of a stall episode when the job starts; the episode is still open."""
    cdef DmaJob* j = &s.dma_job[job]
    if j.reason == QUEUE_FULL or j.reason == PRIORITY_DEFERRED:
        emit_resume(s, j, 3, -1, j.channel, now)


cdef void record_press(Sim* s, slot_t job, int32_t channel, cycle_t now) noexcept nogil:
    """P7: record that the first flow of a job leaves its resources. If several flows leave in one cycle, the caller passes the lowest
    channel."""
    cdef DmaJob* j = &s.dma_job[job]
    j.pressed_channel = channel
    emit_stall(s, j, 7, MISSING, channel, channel, now)


cdef void record_unpress(Sim* s, slot_t job, cycle_t now) noexcept nogil:
    """P6: record that the last of these flows is served; the stall episode is still open."""
    emit_resume(s, &s.dma_job[job], 6, s.dma_job[job].pressed_channel, s.dma_job[job].pressed_channel, now)


cdef void record_lookup(Sim* s, slot_t job, Cache* before, cycle_t now) noexcept nogil:
    """P3: record the cache lookups of a starting transfer. `before`: the cache's counters before the lookups."""
    cdef DmaJob* j = &s.dma_job[job]
    cdef Cache* c = &s.caches.cache[s.memory[j.memory].cache]
    cdef Event* r = emit(s.trace, REC_LOOKUP, now, 3, DMA, j.engine, j.seq, -1, 32, j.entry)
    if r:
        r.v[0] = j.seq
        r.v[1] = c.hits - before.hits
        r.v[2] = c.misses - before.misses
        r.v[3] = c.hit_bytes - before.hit_bytes
        r.v[4] = c.miss_bytes - before.miss_bytes
        r.v[5] = c.evictions - before.evictions
        r.v[6] = c.write_backs - before.write_backs


cdef void record_open(Sim* s, slot_t flow) noexcept nogil:
    """P3: open the trace data of a flow of a starting transfer."""
    cdef FlowTrace* t = &s.flow_trace[flow]
    t.used = True
    t.held = -1
    t.entered = False
    t.suspended = False
    t.requested = NEVER


cdef void record_enter(Sim* s, slot_t flow, cycle_t now) noexcept nogil:
    """P4: record that a flow enters its resources after the head latency."""
    cdef Flow* f = &s.share.flow[flow]
    cdef DmaJob* j = &s.dma_job[f.job]
    cdef int32_t h, res, channel = flow_channel(s, f)
    cdef Event* r
    s.flow_trace[flow].entered = True
    if s.trace.level < TRACE_FULL:
        return
    r = emit(s.trace, REC_JOIN, now, 4, DMA, j.engine, j.seq, channel, 70, j.entry) if channel >= 0 else NULL
    if r:
        r.v[0] = j.seq
        r.v[1] = channel
        r.v[2] = on_resources(f, f.total)
        r.v[3] = f.weight
    for h in range(f.route.length + f.route.more):
        res = s.share.path[f.route.first + h]
        if res >= s.share.channels and res != channel:
            r = emit(s.trace, REC_JOIN_LINK, now, 4, DMA, j.engine, j.seq, channel, 80, j.entry)
            if r:
                r.v[0] = j.seq
                r.v[1] = max(channel, 0)
                r.v[2] = res - s.share.channels
                r.v[3] = on_resources(f, f.total)


cdef void record_member(Sim* s, slot_t flow, cycle_t now) noexcept nogil:
    cdef FlowTrace* t = &s.flow_trace[flow]
    cdef Flow* f = &s.share.flow[flow]
    cdef Event* r
    t.suspended = not t.suspended
    r = emit(s.trace, REC_SUSPEND if t.suspended else REC_RETURN, now, 4, DMA, f.engine, f.job_seq, flow_channel(s, f),
             72 if t.suspended else 73, s.dma_job[f.job].entry)
    if r:
        r.v[0] = f.job_seq
        r.v[1] = flow_channel(s, f)
        r.v[2] = 0 if f.out else 1 if f.entered or s.noc == NULL else 2


cdef void record_members(Sim* s, cycle_t now) noexcept nogil:
    """The end of P4: record the flows that stopped or started being members again."""
    cdef int32_t i, k
    cdef slot_t requester
    cdef Spm* p
    if s.caches != NULL:
        record_write_backs(s, now)
    if s.trace.level < TRACE_FULL:
        return
    for k in range(s.share.channels if s.share.queues else 0):          # flows that wait are in no scratchpad's order
        requester = s.share.line[k]
        while requester != NONE:
            if s.requester[requester].spm != NONE and not s.share.flow[requester].member and not s.flow_trace[requester].suspended:
                record_member(s, requester, now)
            requester = s.share.flow[requester].line_next
    for i in range(s.n_member):
        p = &s.spm[s.member[i]]
        for k in range(p.n_order):
            requester = p.order[k]
            if requester >= s.n_flows or flow_channel(s, &s.share.flow[requester]) < 0:
                continue
            if s.share.flow[requester].member == s.flow_trace[requester].suspended:
                record_member(s, requester, now)


cdef void record_write_backs(Sim* s, cycle_t now) noexcept nogil:
    """The end of P4: record the queues of write-backs that became members of their resources, or stopped being members."""
    cdef int32_t k
    cdef bint member
    cdef Event* r
    for k in range(s.share.channels):
        member = s.share.flow[s.caches.first + k].member
        if member == s.caches.queue[k].told:
            continue
        s.caches.queue[k].told = member
        if s.trace.level < TRACE_FULL:
            continue
        r = emit(s.trace, REC_BACK_START if member else REC_BACK_END, now, 4, MEMORY, 0, 0, k, 74 if member else 75, NONE)
        if r:
            r.v[1] = k


cdef void record_flits(Sim* s, slot_t flow, cycle_t end) noexcept nogil:
    """Record how many flits of a flow moved and waited in routers."""
    cdef Flow* f = &s.share.flow[flow]
    cdef Interface* i = &s.noc.at[flow]
    cdef Event* r = emit(s.trace, REC_FLITS, end, 0, DMA, f.engine, f.job_seq, flow_channel(s, f), 82, s.dma_job[f.job].entry)
    cdef int32_t k
    if not r:
        return
    r.v[0] = f.job_seq
    r.v[1] = max(flow_channel(s, f), 0)
    r.v[2] = i.packets
    r.v[3] = i.travel
    r.v[4] = i.alone
    for k in range(WAITS):
        r.v[5 + k] = i.waits[k]


cdef void record_leave(Sim* s, slot_t flow, cycle_t end) noexcept nogil:
    """P7 of the previous cycle: record that the flow's last byte has moved."""
    cdef Flow* f = &s.share.flow[flow]
    cdef int32_t h, res, channel = flow_channel(s, f)
    cdef Event* r
    s.flow_trace[flow].entered = False
    if s.trace.level < TRACE_FULL:
        return
    r = emit(s.trace, REC_LEAVE, end, 0, DMA, f.engine, f.job_seq, channel, 71, s.dma_job[f.job].entry) if channel >= 0 else NULL
    if r:
        r.v[0] = f.job_seq
        r.v[1] = channel
        r.v[2] = on_resources(f, f.total)
    if s.noc != NULL:
        record_flits(s, flow, end)
    for h in range(f.route.length + f.route.more):
        res = s.share.path[f.route.first + h]
        if res >= s.share.channels and res != channel:
            r = emit(s.trace, REC_LEAVE_LINK, end, 0, DMA, f.engine, f.job_seq, channel, 81, s.dma_job[f.job].entry)
            if r:
                r.v[0] = f.job_seq
                r.v[1] = max(channel, 0)
                r.v[2] = res - s.share.channels


cdef void record_emit(Sim* s, int32_t entry, cycle_t now, int32_t name, int64_t value) noexcept nogil:
    """Record an event that a component emitted for a job that it works on or has submitted, not before the issue of the job."""
    cdef OrderKey p = order_key_of(s, entry)
    cdef bint new = entry > s.control.n and s.control.entry[entry].issue == now
    cdef Event* r
    if new:
        r = emit(s.trace, REC_EMIT, now, 2, CONTROL, 0, s.issued, -1, 92, entry)
    else:
        r = emit(s.trace, REC_EMIT, now, 0, p.kind, p.engine, p.job, -1, 92, entry)
    if r:
        r.v[0] = name
        r.v[1] = value
