"""Issues ready entries, in passes over the file.

A pass does not walk over all entries. Two heaps hold the ready positions; an entry that becomes ready before the pass's cursor
waits for the next pass. The first barrier that is not complete blocks: no entry after it is taken.
"""
from kernbench_core.model.heap cimport int_pop, int_push
from kernbench_core.model.mmio cimport mmio_arrived, mmio_begin, mmio_next, mmio_open, mmio_raised
from kernbench_core.types cimport NEVER, OP_BARRIER, OP_COMPUTE, OP_DMA, cycle_t, int32_t


cdef bint is_job(Entry* e) noexcept nogil:
    return e.op == OP_DMA or e.op == OP_COMPUTE


cdef inline int32_t pop_job(Control* q) noexcept nogil:
    """Remove the first ready job."""
    cdef int32_t first = int_pop(q.ready_jobs, &q.n_ready_jobs)
    return first if q.rank == NULL else q.ranked[first]


cdef void make_ready(Control* q, int32_t i) noexcept nogil:
    if is_job(&q.entry[i]):
        int_push(q.ready_jobs, &q.n_ready_jobs, i if q.rank == NULL else q.rank[i])
    else:
        int_push(q.ready_control, &q.n_ready_control, i)


cdef void release(Control* q, int32_t i) noexcept nogil:
    """Decrement the number of dependencies for which entry `i` waits."""
    q.entry[i].waits -= 1
    if q.entry[i].waits:
        return
    if i > q.cursor:
        make_ready(q, i)
    else:
        q.later[q.n_later] = i
        q.n_later += 1


cdef void count(Control* q, int32_t i) noexcept nogil:
    """Count an entry as complete."""
    q.completed += 1
    q.tied -= q.entry[i].tied
    if q.completed == q.end:          # END counts one dependency for all earlier entries
        release(q, q.end)


cdef void complete(Control* q, int32_t i) noexcept nogil:
    cdef int32_t k
    if q.entry[i].op == OP_BARRIER:
        q.passed += 1
    if q.mmio != NULL and q.mmio.raises[i]:
        mmio_raised(q.mmio, q.dependents + q.entry[i].after, q.entry[i + 1].after - q.entry[i].after, q.entry[i].end)
    for k in range(q.entry[i].after, q.entry[i + 1].after):
        release(q, q.dependents[k])
    count(q, i)


cdef void control_open(Control* q) noexcept nogil:
    """Before cycle 0: mark entries without dependencies as ready."""
    cdef int32_t i
    q.cursor = -1
    q.mmio_at = NEVER
    if q.mmio != NULL:
        mmio_open(q.mmio, q.n)
        q.mmio_at = mmio_next(q.mmio)
    for i in range(q.n):
        q.entry[i].tied = is_job(&q.entry[i]) and q.entry[i + 1].after > q.entry[i].after
        q.tied += q.entry[i].tied
        if q.entry[i].waits == 0:
            make_ready(q, i)
    if q.end == 0:
        release(q, 0)


cdef void control_release(Control* q, int32_t first) noexcept nogil:
    """P2 of a single group: release the dependents of its ended jobs, beginning with number `first` of the list."""
    cdef int32_t k, i
    for i in range(first, q.n_finished):
        for k in range(q.entry[q.finished[i]].after, q.entry[q.finished[i] + 1].after):
            release(q, q.dependents[k])


cdef int32_t control_take(Control* q, cycle_t now) noexcept nogil:
    """Issue the first ready job; -1 if there is none. The number of the job is preliminary (`control_settle`)."""
    cdef int32_t i
    if q.n_ready_jobs == 0:
        return -1
    i = pop_job(q)
    q.entry[i].issue = now
    q.entry[i].number = q.submitted
    q.submitted += 1
    q.in_flight += 1
    return i


cdef void control_settle(Control* q, cycle_t before) noexcept nogil:
    """Complete the jobs that ended before this cycle; their dependents were released when the jobs ended."""
    cdef int32_t k, i, n = 0
    for k in range(q.n_finished):
        i = q.finished[k]
        q.finished[k] = 0
        if q.entry[i].end < before:
            count(q, i)
        else:
            q.finished[n] = i
            n += 1
    q.n_finished = n


cdef int32_t next_ready(Control* q, bint jobs_allowed) noexcept nogil:
    """Take the first ready entry that no barrier holds back; -1 if there is none."""
    cdef int32_t gate = q.barriers[q.passed] if q.passed < q.n_barriers else q.n
    cdef int32_t control = q.ready_control[0] if q.n_ready_control else q.n + 1
    cdef int32_t job = q.ready_jobs[0] if q.n_ready_jobs and jobs_allowed else q.n + 1
    if job < control:
        return pop_job(q) if job <= gate else -1
    return int_pop(q.ready_control, &q.n_ready_control) if control <= gate else -1


cdef inline void issue_entry(Control* q, int32_t i, cycle_t now, submit_fn submit, void* sim) noexcept nogil:
    """Issue an entry: submit its job, or complete it if it is a control entry."""
    q.entry[i].issue = now
    if is_job(&q.entry[i]):
        q.in_flight += 1
        q.entry[i].number = q.submitted
        submit(sim, i, q.submitted)
        q.submitted += 1
        return
    q.entry[i].start = now
    q.entry[i].end = now
    submit(sim, i, -1)
    complete(q, i)


cdef inline void next_pass(Control* q) noexcept nogil:
    """Begin a pass with the entries that became ready behind the position of the last one."""
    cdef int32_t k
    for k in range(q.n_later):
        make_ready(q, q.later[k])
    q.n_later = 0
    q.cursor = -1


cdef inline int32_t issue_passes(Control* q, cycle_t now, submit_fn submit, void* sim) noexcept nogil:
    """Issue entries in passes, until a pass issues nothing; return the number of issued entries."""
    cdef int32_t i, issued = 0, jobs = 0
    while True:
        i = next_ready(q, q.width == 0 or jobs < q.width)
        if i >= 0:
            q.cursor = i
            issued += 1
            jobs += is_job(&q.entry[i])
            issue_entry(q, i, now, submit, sim)
        elif q.n_later:
            next_pass(q)
        else:
            break
    q.limited = q.width != 0 and jobs == q.width and q.n_ready_jobs > 0
    return issued


cdef int32_t control_issue(Control* q, cycle_t now, submit_fn submit, void* sim) noexcept nogil:
    """P2 of cycle `now`; returns the number of issued entries."""
    cdef int32_t i, k, issued
    q.cursor = -1
    for k in range(q.n_finished):
        complete(q, q.finished[k])
        q.finished[k] = 0                         # cleared, because a snapshot must not contain data of finished work
    q.n_finished = 0
    if q.mmio != NULL:
        i = mmio_arrived(q.mmio, now)
        if i >= 0:
            submit(sim, i, ARRIVED)
            release(q, i)
    issued = issue_passes(q, now, submit, sim)
    q.cursor = -1
    if q.mmio != NULL:
        mmio_begin(q.mmio, now)
        q.mmio_at = mmio_next(q.mmio)
    return issued
