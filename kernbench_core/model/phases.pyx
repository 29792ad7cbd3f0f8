"""P3, P4 and P7: jobs start, flows join and leave, work completes."""
from libc.string cimport memset

from kernbench_core.model.array cimport array_drained, array_enter, array_leave
from kernbench_core.model.bank cimport Requester, order_insert, order_remove
from kernbench_core.model.cache_flows cimport cache_look_up, cache_release, caches_find_next
from kernbench_core.model.compute cimport Compute, compute_complete, compute_enqueue, compute_start
from kernbench_core.plugin.component cimport component_members, component_offer, component_takes
from kernbench_core.model.control cimport ARRIVED, Entry
from kernbench_core.model.dma cimport (
    DmaEngine, DmaJob, dma_begin_admission, dma_complete, dma_defer, dma_pick_comm, dma_stall, dma_start, dma_submit)
from kernbench_core.model.dma_arbiter cimport dma_pick
from kernbench_core.model.dram.extent cimport Dram, channel_bytes, cursor_open, flows_of, source_bytes
from kernbench_core.model.flow cimport settle_cursor
from kernbench_core.model.heap cimport timer_pop, timer_push
from kernbench_core.model.entry cimport entry_ended, entry_started
from kernbench_core.model.noc.sides cimport is_full
from kernbench_core.model.noc.transfers cimport interface_close, interface_join, interface_open
from kernbench_core.model.overlap cimport overlap_allows
from kernbench_core.model.pair cimport pair_close, pair_open
from kernbench_core.model.pair_requesters cimport far_requester
from kernbench_core.model.perturbed cimport grant_key, more_latency
from kernbench_core.trace.record cimport (
    record_arrival, record_enter, record_issue, record_leave, record_members, record_open, record_press, record_queue_resume,
    record_queue_stall)
from kernbench_core.model.dram.models cimport dram_close, dram_open, dram_phase
from kernbench_core.model.share.membership cimport Flow, on_resources, share_enter, share_quit, waits_in_line
from kernbench_core.model.share.rules cimport share_rates
from kernbench_core.model.shuffle cimport shuffle
from kernbench_core.model.sim cimport Sim, flow_channel, has_queued, memory_of, scratchpad_changes, want, watch
from kernbench_core.types cimport (
    BACKPRESSURE, CHANNELS, NEVER, NONE, OP_DMA, PRIORITY_DEFERRED, QUEUE_FULL, RUNNING, cycle_t, int32_t, int64_t, nbytes_t, slot_t,
    uint64_t)

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t v) noexcept nogil


cdef void submit_entry(void* sim, int32_t entry, int64_t seq) noexcept nogil:
    """P2 issued an entry: append its job to the queue of its engine. With ARRIVED, the entry has only arrived in the command
    queue."""
    cdef Sim* s = <Sim*>sim
    cdef Entry* e = &s.control.entry[entry]
    cdef int32_t engine, group
    if s.trace != NULL:
        if seq == ARRIVED:
            record_arrival(s, entry)
        else:
            record_issue(s, entry)
    if seq < 0:
        return
    if e.op == OP_DMA:
        engine = s.dma_job[e.job].engine
        dma_submit(&s.dma[engine], s.dma_job, e.job, seq)
    else:
        engine = s.compute_job[e.job].engine
        compute_enqueue(&s.compute[engine], s.compute_job, e.job)
        engine += s.n_dma
    want(s, engine)
    if s.groups.n > 1:                          # no group is being run
        group = s.groups.word[s.groups.engine_bit[engine] >> 6]
        s.groups.group[group].any_wanted = True
        s.groups.at[group] = 0


cdef void open_requester(
        Sim* s, slot_t requester, int32_t spm, int64_t key_engine, int64_t key_seq, bint writes, cycle_t next_at) noexcept nogil:
    """Describe a requester that is not listed yet."""
    cdef Requester* a = &s.requester[requester]
    a.spm = spm
    s.tie_break[requester].engine = key_engine
    s.tie_break[requester].seq = key_seq
    a.next_at = next_at
    a.ends_at = 0
    a.first_denied = NEVER
    a.backpressure_at = NEVER
    a.to_writes = writes and s.spm[spm].split
    a.paired = a.listed = False
    a.rounds = 1                                # the requester of a TE or VE that has priority once in this number of cycles


cdef void list_requester(Sim* s, slot_t requester) noexcept nogil:
    """From now on, the requester may make requests."""
    s.requester[requester].listed = True
    order_insert(&s.spm[s.requester[requester].spm], s.tie_break, requester)


cdef void describe_flow(Sim* s, Flow* f) noexcept nogil:
    """Set the fields of a flow that follow from its job and channel."""
    cdef DmaJob* j = &s.dma_job[f.job]
    cdef Dram* m = &s.memory[j.memory]
    f.line = s.spm[s.dma_spm[j.engine]].line
    f.row = s.spm[s.dma_spm[j.engine]].row
    f.weight = s.dma[j.engine].limit[j.channel].weight
    f.compressed = m.ratio_num != m.ratio_den
    f.ratio_num = m.ratio_num
    f.ratio_den = m.ratio_den
    f.bus = m.first + f.channel if m.first != NONE and f.channel < m.channels else NONE
    f.route = s.route[j.route + f.channel]
    f.started = j.started
    f.engine = j.engine
    f.job_seq = j.seq


cdef void open_flow(Sim* s, slot_t job, int32_t channel) noexcept nogil:
    """Make the flow of one channel of a starting transfer; the flow is not yet a member of any resource."""
    cdef DmaJob* j = &s.dma_job[job]
    cdef Dram* m = &s.memory[j.memory]
    cdef slot_t slot
    cdef Flow* f
    s.n_free -= 1
    slot = s.free_flow[s.n_free]
    f = &s.share.flow[slot]
    memset(f, 0, sizeof(Flow))
    f.den = 1
    f.rated = -1
    f.left = s.channel_bytes[channel]
    f.total = f.left
    f.channel = channel
    f.job = job
    f.sibling = j.flows
    j.flows = slot
    f.line_next = NONE
    describe_flow(s, f)
    cursor_open(&f.at, m, &j.extent, channel)
    settle_cursor(f, &s.spm[s.dma_spm[j.engine]])
    if s.share.devices != NULL and f.bus != NONE:
        dram_open(&s.share, slot, &j.extent, j.memory, j.write)
    if s.noc != NULL:
        interface_open(s, slot)
    if s.trace != NULL:
        record_open(s, slot)


cdef void flow_bytes(Sim* s, slot_t job) noexcept nogil:
    """Write the bytes of each flow of a starting transfer into `channel_bytes`."""
    cdef DmaJob* j = &s.dma_job[job]
    if j.extent.cached == NULL:
        channel_bytes(s.channel_bytes, &s.memory[j.memory], &j.extent)
    else:
        source_bytes(s.channel_bytes, &s.memory[j.memory], &j.extent)


cdef cycle_t open_flows(Sim* s, slot_t job) noexcept nogil:
    """Make the flows of a starting transfer; return its head latency."""
    cdef DmaJob* j = &s.dma_job[job]
    cdef Dram* m = &s.memory[j.memory]
    cdef cycle_t head = 0, own
    cdef int32_t k
    flow_bytes(s, job)
    j.flows = NONE
    for k in range(flows_of(m) - 1, -1, -1):
        if s.channel_bytes[k] == 0:
            continue
        open_flow(s, job, k)
        own = m.setup if k < m.channels else s.caches.cache[m.cache].latency
        head = max(head, own + s.route_latency[j.route + k])
    return head


cdef void start_transfer(Sim* s, slot_t job, cycle_t now) noexcept nogil:
    cdef DmaJob* j = &s.dma_job[job]
    scratchpad_changes(s, s.dma_spm[j.engine], now)
    if s.trace != NULL:
        record_queue_resume(s, job, now)
    dma_start(&s.dma[j.engine], s.dma_job, job, now)
    if memory_of(s, job).cache != NONE:
        cache_look_up(s, job, now)
    j.head = open_flows(s, job) + more_latency(s.perturbed, job)
    entry_started(s, j.entry, now)
    j.live = 0
    j.out = 0
    j.in_head = True
    s.dma[j.engine].free += 1
    watch(s, j.engine)
    timer_push(&s.joins, now + j.head, job)


cdef void trace_deferred(Sim* s, DmaEngine* e, cycle_t now) noexcept nogil:
    """Record the jobs that were deferred in this cycle."""
    cdef int32_t k
    cdef slot_t job
    for k in range(CHANNELS):
        job = e.channel[k].first
        while job != NONE:
            if s.dma_job[job].reason == PRIORITY_DEFERRED and s.dma_job[job].stalled_at == now:
                record_queue_stall(s, job, now)
            job = s.dma_job[job].next


cdef void admit(Sim* s, DmaEngine* e, cycle_t now) noexcept nogil:
    """P3 of one DMA engine."""
    cdef slot_t job
    cdef DmaJob* j
    cdef int32_t stalls = 0, deferred
    dma_begin_admission(e)
    job = dma_pick_comm(e, s.dma_job)
    while job != NONE:
        if not overlap_allows(s, s.dma_job[job].entry):
            return
        start_transfer(s, job, now)
        job = dma_pick_comm(e, s.dma_job)
    while True:
        job = dma_pick(e, s.dma_job)
        if job == NONE:
            break
        j = &s.dma_job[job]
        if e.channel[j.channel].outstanding >= e.queue_depth:
            if dma_stall(e, j, QUEUE_FULL, now):
                stalls += 1
                if s.trace != NULL:
                    record_queue_stall(s, job, now)
            break
        if not overlap_allows(s, j.entry):
            return
        start_transfer(s, job, now)
    deferred = dma_defer(e, s.dma_job, now)
    if deferred and s.trace != NULL:
        trace_deferred(s, e, now)
    stalls += deferred
    if stalls and s.stops.on_stall:
        s.stops.hit = True


cdef void start_compute(Sim* s, int32_t c, cycle_t now) noexcept nogil:
    """P3 of one TE or VE: start the head of its queue."""
    cdef Compute* e = &s.compute[c]
    cdef int32_t spm = s.compute_spm[c]
    cdef int32_t entry = s.compute_job[e.queue_first].entry
    cdef cycle_t body
    if not overlap_allows(s, entry):
        return
    scratchpad_changes(s, spm, now)
    if e.overlaps:
        array_enter(s, c, now)
    body = compute_start(e, s.compute_job, &s.spm[spm], now)
    s.ahead[c].job = NONE               # jobs of components use the same places again
    entry_started(s, entry, now)
    if body == NEVER:
        timer_push(&s.ends, e.done_at, c)
    else:
        open_requester(
            s, s.n_flows + c, spm, grant_key(s.perturbed, s.n_dma + c, (<int64_t>e.kind << 32) | e.id), 0, False, body)
        list_requester(s, s.n_flows + c)


cdef inline bint starts_later(Sim* s, int32_t engine, cycle_t now) noexcept nogil:
    """Whether the engine's PE has not started yet, in a perturbed run."""
    return now < s.perturbed.ready[s.dma_spm[engine] if engine < s.n_dma else s.compute_spm[engine - s.n_dma]]


cdef inline bint start_engine(Sim* s, int32_t engine, cycle_t now) noexcept nogil:
    """P3 of one engine. True if it must be asked again in a later cycle: it refused a job, or may not start jobs in this cycle."""
    cdef int32_t c = engine - s.n_dma           # its index if it is a TE or VE
    if s.plugs != NULL and component_takes(s, engine):
        return component_offer(s, engine, now)
    if s.perturbed != NULL and starts_later(s, engine, now):
        return True
    if c < 0:
        if now % s.dma[engine].period:
            return True
        admit(s, &s.dma[engine], now)
    elif s.compute[c].job == NONE and s.compute[c].queue_first != NONE:
        if now % s.compute[c].period:
            return True
        start_compute(s, c, now)
    return False


cdef void start_phase(Sim* s, cycle_t now) noexcept nogil:
    """P3: DMA engines admit jobs, and idle TEs and VEs start jobs, in tie-break order. An engine whose period has not come
    stays in `wanted`."""
    cdef int32_t w, bit, engine
    cdef uint64_t todo
    cdef bint more = False
    for w in range(s.word, s.word + s.words):
        todo = s.wanted[w]
        while todo:
            bit = trailing_zeros(todo)
            todo &= todo - 1
            engine = s.groups.bit_engine[64 * w + bit]
            if start_engine(s, engine, now):
                more = True
                continue
            if s.status != RUNNING:
                return
            s.wanted[w] &= ~(<uint64_t>1 << bit)
    s.any_wanted = more


cdef void join_transfer(Sim* s, slot_t job, cycle_t now) noexcept nogil:
    """The head latency has ended: every flow enters its resources, and becomes a requester of the scratchpad unless it waits in a
    line."""
    cdef DmaJob* j = &s.dma_job[job]
    cdef slot_t flow = j.flows
    cdef int64_t key = grant_key(s.perturbed, j.engine, j.engine)
    cdef int32_t n = 0
    scratchpad_changes(s, s.dma_spm[j.engine], now)
    while flow != NONE:
        open_requester(s, flow, s.dma_spm[j.engine], key, (j.seq << 20) | s.share.flow[flow].channel, not j.write, NEVER)
        if not waits_in_line(&s.share, flow):
            list_requester(s, flow)
        if j.peer != NONE:
            scratchpad_changes(s, j.peer, now)
            open_requester(s, far_requester(s, flow), j.peer, key, j.seq << 20, j.write, NEVER)
            list_requester(s, far_requester(s, flow))
            pair_open(s, flow)
        share_enter(&s.share, flow, now)
        if s.noc != NULL:
            interface_join(s, flow)
        if s.trace != NULL:
            record_enter(s, flow, now)
        n += 1
        flow = s.share.flow[flow].sibling
    j.in_head = False
    j.live = n
    s.dma[j.engine].free += n - 1
    watch(s, j.engine)


cdef void list_members(Sim* s, int32_t changed, cycle_t now) noexcept nogil:
    """List the new members of channels as requesters. The member of a channel is the first flow in its line; the channels are among the
    first `changed` resources in `Share.dirty`."""
    cdef int32_t i
    cdef slot_t flow
    for i in range(changed):
        if s.share.dirty[i] >= s.share.channels:
            continue
        flow = s.share.line[s.share.dirty[i]]
        if flow != NONE and s.requester[flow].spm != NONE and not s.requester[flow].listed:     # no queue of a cache
            scratchpad_changes(s, s.requester[flow].spm, now)
            list_requester(s, flow)


cdef void share_phase(Sim* s, cycle_t now) noexcept nogil:
    """P4."""
    cdef int32_t k
    if s.shuffle:
        shuffle(s, s.rejoin, s.n_rejoin)
        shuffle(s, s.share.dirty, s.share.n_dirty)
    for k in range(s.n_rejoin):
        if not s.share.flow[s.rejoin[k]].out and not is_full(s, s.rejoin[k]):   # since it was added (T3)
            share_enter(&s.share, s.rejoin[k], now)
    s.n_rejoin = 0
    while s.joins.n and s.joins.item[0].at <= now:
        join_transfer(s, timer_pop(&s.joins), now)
    if s.plugs != NULL and s.plugs.watched and s.share.n_dirty:
        component_members(s, now)
    if s.share.devices != NULL:
        dram_phase(&s.share, now)
    elif s.share.n_dirty:
        k = s.share.n_dirty
        share_rates(&s.share, now)
        if s.share.queues:
            list_members(s, k, now)
    if s.caches != NULL:
        caches_find_next(s)
    if s.trace != NULL:
        record_members(s, now)


cdef void finish_flow(Sim* s, slot_t flow, cycle_t now) noexcept nogil:
    cdef Flow* f = &s.share.flow[flow]
    cdef DmaJob* j = &s.dma_job[f.job]
    cdef DmaEngine* e = &s.dma[j.engine]
    cdef nbytes_t carried = on_resources(f, f.total)
    cdef int32_t h
    order_remove(&s.spm[s.requester[flow].spm], s.tie_break, flow)
    s.tie_break[flow].seq = 0
    if j.peer != NONE:
        pair_close(s, flow, now + 1)
    share_quit(&s.share, flow, now + 1)
    if s.share.devices != NULL and f.bus != NONE:
        dram_close(&s.share, flow)
    if s.noc != NULL:
        interface_close(s, flow)
    for h in range(f.route.length + f.route.more):
        s.share.res[s.share.path[f.route.first + h]].bytes += carried
        if j.write:
            s.share.res[s.share.path[f.route.first + h]].stored += carried
    if s.trace != NULL:
        record_leave(s, flow, now + 1)
    e.nbytes += f.total
    e.free -= 1
    j.live -= 1
    watch(s, j.engine)
    if j.live:
        return
    dma_complete(e, j)
    flow = j.flows
    while flow != NONE:
        if s.traced:
            s.flow_trace[flow].used = False
        s.free_flow[s.n_free] = flow
        s.n_free += 1
        flow = s.share.flow[flow].sibling
    if j.extent.cached != NULL:
        cache_release(s, f.job)
    if has_queued(s, j.engine):
        want(s, j.engine)
    entry_ended(s, j.entry, now + 1)


cdef void by_channel(Sim* s, slot_t* flow, int32_t n) noexcept nogil:
    """Sort flows by DRAM channel, because the lowest channel of a job is reported."""
    cdef int32_t k, i
    cdef slot_t moved
    for k in range(1, n):
        moved = flow[k]
        i = k
        while i and flow_channel(s, &s.share.flow[flow[i - 1]]) > flow_channel(s, &s.share.flow[moved]):
            flow[i] = flow[i - 1]
            i -= 1
        flow[i] = moved


cdef void press(Sim* s, slot_t flow, cycle_t now) noexcept nogil:
    """A flow that was held for backpressure_cycles leaves its resources; its job is stalled until the flow is served."""
    cdef Flow* f = &s.share.flow[flow]
    cdef DmaJob* j = &s.dma_job[f.job]
    share_quit(&s.share, flow, now + 1)
    f.out = True
    s.spm[s.requester[flow].spm].n_out += 1
    j.out += 1
    if j.out > 1:
        return
    dma_stall(&s.dma[j.engine], j, BACKPRESSURE, now)
    if s.trace != NULL:
        record_press(s, f.job, flow_channel(s, f), now)
    s.dma[j.engine].backpressured += 1
    watch(s, j.engine)
    if s.stops.on_stall:
        s.stops.hit = True


cdef void finish_compute(Sim* s, int32_t c, cycle_t now) noexcept nogil:
    """A job leaves its engine. If jobs overlap, it drains from now on; else it ends."""
    cdef Compute* e = &s.compute[c]
    cdef int32_t entry = s.compute_job[e.job].entry
    if e.streams:
        order_remove(&s.spm[s.compute_spm[c]], s.tie_break, s.n_flows + c)
    if e.queue_first != NONE:
        want(s, s.n_dma + c)
    if e.overlaps:
        array_leave(s, c, now)
        return
    compute_complete(e, s.compute_job, now + 1)
    entry_ended(s, entry, now + 1)


cdef void finish_next(Sim* s, cycle_t now) noexcept nogil:
    """The first timer of `ends` is due."""
    cdef int32_t c = timer_pop(&s.ends)
    if c < s.n_compute:
        finish_compute(s, c, now)
    else:
        entry_ended(s, array_drained(s, c - s.n_compute, now + 1), now + 1)


cdef void complete_phase(Sim* s, cycle_t now) noexcept nogil:
    """P7."""
    cdef int32_t k
    if s.shuffle:
        shuffle(s, s.pressed, s.n_pressed)
        shuffle(s, s.done_flow, s.n_done_flow)
        shuffle(s, s.done_compute, s.n_done_compute)
    if s.trace != NULL:
        by_channel(s, s.pressed, s.n_pressed)
    for k in range(s.n_pressed):
        press(s, s.pressed[k], now)
    s.n_pressed = 0
    for k in range(s.n_done_flow):
        finish_flow(s, s.done_flow[k], now)
    s.n_done_flow = 0
    for k in range(s.n_done_compute):
        finish_compute(s, s.done_compute[k], now)
    s.n_done_compute = 0
    while s.ends.n and s.ends.item[0].at == now:
        finish_next(s, now)
