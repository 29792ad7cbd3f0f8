"""One cycle: the phases of docs/model/time_and_phases.md, P1 to P7, in their order."""
from kernbench_core.model.cache cimport caches_due
from kernbench_core.model.cache_flows cimport caches_complete
from kernbench_core.model.control cimport control_issue
from kernbench_core.model.phases cimport complete_phase, share_due, share_phase, start_phase, submit_entry
from kernbench_core.model.shuffle cimport shuffle
from kernbench_core.model.sim cimport Sim
from kernbench_core.plugin.component cimport component_complete, component_due, component_ends, component_wake
from kernbench_core.types cimport ABORTED, DEADLOCK, DONE, FAILED, NEVER, OVERFLOW, RUNNING, cycle_t, int32_t

cdef void run_plain(Sim* s, cycle_t limit) noexcept nogil
cdef bint only_components_wait(Sim* s) noexcept nogil

cdef inline bint finished(Sim* s) noexcept nogil:
    """All entries are complete, and no component has an open job."""
    return s.control.completed + s.control.n_finished == s.control.n and (s.plugs == NULL or s.plugs.open == 0)

cdef inline bint pending_jobs(Sim* s) noexcept nogil:
    """Whether the next cycle has work for P2 or P3, a flow returns to its resources, or the cycle must be simulated by itself."""
    return (s.any_wanted or s.control.limited or s.n_rejoin or s.control.n_finished
            or (s.control.in_flight == 0 and s.control.mmio_at == NEVER and (s.plugs == NULL or s.plugs.open == 0)) or s.stops.hit)

cdef inline bint pending(Sim* s) noexcept nogil:
    """Whether the next cycle has work for P2, P3 or P4, or must be simulated by itself."""
    return s.share.n_dirty or pending_jobs(s)

cdef inline bint wake_phase(Sim* s, cycle_t now) noexcept nogil:
    """P1; false if the run has ended."""
    if finished(s):
        s.status = DONE
        return False
    component_wake(s, now)
    if s.plugs.mistake:
        s.status = FAILED
        return False
    return True

cdef inline bint control_phase(Sim* s, cycle_t now) noexcept nogil:
    """P2; false if the run has ended."""
    cdef int32_t issued = 0
    if finished(s):                            # also before cycle 0, for an empty program
        s.status = DONE
        return False
    if s.control.n_finished or s.control.limited or now == 0 or s.control.in_flight == 0 or s.control.mmio_at <= now:
        issued = control_issue(&s.control, now, submit_entry, s)
    if finished(s):
        s.status = DONE
        return False
    if s.control.in_flight == 0 and issued == 0 and s.control.mmio_at == NEVER and (s.plugs == NULL or s.plugs.open == 0):
        s.status = DEADLOCK
        return False
    return True

cdef inline bint begin_cycle(Sim* s, cycle_t now) noexcept nogil:
    """P1 and P2; false if the run has ended."""
    if now >= s.max_cycles and not finished(s):
        s.status = ABORTED
        return False
    if component_due(s, now) and not wake_phase(s, now):
        return False
    if s.shuffle:
        shuffle(s, s.control.finished, s.control.n_finished)
    return control_phase(s, now)

cdef inline bint goes_on(Sim* s, cycle_t limit) noexcept nogil:
    """Whether there is a cycle to run before `limit`. If a trace has a batch of records, the batch must be written first."""
    return s.status == RUNNING and s.cycle < limit and not s.stops.hit and (s.trace == NULL or s.trace.n < s.trace.full)

cdef inline bint start_and_share(Sim* s, cycle_t now) noexcept nogil:
    """P3 and P4; false if the run ends before the end of the cycle."""
    if s.any_wanted:
        start_phase(s, now)
        if s.status != RUNNING:
            return False
    if share_due(s, now):
        share_phase(s, now)
        if s.share.overflow:
            s.status = OVERFLOW
            return False
    return True

cdef inline void end_cycle(Sim* s, cycle_t now) noexcept nogil:
    """P7. A failure of a component or an arbiter since P1 ends the run after this cycle."""
    if s.n_pressed or s.n_done_flow or s.n_done_compute or s.ends.n:
        complete_phase(s, now)
    if caches_due(s.caches, now):
        caches_complete(s, now)
    if s.arbiter != NULL and s.arbiter.mistake:
        s.status = FAILED
    if s.plugs == NULL:
        return
    if component_ends(s.plugs, now):
        component_complete(s, now)
    if s.plugs.mistake:
        s.status = FAILED
