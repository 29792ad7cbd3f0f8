"""Groups of scratchpads that share no resource with others (docs/adr/0037-groups.md)."""
from kernbench_core.plugin.component cimport component_complete, component_ends
from kernbench_core.fast.group cimport Group
from kernbench_core.fast.horizons cimport scratchpad_phase
from kernbench_core.model.phases cimport complete_phase, share_due, share_phase, start_phase
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport FAILED, OVERFLOW, RUNNING, cycle_t, int32_t

cdef void group_enter(Sim* s, Group* g) noexcept nogil
cdef void group_leave(Sim* s, Group* g) noexcept nogil
cdef cycle_t groups_until(Sim* s, cycle_t limit) noexcept nogil
cdef void groups_run(Sim* s, cycle_t to) noexcept nogil
cdef cycle_t groups_next(Sim* s, cycle_t limit) noexcept nogil

cdef inline void group_end(Sim* s, cycle_t now) noexcept nogil:
    """P7. A component's mistake since P1 ends the run after this cycle."""
    if s.n_pressed or s.n_done_flow or s.n_done_compute or s.ends.n:
        complete_phase(s, now)
    if s.plugs == NULL:
        return
    if component_ends(s.plugs, now):
        component_complete(s, now)
    if s.plugs.mistake:
        s.status = FAILED

cdef inline bint group_cycle(Sim* s, cycle_t now) noexcept nogil:
    """P3 to P7 of the group whose turn it is; false where the run is over before the end of the cycle."""
    if s.any_wanted:
        start_phase(s, now)
        if s.status != RUNNING:
            return False
    if share_due(s, now):
        share_phase(s, now)
        if s.share.overflow:
            s.status = OVERFLOW
            return False
    scratchpad_phase(s, now)
    group_end(s, now)
    return True
