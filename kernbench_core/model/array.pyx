"""The life of a job in a systolic array whose jobs overlap.

The job holds the array like any job of a TE holds its engine, but only up to the end of its stream. Then it drains: it moves to a list of
the engine, which ends in the order of the list. Only the end of the first job of the list is a timer.
"""
from kernbench_core.model.compute cimport Array, ArrayJob, Compute, ComputeJob, count_job, on_period
from kernbench_core.model.heap cimport timer_push
from kernbench_core.types cimport NONE, cycle_t, int32_t, slot_t


cdef cycle_t hidden_load(Array* a, ArrayJob* j, cycle_t waited) noexcept nogil:
    """The cycles of a job's load that the array did in the `waited` cycles before, beside the last fold of another job."""
    cdef cycle_t left
    waited = min(waited, a.last)
    left = max(0, max(j.load - waited, j.port - min(waited, a.spare)))
    return max(j.load, j.port) - left


cdef void array_enter(Sim* s, int32_t c, cycle_t now) noexcept nogil:
    """The head of the queue is about to start: find the cycles of its body in which it does not hold the array."""
    cdef Compute* e = &s.compute[c]
    cdef Array* a = &s.array[c]
    cdef ComputeJob* job = &s.compute_job[e.queue_first]
    cdef ArrayJob* j = &s.array_job[e.queue_first]
    cdef cycle_t issue = s.control.entry[job.entry].issue
    cdef cycle_t hidden = 0
    if a.draining == 0:
        a.since = now
    if issue < a.free_from:
        hidden = hidden_load(a, j, (on_period(a.free_from, e.period) - on_period(issue, e.period)) // e.period)
    e.outside = j.drain + max(0, min(hidden, job.body - j.drain - 1))


cdef void array_leave(Sim* s, int32_t c, cycle_t now) noexcept nogil:
    """P7: the job that holds the array has streamed in `now` for the last time."""
    cdef Compute* e = &s.compute[c]
    cdef Array* a = &s.array[c]
    cdef slot_t slot = e.job
    cdef ArrayJob* j = &s.array_job[slot]
    cdef cycle_t rest = j.drain + s.compute_job[slot].finalize
    j.left = a.free_from = now + 1
    a.last = j.last
    a.spare = j.spare
    j.held = e.conflict - e.conflict_before if s.trace != NULL else 0
    j.ends = on_period(now + 1, e.period) + (rest - 1) * e.period + 1 if rest else now + 1
    s.compute_job[slot].next = NONE
    e.job = NONE
    if a.draining:
        j.ends = max(j.ends, s.array_job[a.drain_last].ends)
        s.compute_job[a.drain_last].next = slot
    else:
        a.drain_first = slot
        timer_push(&s.ends, j.ends - 1, s.n_compute + c)
    a.drain_last = slot
    a.draining += 1


cdef int32_t array_drained(Sim* s, int32_t c, cycle_t end) noexcept nogil:
    """The first job of the list has ended: count it; returns its entry."""
    cdef Compute* e = &s.compute[c]
    cdef Array* a = &s.array[c]
    cdef ComputeJob* job = &s.compute_job[a.drain_first]
    a.drain_first = job.next
    a.draining -= 1
    count_job(e, job)
    if a.draining:
        timer_push(&s.ends, s.array_job[a.drain_first].ends - 1, s.n_compute + c)
    elif e.job == NONE:
        e.job_cycles += end - a.since
    return job.entry
