"""Continues a run from a snapshot.

The command queue is the skeleton: the issue, start and end of each entry determine which jobs wait, which transfer bytes, and which have
ended. `resume` handles the jobs in the order of their issue with the same functions that the run uses, and then sets the state of each
transfer, flow and request. Lists, heaps, counts, shares and all data that exist only for speed are made again, so a snapshot cannot
contradict them.

A snapshot may come from a file, and a file may have any content. Every field is checked against its range before it is written
(state/fields.pyx), and against the other fields before it is used (state/audit.pyx).
"""
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from kernbench_core.state.audit cimport (
    Known, check_compute, check_dma, check_entries, check_flow, check_request, check_shares, check_stall, check_start,
    check_status)
from kernbench_core.model.arbiter.grant cimport clients
from kernbench_core.model.array cimport array_drained, array_enter, array_leave
from kernbench_core.model.bank cimport Requester, Spm
from kernbench_core.model.compute cimport (
    MAX_REGIONS, Array, ArrayJob, Compute, ComputeJob, compute_complete, compute_enqueue, compute_seek, compute_start)
from kernbench_core.model.control cimport Entry
from kernbench_core.model.dma cimport DmaEngine, DmaJob, dma_complete, dma_start, dma_submit
from kernbench_core.model.dram.extent cimport Dram, channel_bytes, cursor_advance, flows_of
from kernbench_core.trace.events cimport FlowTrace
from kernbench_core.model.flow cimport settle_cursor
from kernbench_core.fast.group cimport Group
from kernbench_core.fast.group_layout cimport reset_horizons
from kernbench_core.fast.groups cimport group_enter, group_leave
from kernbench_core.model.heap cimport timer_push
from kernbench_core.state.layout cimport lay_out_traces
from kernbench_core.model.overlap cimport overlap_ended, overlap_started
from kernbench_core.model.pair cimport pair_open
from kernbench_core.model.pair_requesters cimport far_requester
from kernbench_core.model.phases cimport flow_bytes, list_requester, open_flows, open_requester
from kernbench_core.state.cache_snapshot cimport resume_write_backs
from kernbench_core.state.controller_snapshot cimport resume_controllers
from kernbench_core.state.device_snapshot cimport resume_devices
from kernbench_core.model.share.membership cimport (
    Flow, Resource, flow_next, on_resources, pace_rebuild, share_enter, share_join, share_touch)
from kernbench_core.model.sim cimport has_queued, memory_of, watch
from kernbench_core.state.reset cimport reset
from kernbench_core.state.resume_control cimport resume_control
from kernbench_core.state.snapshot cimport check_same, live_flows, visit_engines, visit_flows, visit_queue
from kernbench_core.state.fields cimport RANGE_CLIENT, SIM, Unpack, limits_of
from kernbench_core.types cimport CONTROLLER_MODEL, NEVER, NONE, OP_DMA, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t

cdef enum:
    MANY = 1 << 20            # an upper bound of the requests for one bank; the exact number is computed with the rate


cdef Group* group_of(Sim* s, int32_t engine) noexcept nogil:
    return &s.groups.group[s.groups.word[s.groups.engine_bit[engine] >> 6]]


cdef int resume_transfer(Sim* s, slot_t job, cycle_t start) except -1:
    """Restore a started transfer: its flows, and whether it is in its head latency."""
    cdef DmaJob* j = &s.dma_job[job]
    cdef int32_t k, n = 0
    flow_bytes(s, job)
    for k in range(flows_of(memory_of(s, job))):
        n += s.channel_bytes[k] > 0
    if n > s.n_free:
        raise ValueError(f"entry {j.entry}: more transfers have started on dma{j.engine} than it works on at a time")
    start += open_flows(s, job)
    j.in_head = start >= s.cycle
    if j.in_head:
        timer_push(&s.joins, start, job)
        s.dma[j.engine].free += 1
    return 0


cdef int resume_dma_job(Sim* s, Entry* e) except -1:
    """Restore a transfer that was issued: move it through its engine's queue to its state."""
    cdef DmaJob* j = &s.dma_job[e.job]
    cdef DmaEngine* d = &s.dma[j.engine]
    cdef Group* g
    dma_submit(d, s.dma_job, e.job, e.number)
    if e.start == NEVER:
        return 0
    check_start(s, e.job)
    dma_start(d, s.dma_job, e.job, e.start)
    if e.end != NEVER:
        dma_complete(d, j)
        count_bytes(s, e.job)
        return 0
    overlap_started(s, j.entry)
    g = group_of(s, j.engine)
    if s.groups.n > 1:
        group_enter(s, g)
    try:
        resume_transfer(s, e.job, e.start)
    finally:
        if s.groups.n > 1:
            group_leave(s, g)
    return 0


cdef void count_route(Sim* s, int32_t route, nbytes_t nbytes, bint write) noexcept nogil:
    """Count a finished flow in the counters of its resources."""
    cdef int32_t h
    cdef Resource* r
    for h in range(s.route[route].length):
        r = &s.share.res[s.share.path[s.route[route].first + h]]
        r.bytes += nbytes
        if write:
            r.stored += nbytes


cdef void count_bytes(Sim* s, slot_t job) noexcept nogil:
    """Count the bytes of a transfer that has ended."""
    cdef DmaJob* j = &s.dma_job[job]
    cdef Dram* m = memory_of(s, job)
    cdef int32_t k
    channel_bytes(s.channel_bytes, m, &j.extent)
    s.dma[j.engine].nbytes += j.nbytes
    for k in range(m.channels if s.caches == NULL else 0):      # else the snapshot has the bytes of each route
        if s.channel_bytes[k]:
            count_route(s, j.route + k, s.channel_bytes[k] * m.ratio_den // m.ratio_num, j.write)


cdef int resume_compute_job(Sim* s, Entry* e, Known* known) except -1:
    cdef ComputeJob* j = &s.compute_job[e.job]
    cdef Compute* c = &s.compute[j.engine]
    cdef cycle_t least
    compute_enqueue(c, s.compute_job, e.job)
    if e.start == NEVER:
        return 0
    if c.job != NONE or c.queue_first != e.job:
        raise ValueError(f"entry {j.entry}: it has started, and a job before it in the queue of its engine is not over")
    if e.start % c.period:
        raise ValueError(f"entry {j.entry}: it starts in cycle {e.start}, which is not a multiple of its engine's period")
    if c.overlaps:
        return resume_array_job(s, e)
    compute_start(c, s.compute_job, &s.spm[s.compute_spm[j.engine]], e.start)
    least = (j.init + j.body + j.finalize - 1) * c.period + 1
    if e.end == NEVER:
        overlap_started(s, j.entry)
        return 0
    if e.end - e.start < least or (c.streams == 0 and e.end - e.start > least):
        raise ValueError(f"entry {j.entry}: it took {e.end - e.start} cycles, and its work {least}")
    compute_complete(c, s.compute_job, e.end)
    known[j.engine].work += j.init + j.body + j.finalize
    return 0


cdef int resume_array_job(Sim* s, Entry* e) except -1:
    """Restore a started job of an array whose jobs overlap: move it through the array and its drain to its state."""
    cdef ComputeJob* j = &s.compute_job[e.job]
    cdef Compute* c = &s.compute[j.engine]
    cdef ArrayJob* of = &s.array_job[e.job]
    cdef cycle_t left = of.left, held = of.held, least
    end_drained(s, j.engine, e.start)
    array_enter(s, j.engine, e.start)
    compute_start(c, s.compute_job, &s.spm[s.compute_spm[j.engine]], e.start)
    overlap_started(s, j.entry)
    if left == NEVER:
        if e.end != NEVER:
            raise ValueError(f"entry {j.entry}: it has ended, and it has not left the array")
        return 0
    least = (j.init + c.body - 1) * c.period + 1
    if left - e.start < least or (c.streams == 0 and left - e.start > least):
        raise ValueError(f"entry {j.entry}: it held the array for {left - e.start} cycles, and its work {least}")
    array_leave(s, j.engine, left - 1)
    of.held = held
    return 0


cdef int end_drained(Sim* s, int32_t engine, cycle_t before) except -1:
    """End the jobs of an array that ended up to a cycle, in their order."""
    cdef Array* a = &s.array[engine]
    cdef cycle_t ends
    cdef int32_t entry
    while a.draining and s.array_job[a.drain_first].ends <= before:
        ends = s.array_job[a.drain_first].ends
        s.ends.n = 0                            # the timers of ends are set when all jobs are restored
        entry = array_drained(s, engine, ends)
        overlap_ended(s, entry)
        if s.control.entry[entry].end != ends:
            raise ValueError(f"entry {entry}: it ended in cycle {s.control.entry[entry].end}, and its results left in {ends}")
    s.ends.n = 0
    return 0


cdef int resume_jobs(Sim* s, int32_t* by_number, Known* known) except -1:
    """Restore all issued jobs, in the order of issue."""
    cdef int64_t n
    cdef int32_t k
    cdef Compute* c
    cdef Entry* e
    for n in range(s.control.submitted):
        e = &s.control.entry[by_number[n]]
        if e.op == OP_DMA:
            resume_dma_job(s, e)
        else:
            resume_compute_job(s, e, known)
    for k in range(s.n_compute):
        c = &s.compute[k]
        if c.overlaps:
            end_drained(s, k, s.cycle)
        known[k].done_at = c.done_at if c.job != NONE and c.streams == 0 else NEVER
    return 0


cdef void seek_flow(Sim* s, slot_t flow) noexcept nogil:
    """Set the cursor of a flow after its moved and requested bytes; for an open run, set the trace's cursor to its first byte."""
    cdef Flow* f = &s.share.flow[flow]
    cdef DmaJob* j = &s.dma_job[f.job]
    cdef Dram* m = memory_of(s, f.job)
    cdef Spm* p = &s.spm[s.dma_spm[j.engine]]
    cdef nbytes_t moved = f.total - f.left, step
    cdef FlowTrace* t
    while moved >= f.at.run_left and f.at.run_left:
        moved -= f.at.run_left
        cursor_advance(&f.at, m, &j.extent, f.channel, f.at.run_left)
    if s.traced and s.flow_trace[flow].requested != NEVER:
        t = &s.flow_trace[flow]
        settle_cursor(f, p)
        t.at = f.at
        t.bank = f.bank
        t.left = f.at.run_left - moved
    moved += f.requested
    while moved:
        step = min(moved, f.at.run_left)
        cursor_advance(&f.at, m, &j.extent, f.channel, step)
        moved -= step
    settle_cursor(f, p)


cdef void resume_held(Sim* s, slot_t flow, cycle_t since, cycle_t next_at) noexcept nogil:
    """The flow's request has been denied since then: hold both of its sides."""
    cdef Flow* f = &s.share.flow[flow]
    cdef DmaJob* j = &s.dma_job[f.job]
    cdef slot_t requester = flow
    cdef Spm* p
    cdef int32_t _side
    for _side in range(1 + (j.peer != NONE)):
        p = &s.spm[s.requester[requester].spm]
        s.requester[requester].next_at = next_at
        s.requester[requester].first_denied = since
        p.n_held += 1
        p.oldest = min(p.oldest, since)
        requester = far_requester(s, flow)
    s.requester[flow].rounds = MANY
    if not f.out:
        s.requester[flow].backpressure_at = since + s.spm[s.requester[flow].spm].backpressure - 1


cdef int resume_joined(Sim* s, slot_t flow) except -1:
    """A flow past its head latency, with bytes left."""
    cdef Flow* f = &s.share.flow[flow]
    cdef DmaJob* j = &s.dma_job[f.job]
    cdef Requester* a = &s.requester[flow]
    cdef cycle_t since = a.first_denied, next_at = a.next_at
    cdef bint entered = f.entered, member = f.member
    seek_flow(s, flow)
    check_request(s, flow)
    f.raw_num = f.num
    f.raw_den = f.den if f.num else 0
    pace_rebuild(f)
    f.seen = s.cycle
    f.entered = f.member = False
    open_requester(s, flow, s.dma_spm[j.engine], j.engine, (j.seq << 20) | f.channel, not j.write, NEVER)
    list_requester(s, flow)
    if j.peer != NONE:
        open_requester(s, far_requester(s, flow), j.peer, j.engine, j.seq << 20, j.write, NEVER)
        list_requester(s, far_requester(s, flow))
        pair_open(s, flow)
    if since != NEVER:
        resume_held(s, flow, since, next_at)
    else:
        s.dma[j.engine].free += 1
    if entered:
        share_enter(&s.share, flow, s.cycle)
        if member and not f.member:
            share_join(&s.share, flow, s.cycle)
    elif f.out:
        s.spm[a.spm].n_out += 1
        j.out += 1
        if s.traced and f.route.length and not s.flow_trace[flow].suspended:
            share_touch(&s.share, s.share.path[f.route.first])      # the flow left in the previous cycle, and the next P4 reports this
    else:                                       # the request was served while the flow was out: the flow enters in the next P4
        s.rejoin[s.n_rejoin] = flow
        s.n_rejoin += 1
    if since == NEVER:
        a.next_at = flow_next(f) if f.member else NEVER
        if j.peer != NONE:
            s.requester[far_requester(s, flow)].next_at = a.next_at
    return 0


cdef int resume_flow(Sim* s, slot_t flow) except -1:
    cdef Flow* f = &s.share.flow[flow]
    cdef DmaJob* j = &s.dma_job[f.job]
    check_flow(s, flow)
    if s.traced:
        s.flow_trace[flow].used = True
        s.flow_trace[flow].held = -1
        s.flow_trace[flow].entered = f.left > 0 and not j.in_head
    if j.in_head:
        return 0
    if f.left == 0:
        s.dma[j.engine].nbytes += f.total
        if s.caches == NULL:
            count_route(s, j.route + f.channel, on_resources(f, f.total), j.write)
        return 0
    j.live += 1
    return resume_joined(s, flow)


cdef int resume_flows(Sim* s, slot_t* live, int32_t n) except -1:
    cdef int32_t k
    cdef Group* g = NULL
    for k in range(n):
        g = group_of(s, s.share.flow[live[k]].engine)
        if s.groups.n > 1:
            group_enter(s, g)
        try:
            resume_flow(s, live[k])
        finally:
            if s.groups.n > 1:
                group_leave(s, g)
    return 0


cdef int resume_dma(Sim* s) except -1:
    """Restore the stalls of jobs, and the activity of each DMA engine."""
    cdef int32_t k
    for k in range(s.n_dma_jobs):
        check_stall(s, k)
        s.dma[s.dma_job[k].engine].backpressured += s.dma_job[k].out > 0
    for k in range(s.n_dma):
        check_dma(s, k)
        watch(s, k)                             # the next cycle determines its activity
    return 0


cdef int resume_compute(Sim* s, int32_t c, Known* known) except -1:
    """Restore the job of a TE or VE."""
    cdef Compute* e = &s.compute[c]
    cdef slot_t requester = s.n_flows + c
    cdef Requester* a = &s.requester[requester]
    cdef Spm* p = &s.spm[s.compute_spm[c]]
    cdef cycle_t since = a.first_denied, next_at = a.next_at, i
    cdef int32_t k
    check_compute(s, c, known)
    if e.overlaps and s.array[c].draining:
        timer_push(&s.ends, s.array_job[s.array[c].drain_first].ends - 1, s.n_compute + c)
    if e.job == NONE:
        return 0
    if e.done_at != NEVER:
        timer_push(&s.ends, e.done_at, c)
    if e.streams == 0:
        return 0
    open_requester(s, requester, s.compute_spm[c], (<int64_t>e.kind << 32) | e.id, 0, False, next_at)
    list_requester(s, requester)
    i = e.body - e.body_left
    compute_seek(e, s.compute_job, p, i)
    if since != NEVER:
        a.first_denied = since
        p.n_held += 1
        p.oldest = min(p.oldest, since)
        for k in range(e.streams if s.traced else 0):
            s.stream_trace[c * MAX_REGIONS + k].first = max(e.stream[k].at, 0)
        compute_seek(e, s.compute_job, p, i + 1)       # its request was made already
        for k in range(e.streams if s.traced else 0):
            s.stream_trace[c * MAX_REGIONS + k].last = min(e.stream[k].at, e.stream[k].nbytes)
    elif e.sparse and i and e.body_left:
        e.idle = (next_at - s.cycle) // e.period
    return 0


cdef int resume_all_compute(Sim* s, Known* known) except -1:
    cdef int32_t k
    cdef Group* g
    for k in range(s.n_compute):
        g = group_of(s, s.n_dma + k)
        if s.groups.n > 1:
            group_enter(s, g)
        try:
            resume_compute(s, k, &known[k])
        finally:
            if s.groups.n > 1:
                group_leave(s, g)
    return 0


cdef void try_all_engines(Sim* s) noexcept nogil:
    """Let the next P3 try every engine for which jobs wait."""
    cdef int32_t k, bit
    cdef Group* last = &s.groups.group[s.groups.n - 1]
    memset(s.wanted, 0, (last.word + last.words) * sizeof(uint64_t))
    for k in range(s.groups.n):
        s.groups.group[k].any_wanted = False
    s.any_wanted = False
    for k in range(s.n_dma + s.n_compute):
        if not has_queued(s, k):
            continue
        bit = s.groups.engine_bit[k]
        s.wanted[bit >> 6] |= <uint64_t>1 << (bit & 63)
        s.groups.group[s.groups.word[bit >> 6]].any_wanted = True
        s.any_wanted = s.groups.n == 1


cdef int restore(Sim* s, Unpack v, int32_t* by_number, slot_t* live, Known* known) except -1:
    cdef int32_t n
    visit_queue(s, v)
    check_status(s)
    check_entries(s, by_number)
    resume_control(s)
    resume_jobs(s, by_number, known)
    visit_engines(s, v)
    n = live_flows(s, live)
    visit_flows(s, v, live, n)
    v.end()
    resume_flows(s, live, n)
    if s.caches != NULL:
        resume_write_backs(s)
    check_shares(s, live, n)
    resume_dma(s)
    resume_all_compute(s, known)
    if s.share.devices != NULL:
        if s.share.rule == CONTROLLER_MODEL:
            resume_controllers(s, live, n)
        else:
            resume_devices(s, live, n)
    reset_horizons(s)
    try_all_engines(s)
    return 0


cdef int resume(Sim* s, Arena a, bytes image) except -1:
    """Set a run to the state in a snapshot of a run with the same machine and program. ValueError if it is not such a snapshot; the state
    of the run is then undefined until another snapshot is restored."""
    cdef Unpack v = Unpack(image)
    cdef int32_t* by_number = <int32_t*>malloc((s.control.n + 1) * sizeof(int32_t))
    cdef slot_t* live = <slot_t*>malloc((s.n_flows + 1) * sizeof(slot_t))
    cdef Known* known = <Known*>calloc(s.n_compute + 1, sizeof(Known))
    try:
        if by_number == NULL or live == NULL or known == NULL:
            raise MemoryError("no memory to take up a snapshot")
        limits_of(&v.limits, 0, s.max_cycles, s.control.n, s.share.n_res)
        v.table(&SIM, s, sizeof(Sim), 1)
        limits_of(&v.limits, s.cycle, s.max_cycles, s.control.n, s.share.n_res)
        v.limits.high[<int>RANGE_CLIENT] = clients(s) - 1
        lay_out_traces(s, a, s.traced)
        reset(s)
        restore(s, v, by_number, live, known)
        check_same(s, image)
    finally:
        free(by_number)
        free(live)
        free(known)
    return 0
