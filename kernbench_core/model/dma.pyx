"""Admission and state of DMA jobs. The caller opens flows, decides when a job is complete, and passes the cycle.

A turn of P3 is `dma_pick`, followed by `dma_start` or `dma_stall`; `dma_begin_admission` comes before all turns, and
`dma_defer` after them. `dma_pick` is in model/dma_arbiter.pyx. Only KV stores may be passed inside their queue. The channel
COMM is separate: only its own limit holds its jobs, and its jobs hold no others.
"""
from kernbench_core.types cimport (
    CHANNELS, COMM, DMA_COMPLETED, DMA_QUEUED, DMA_TRANSFERRING, NONE, NOT_STALLED, PRIORITY_DEFERRED, QUEUE_FULL, cycle_t,
    int32_t, int64_t, slot_t)

# The legal transitions: LEGAL[from] is the only state that may follow.
cdef int32_t[3] LEGAL = [DMA_TRANSFERRING, DMA_COMPLETED, -1]


cdef bint dma_transition(DmaJob* j, int32_t state) noexcept nogil:
    """The only function that writes `state`; if the transition is illegal, it returns false and writes nothing."""
    if LEGAL[j.state] != state:
        return False
    j.state = state
    return True


cdef void dma_submit(DmaEngine* e, DmaJob* jobs, slot_t job, int64_t seq) noexcept nogil:
    cdef DmaJob* j = &jobs[job]
    cdef DmaChannel* c = &e.channel[j.channel]
    j.seq = seq
    j.state = DMA_QUEUED
    j.reason = NOT_STALLED
    j.next = NONE
    j.prev = c.last
    if c.last == NONE:
        c.first = job
    else:
        jobs[c.last].next = job
    c.last = job
    e.pending += 1


cdef bint in_order(DmaEngine* e, DmaJob* jobs, DmaJob* j) noexcept nogil:
    """No pending KV store of the same group has a smaller t_start."""
    cdef slot_t other
    if j.group == NONE:
        return True
    other = e.channel[j.channel].first
    while other != NONE:
        if jobs[other].group == j.group and jobs[other].t_start < j.t_start:
            return False
        other = jobs[other].next
    return True


cdef slot_t eligible_head(DmaEngine* e, DmaJob* jobs, int32_t channel) noexcept nogil:
    """The first eligible job of a channel's queue."""
    cdef slot_t job = e.channel[channel].first
    if e.channel[channel].outstanding >= e.limit[channel].max_concurrent:
        return NONE
    e.limit[channel].seen = True
    e.limit[channel].since_seen = NONE
    while job != NONE and not in_order(e, jobs, &jobs[job]):
        job = jobs[job].next
    return job


cdef void dma_begin_admission(DmaEngine* e) noexcept nogil:
    cdef int32_t k
    e.last_started = -1
    for k in range(CHANNELS):
        e.limit[k].seen = False
        e.limit[k].since_seen = NONE


cdef slot_t dma_pick_comm(DmaEngine* e, DmaJob* jobs) noexcept nogil:
    """The next job of the channel COMM; NONE if none may start."""
    return NONE if e.channel[COMM].first == NONE else eligible_head(e, jobs, COMM)


cdef void close_episode(DmaEngine* e, DmaJob* j, cycle_t now) noexcept nogil:
    if j.reason == QUEUE_FULL:
        e.queue_full += now - j.stalled_at
    elif j.reason == PRIORITY_DEFERRED:
        e.deferred += now - j.stalled_at
    j.reason = NOT_STALLED


cdef bint dma_start(DmaEngine* e, DmaJob* jobs, slot_t job, cycle_t now) noexcept nogil:
    """QUEUED -> TRANSFERRING: the job leaves its queue, and its head latency begins. False if this transition is illegal."""
    cdef DmaJob* j = &jobs[job]
    cdef DmaChannel* c = &e.channel[j.channel]
    if not dma_transition(j, DMA_TRANSFERRING):
        return False
    close_episode(e, j, now)
    if j.prev == NONE:
        c.first = j.next
    else:
        jobs[j.prev].next = j.next
    if j.next == NONE:
        c.last = j.prev
    else:
        jobs[j.next].prev = j.prev
    if j.channel != COMM:
        e.last_started = max(e.last_started, j.seq)
        e.turn = (j.channel + 1) % COMM
    j.started = now
    e.pending -= 1
    e.active += 1
    c.outstanding += 1
    e.limit[j.channel].since_seen = job
    return True


cdef bint dma_stall(DmaEngine* e, DmaJob* j, int32_t reason, cycle_t now) noexcept nogil:
    """Open a stall episode; an episode that is already open keeps its reason. True if an episode was opened."""
    if j.reason != NOT_STALLED:
        return False
    j.reason = reason
    j.stalled_at = now
    return True


cdef bint was_in_order(DmaEngine* e, DmaJob* jobs, DmaJob* j) noexcept nogil:
    """`in_order` at the last turn in which the channel had room. Pending jobs only leave the queue, so a later evaluation gives
    the same result, except for the one job that started after that turn."""
    cdef slot_t last = e.limit[j.channel].since_seen
    if j.group != NONE and last != NONE and jobs[last].group == j.group and jobs[last].t_start < j.t_start:
        return False
    return in_order(e, jobs, j)


cdef int32_t dma_defer(DmaEngine* e, DmaJob* jobs, cycle_t now) noexcept nogil:
    """After the turns: mark eligible jobs that a job with a later submission overtook as deferred. Returns the number of newly
    deferred jobs."""
    cdef int32_t k, n = 0
    cdef slot_t job
    for k in range(COMM):
        if not e.limit[k].seen:
            continue
        job = e.channel[k].first
        while job != NONE and jobs[job].seq < e.last_started:
            if jobs[job].reason == NOT_STALLED and was_in_order(e, jobs, &jobs[job]):
                n += dma_stall(e, &jobs[job], PRIORITY_DEFERRED, now)
            job = jobs[job].next
    return n


cdef bint dma_complete(DmaEngine* e, DmaJob* j) noexcept nogil:
    """TRANSFERRING -> COMPLETED: free the slots of the job. False if this transition is illegal."""
    if not dma_transition(j, DMA_COMPLETED):
        return False
    j.reason = NOT_STALLED
    e.active -= 1
    e.channel[j.channel].outstanding -= 1
    e.jobs += 1
    return True


cdef void dma_activity(DmaEngine* e, cycle_t now) noexcept nogil:
    """After P6 of cycle `now`: set the activity of the engine in this cycle; earlier cycles are counted."""
    cdef int32_t activity
    if e.free:
        activity = BUSY
    elif e.active == 0:
        activity = IDLE
    elif e.backpressured == e.active:
        activity = STALLED_BACKPRESSURE
    else:
        activity = STALLED_BANK
    if activity != e.activity:
        e.spent[e.activity] += now - e.since
        e.since = now
        e.activity = activity
