"""The tick loop of the plain model: every phase of every cycle, and every scratchpad in it.

fast/loop.pyx runs the same phases, and leaves out what it is licensed to.
"""
from kernbench_core.model.control cimport control_issue
from kernbench_core.model.dram.row_buffer cimport row_still
from kernbench_core.model.phases cimport submit_entry
from kernbench_core.model.scratchpad cimport scratchpads_cycle
from kernbench_core.model.shuffle cimport shuffle
from kernbench_core.plugin.component cimport component_due, component_next, component_wake
from kernbench_core.types cimport ABORTED, DEADLOCK, DONE, NEVER, int32_t, int64_t


cdef bint finished(Sim* s) noexcept nogil:
    """All entries are complete, and no component has an open job."""
    return s.control.completed + s.control.n_finished == s.control.n and (s.plugs == NULL or s.plugs.open == 0)


cdef bint pending(Sim* s) noexcept nogil:
    """The next cycle has work for P2, P3 or P4, or must be looked at by itself."""
    return (s.any_wanted or s.control.limited or s.n_rejoin or s.share.n_dirty or s.control.n_finished
            or (s.control.in_flight == 0 and (s.plugs == NULL or s.plugs.open == 0)) or s.stops.hit)


cdef bint wake_phase(Sim* s, cycle_t now) noexcept nogil:
    """P1; false where the run is over."""
    if finished(s):
        s.status = DONE
        return False
    component_wake(s, now)
    if s.plugs.mistake:
        s.status = FAILED
        return False
    return True


cdef bint control_phase(Sim* s, cycle_t now) noexcept nogil:
    """P2; false where the run is over."""
    cdef int32_t issued = 0
    if finished(s):                            # also before cycle 0 of an empty program
        s.status = DONE
        return False
    if s.control.n_finished or s.control.limited or now == 0 or s.control.in_flight == 0:
        issued = control_issue(&s.control, now, submit_entry, s)
    if finished(s):
        s.status = DONE
        return False
    if s.control.in_flight == 0 and issued == 0 and (s.plugs == NULL or s.plugs.open == 0):
        s.status = DEADLOCK
        return False
    return True


cdef bint begin_cycle(Sim* s, cycle_t now) noexcept nogil:
    """P1 and P2; false where the run is over."""
    if now >= s.max_cycles and not finished(s):
        s.status = ABORTED
        return False
    if component_due(s, now) and not wake_phase(s, now):
        return False
    if s.shuffle:
        shuffle(s, s.control.finished, s.control.n_finished)
    return control_phase(s, now)


cdef bint stuck(Sim* s) noexcept nogil:
    """After P2: jobs are on their way, and nothing can ever happen again. A refresh of DRAM that no transfer waits for is nothing."""
    cdef int32_t k, i
    if pending(s) or s.joins.n or s.ends.n or s.plugs != NULL and component_next(s.plugs) != NEVER:
        return False
    if s.share.rows != NULL and not row_still(&s.share):
        return False
    for k in range(s.n_spm):
        for i in range(s.spm[k].n_order):
            if s.lane[s.spm[k].order[i]].next_at != NEVER:
                return False
    return True


cdef void run_plain(Sim* s, cycle_t limit) noexcept nogil:
    """Run the cycles before `limit`, one after the other."""
    cdef cycle_t now
    cdef int64_t denied = s.denied
    while goes_on(s, limit):
        now = s.cycle
        if not begin_cycle(s, now):
            break
        if stuck(s):
            s.status = DEADLOCK
            break
        if not start_and_share(s, now):
            break
        scratchpads_cycle(s, now)
        end_cycle(s, now)
        s.cycle = now + 1
        if s.stops.on_conflict and s.denied != denied:
            s.stops.hit = True
