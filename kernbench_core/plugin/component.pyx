"""P1, P3, P4 and P7 of plugged-in components: due components run, queued jobs are offered, and components are notified of changed members
and ended work.

A component is called only in these four phases. Its requests to the core (plugin/component_api.pyx) take effect in the same cycle in P1 and
P3, and in the next cycle in P4 and P7; a capacity that is set in P4 takes effect in the same cycle. Its mistakes are recorded; the run ends
before the cycle for a mistake in P1, and otherwise after the cycle.
"""
from libc.stdlib cimport qsort

from kernbench_core.plugin.abi cimport KB_BANKS, KB_BUSY, KB_FLOW, KB_MEMBERS, KB_PARAMS, kb_job
from kernbench_core.model.bank cimport order_remove
from kernbench_core.plugin.cycle_heap cimport clock_next, clock_set
from kernbench_core.plugin.component_flows cimport flow_due, flow_free
from kernbench_core.model.compute cimport Compute, ComputeJob, writes_to
from kernbench_core.model.control cimport Entry
from kernbench_core.model.dma cimport DmaJob, dma_complete, dma_start
from kernbench_core.model.entry cimport entry_ended, entry_started
from kernbench_core.model.overlap cimport overlap_allows
from kernbench_core.plugin.component_tables cimport (
    CALLBACK_FAILED, TAKES_NO_JOBS, UNKNOWN_JOB, WAKES_PAST, Notice, Plugs, PlugState, slot_of, plug_mistake, plug_notify)
from kernbench_core.plugin.pycomponent cimport hold
from kernbench_core.trace.record cimport record_queue_resume
from kernbench_core.model.shuffle cimport shuffle
from kernbench_core.model.sim cimport Sim, scratchpad_changes, want, watch
from kernbench_core.types cimport CHANNELS, NEVER, NONE, OP_COMPUTE, OP_DMA, cycle_t, int32_t, int64_t, slot_t


cdef void call(Plugs* p, int32_t c, cycle_t now, bint late) noexcept nogil:
    p.calling = c
    p.now = now
    p.late = late


cdef void offer_again(Sim* s, int32_t c) noexcept nogil:
    """A component that has refused a job may take it now."""
    cdef Plugs* p = s.plugs
    cdef int32_t k
    if not p.state[c].busy:
        return
    p.state[c].busy = False
    for k in range(p.plug[c].n_engines):
        want(s, p.plug[c].engine[k])
    want(s, s.n_dma + s.n_compute + c)


cdef void returned(Sim* s, int32_t c, int64_t to, cycle_t now) noexcept nogil:
    """Handle the next cycle that a call returned."""
    cdef Plugs* p = s.plugs
    p.calling = NONE
    if to < 0:
        plug_mistake(p, c, CALLBACK_FAILED, to)
    elif to <= now:
        plug_mistake(p, c, WAKES_PAST, to)
    elif to < p.wakes.at[c]:
        clock_set(&p.wakes, c, to)
    offer_again(s, c)


cdef void component_wake(Sim* s, cycle_t now) noexcept nogil:
    """P1: run the components that are due, by id."""
    cdef Plugs* p = s.plugs
    cdef int32_t c, held = 0
    cdef int64_t to
    while clock_next(&p.wakes) <= now and not p.mistake:
        c = p.wakes.heap[0]
        clock_set(&p.wakes, c, NEVER)
        if p.state[c].fresh:
            p.state[c].fresh = False
            p.open -= 1
        call(p, c, now, False)
        held = hold(p.plug[c].ops, held)
        to = p.plug[c].ops.advance(p.plug[c].ops.self, now, &p.plug[c].api)
        returned(s, c, to, now)
    hold(NULL, held)


cdef int32_t head_of(Sim* s, int32_t engine) noexcept nogil:
    """The entry of the first job in the queue of an engine or a component; jobs of a replaced DMA engine are in the order of submission."""
    cdef int32_t k
    cdef slot_t best = NONE, job
    if engine < s.n_dma:
        for k in range(CHANNELS):
            job = s.dma[engine].channel[k].first
            if job != NONE and (best == NONE or s.dma_job[job].seq < s.dma_job[best].seq):
                best = job
        return NONE if best == NONE else s.dma_job[best].entry
    engine -= s.n_dma
    if engine < s.n_compute:
        job = s.compute[engine].queue_first
        return NONE if job == NONE else s.compute_job[job].entry
    job = s.plugs.state[engine - s.n_compute].queue_first
    return NONE if job == NONE else s.control.n + 1 + job


cdef void describe(Sim* s, int32_t entry, kb_job* out) noexcept nogil:
    """A job of the command queue in the form that a component receives."""
    cdef Entry* e = &s.control.entry[entry]
    cdef DmaJob* d
    cdef ComputeJob* c
    cdef int32_t k
    out.id = entry
    out.entry = entry
    out.opcode = s.plugs.opcode[entry]
    out.n_params = KB_PARAMS
    for k in range(KB_PARAMS):
        out.params[k] = s.plugs.params[<int64_t>entry * KB_PARAMS + k]
    if e.op == OP_DMA:
        d = &s.dma_job[e.job]
        out.n_regions = 1
        out.region[0].addr = d.extent.spm_addr
        out.region[0].nbytes = d.nbytes
        out.region[0].write = not d.write
        return
    c = &s.compute_job[e.job]
    out.n_regions = c.regions
    for k in range(c.regions):
        out.region[k].addr = c.region[k].addr
        out.region[k].nbytes = c.region[k].nbytes
        out.region[k].write = writes_to(c, k)


cdef bint accepts(Sim* s, int32_t c, int32_t entry, cycle_t now) noexcept nogil:
    cdef Plugs* p = s.plugs
    cdef kb_job mine
    cdef const kb_job* job
    cdef int64_t to
    if entry > s.control.n:
        job = &p.component_job[entry - s.control.n - 1].job
    else:
        describe(s, entry, &mine)
        job = &mine
    call(p, c, now, False)
    if p.plug[c].ops.accept == NULL:
        plug_mistake(p, c, TAKES_NO_JOBS, job.id)
        p.calling = NONE
        return False
    p.owner[entry] = c
    to = p.plug[c].ops.accept(p.plug[c].ops.self, job, now)
    if to != KB_BUSY:
        returned(s, c, to, now)
        return not p.mistake
    p.calling = NONE
    p.state[c].busy = True
    if p.owner[entry] != c:
        plug_mistake(p, c, UNKNOWN_JOB, job.id)
    p.owner[entry] = NONE
    return False


cdef void begin_compute(Compute* e, ComputeJob* jobs, cycle_t now) noexcept nogil:
    """Move the head of its queue to the list of jobs on which a component works, which begins at `job`."""
    cdef slot_t job = e.queue_first
    e.queue_first = jobs[job].next
    if e.queue_first == NONE:
        e.queue_last = NONE
    e.queued -= 1
    if e.job == NONE:
        e.started = now
    jobs[job].next = e.job
    e.job = job


cdef void begin(Sim* s, int32_t engine, int32_t entry, cycle_t now) noexcept nogil:
    """A job was accepted: start it."""
    cdef slot_t job = s.control.entry[entry].job
    cdef PlugState* state
    if engine < s.n_dma:
        scratchpad_changes(s, s.dma_spm[engine], now)
        if s.trace != NULL:
            record_queue_resume(s, job, now)
        dma_start(&s.dma[engine], s.dma_job, job, now)
        s.dma[engine].free += 1
        watch(s, engine)
    elif engine < s.n_dma + s.n_compute:
        begin_compute(&s.compute[engine - s.n_dma], s.compute_job, now)
    else:
        state = &s.plugs.state[engine - s.n_dma - s.n_compute]
        job = state.queue_first
        state.queue_first = s.plugs.component_job[job].next
        if state.queue_first == NONE:
            state.queue_last = NONE
        state.queued -= 1
    entry_started(s, entry, now)


cdef bint component_offer(Sim* s, int32_t engine, cycle_t now) noexcept nogil:
    """P3: offer queued jobs one after another until one is refused. True if the engine's period has not come and the jobs must be offered
    again."""
    cdef int32_t c = component_in_place_of(s, engine), entry
    cdef cycle_t period = 1
    if engine < s.n_dma:
        period = s.dma[engine].period
    elif engine < s.n_dma + s.n_compute:
        period = s.compute[engine - s.n_dma].period
    while not s.plugs.mistake:
        entry = head_of(s, engine)
        if entry == NONE:
            break
        if now % period:
            return True
        if not accepts(s, c, entry, now) or not overlap_allows(s, entry):
            break
        begin(s, engine, entry, now)
    return False


cdef void end_compute(Compute* e, ComputeJob* jobs, slot_t job, cycle_t end) noexcept nogil:
    cdef slot_t* link = &e.job
    while link[0] != job:
        link = &jobs[link[0]].next
    link[0] = jobs[job].next
    e.jobs += 1
    e.work += jobs[job].work
    if e.job == NONE:
        e.job_cycles += end - e.started


cdef void end_job(Sim* s, int32_t entry, cycle_t now) noexcept nogil:
    """P7 of a job that a component completed in this cycle."""
    cdef Entry* e = &s.control.entry[entry]
    cdef int32_t engine, c = -2 - s.plugs.owner[entry]
    s.plugs.state[c].jobs += 1
    s.plugs.owner[entry] = NONE
    offer_again(s, c)
    if e.op == OP_DMA:
        engine = s.dma_job[e.job].engine
        scratchpad_changes(s, s.dma_spm[engine], now + 1)
        dma_complete(&s.dma[engine], &s.dma_job[e.job])
        s.dma[engine].free -= 1
        watch(s, engine)
    elif e.op == OP_COMPUTE:
        end_compute(&s.compute[s.compute_job[e.job].engine], s.compute_job, e.job, now + 1)
    entry_ended(s, entry, now + 1)


cdef int by_component(const void* x, const void* y) noexcept nogil:
    """Notices in the order of components, kinds and ids."""
    cdef const Notice* a = <const Notice*>x
    cdef const Notice* b = <const Notice*>y
    if a.to != b.to:
        return -1 if a.to < b.to else 1
    if a.kind != b.kind:
        return -1 if a.kind < b.kind else 1
    return -1 if a.id < b.id else 1


cdef void give_back(Sim* s, Notice* n) noexcept nogil:
    """Free its place before its component is notified."""
    cdef Plugs* p = s.plugs
    cdef slot_t k = <slot_t>slot_of(n.id)
    cdef int32_t c = n.to
    cdef Entry* e
    if n.kind == KB_FLOW:
        flow_free(p, c, k)
        return
    p.open -= 1
    if n.kind == KB_BANKS:
        p.bank_request[k].id = -1
        p.bank_request[k].next = p.free_bank_request[c]
        p.free_bank_request[c] = k
        p.state[c].asks -= 1
    else:
        e = &s.control.entry[k]
        if e.op == OP_DMA and s.dma_job[e.job].peer != NONE:
            s.peer_transfers[s.dma_job[e.job].peer] -= 1
        k -= s.control.n + 1
        p.component_job[k].next = p.free_component_job[c]
        p.free_component_job[c] = k
        p.state[c].open_jobs -= 1


cdef void tell(Sim* s, cycle_t now) noexcept nogil:
    """Send every notice of this cycle; a call makes no new notices, but may complete jobs."""
    cdef Plugs* p = s.plugs
    cdef int32_t k, c, held = 0
    cdef Notice n
    cdef int64_t to
    qsort(p.notice, p.n_notices, sizeof(Notice), by_component)
    for k in range(p.n_notices):
        n = p.notice[k]
        c = n.to
        if c == NONE:                           # its component closed it meanwhile
            continue
        give_back(s, &n)
        if p.mistake:
            continue
        to = NEVER
        call(p, c, now, True)
        if p.plug[c].ops.notify != NULL:
            held = hold(p.plug[c].ops, held)
            to = p.plug[c].ops.notify(p.plug[c].ops.self, n.kind, n.id, now)
        returned(s, c, to, now)
    hold(NULL, held)
    p.n_notices = 0


cdef void component_members(Sim* s, cycle_t now) noexcept nogil:
    """P4, before rates are computed: the watched resources that have changed, by number."""
    cdef Plugs* p = s.plugs
    cdef int32_t k, c, held = 0
    cdef int64_t to
    for k in range(s.share.n_res):
        c = p.watcher[k]
        if c == NONE or not s.share.res[k].dirty or p.mistake or p.plug[c].ops.notify == NULL:
            continue
        call(p, c, now, True)
        held = hold(p.plug[c].ops, held)
        to = p.plug[c].ops.notify(p.plug[c].ops.self, KB_MEMBERS, k, now)
        returned(s, c, to, now)
    hold(NULL, held)


cdef void tell_served(Sim* s) noexcept nogil:
    """Remove requests of components that have all their banks from the scratchpad."""
    cdef Plugs* p = s.plugs
    cdef int32_t k
    cdef slot_t requester
    for k in range(p.n_served):
        requester = p.first_requester + p.served[k]
        order_remove(&s.spm[s.requester[requester].spm], s.tie_break, requester)
        s.spm[s.requester[requester].spm].n_component_requests -= 1
        plug_notify(p, p.bank_request[p.served[k]].by, KB_BANKS, p.bank_request[p.served[k]].id)
    p.n_served = 0


cdef void component_complete(Sim* s, cycle_t now) noexcept nogil:
    """P7, after that of the engines: end flows and jobs, and report granted banks."""
    cdef Plugs* p = s.plugs
    cdef int32_t k
    cdef slot_t slot
    for k in range(p.n_touched):
        slot = p.touched[k]
        p.flow[slot].touched = False
        if p.flow[slot].id >= 0:
            clock_set(&p.ends, slot, s.requester[p.first_flow + slot].next_at)
    p.n_touched = 0
    while clock_next(&p.ends) <= now:
        flow_due(s, p.ends.heap[0], now)
    if s.shuffle:
        shuffle(s, p.served, p.n_served)
    if p.n_served:
        tell_served(s)
    while p.n_done or p.n_notices:
        if s.shuffle:
            shuffle(s, p.done, p.n_done)
        for k in range(p.n_done):
            end_job(s, p.done[k], now)
        p.n_done = 0
        if p.n_notices:
            tell(s, now)
