"""Restores the command queue and the host of a snapshot: their lists follow from the issue, end and arrival of each entry."""
from kernbench_core.model.control cimport Control, Entry
from kernbench_core.model.heap cimport TimerHeap, int_push, timer_pop, timer_push
from kernbench_core.model.mmio cimport Mmio, mmio_next
from kernbench_core.state.audit cimport p2_is_over
from kernbench_core.types cimport NEVER, OP_BARRIER, OP_COMPUTE, OP_DMA, cycle_t, int32_t


cdef bint is_over(Control* q, int32_t entry, cycle_t now, bint p2_over) noexcept nogil:
    """Whether P2 has completed the entry."""
    cdef Entry* e = &q.entry[entry]
    return e.end != NEVER and (e.op != OP_DMA and e.op != OP_COMPUTE or p2_over or e.end < now)


cdef bint mmio_is_here(Mmio* h, int32_t entry, cycle_t now, bint p2_over) noexcept nogil:
    """Whether the entry has arrived in the queue."""
    return h.arrival[entry] < now or (p2_over and h.arrival[entry] == now)


cdef void sort_by_arrival(Mmio* h, int32_t n) noexcept nogil:
    """Put the entries whose writes have begun into the order of their arrivals. The room after the heap is sufficient for them, because an
    entry is either in the heap or in the list."""
    cdef TimerHeap sorted_
    cdef int32_t k
    sorted_.item = h.coming.item + h.coming.n
    sorted_.n = 0
    for k in range(n):
        timer_push(&sorted_, h.arrival[h.in_transit[k]], h.in_transit[k])
    for k in range(n):
        h.in_transit[k] = timer_pop(&sorted_)


cdef void resume_mmio(Control* q, cycle_t now, bint p2_over) noexcept nogil:
    """Restore the lists of the host from the ends and the arrivals of the entries."""
    cdef Mmio* h = q.mmio
    cdef int32_t k, i, n = 0
    cdef bint raised
    h.n_waiting = h.coming.n = h.first = h.last = 0
    h.free = 0
    for k in range(q.n):
        h.unknown[k] = 0
        h.known[k] = 0
    for k in range(q.n):
        raised = is_over(q, k, now, p2_over)
        for i in range(q.entry[k].after, q.entry[k + 1].after if h.raises[k] else q.entry[k].after):
            if h.written[q.dependents[i]]:
                h.unknown[q.dependents[i]] += not raised
                h.known[q.dependents[i]] = max(h.known[q.dependents[i]], q.entry[k].end + h.interrupt if raised else 0)
    for k in range(q.n):
        if not h.written[k]:
            continue
        if h.arrival[k] != NEVER:
            h.free = max(h.free, h.arrival[k] - h.latency)
            h.in_transit[n] = k
            n += 1
        if not mmio_is_here(h, k, now, p2_over):
            q.entry[k].waits += 1
        if h.arrival[k] == NEVER and h.unknown[k] == 0:
            timer_push(&h.coming, h.known[k], k)
    h.last = n
    sort_by_arrival(h, n)
    while h.first < n and mmio_is_here(h, h.in_transit[h.first], now, p2_over):
        h.first += 1
    q.mmio_at = mmio_next(h)


cdef void resume_control(Sim* s) noexcept nogil:
    """Restore the lists of the command queue from the times of its entries."""
    cdef Control* q = &s.control
    cdef int32_t k, i
    cdef bint job, p2_over = p2_is_over(s)
    q.completed = q.tied = q.passed = q.n_finished = q.in_flight = 0
    q.n_ready_jobs = q.n_ready_control = q.n_later = 0
    q.submitted = 0
    q.cursor = -1
    q.mmio_at = NEVER
    for k in range(q.n):
        q.entry[k].waits = 0
    if q.mmio != NULL:
        resume_mmio(q, s.cycle, p2_over)
    for k in range(q.n):
        job = q.entry[k].op == OP_DMA or q.entry[k].op == OP_COMPUTE
        if job and q.entry[k].issue != NEVER:
            q.submitted += 1
            q.in_flight += q.entry[k].end == NEVER
        if is_over(q, k, s.cycle, p2_over):
            q.completed += 1
            q.passed += q.entry[k].op == OP_BARRIER
            continue
        if q.entry[k].end != NEVER:             # the next P2 completes it
            q.finished[q.n_finished] = k
            q.n_finished += 1
        q.tied += q.entry[k].tied
        for i in range(q.entry[k].after, q.entry[k + 1].after):
            q.entry[q.dependents[i]].waits += 1
    if q.end >= 0 and q.completed < q.end:
        q.entry[q.end].waits += 1
    for k in range(q.n):
        if q.entry[k].issue != NEVER or q.entry[k].waits:
            continue
        if q.entry[k].op == OP_DMA or q.entry[k].op == OP_COMPUTE:
            int_push(q.ready_jobs, &q.n_ready_jobs, k)
        else:
            int_push(q.ready_control, &q.n_ready_control, k)
    q.limited = q.width != 0 and q.n_ready_jobs > 0
