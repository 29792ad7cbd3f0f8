"""The cycle: the phases of MODEL section 1 in their order."""
from kernbench_core.model.phases cimport complete_phase, share_due, share_phase, start_phase
from kernbench_core.model.sim cimport Sim
from kernbench_core.plugin.component cimport component_complete, component_ends
from kernbench_core.types cimport FAILED, OVERFLOW, RUNNING, cycle_t

cdef bint finished(Sim* s) noexcept nogil
cdef bint pending(Sim* s) noexcept nogil
cdef bint begin_cycle(Sim* s, cycle_t now) noexcept nogil
cdef void run_plain(Sim* s, cycle_t limit) noexcept nogil

cdef inline bint goes_on(Sim* s, cycle_t limit) noexcept nogil:
    """There is a cycle to run before `limit`. A trace with a batch of records is written first."""
    return s.status == RUNNING and s.cycle < limit and not s.stops.hit and (s.trace == NULL or s.trace.n < s.trace.full)

cdef inline bint start_and_share(Sim* s, cycle_t now) noexcept nogil:
    """P3 and P4; false where the run is over before the end of the cycle."""
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
    """P7. A component's mistake since P1 ends the run after this cycle."""
    if s.n_pressed or s.n_done_flow or s.n_done_compute or s.ends.n:
        complete_phase(s, now)
    if s.plugs == NULL:
        return
    if component_ends(s.plugs, now):
        component_complete(s, now)
    if s.plugs.mistake:
        s.status = FAILED
