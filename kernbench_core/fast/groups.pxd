"""Groups of scratchpads that share no resource with others (docs/adr/0035-groups.md)."""
from kernbench_core.fast.group cimport Group
from kernbench_core.fast.horizon cimport scratchpad_phase
from kernbench_core.model.loop cimport end_cycle, start_and_share
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t

cdef void group_enter(Sim* s, Group* g) noexcept nogil
cdef void group_leave(Sim* s, Group* g) noexcept nogil
cdef cycle_t groups_until(Sim* s, cycle_t limit) noexcept nogil
cdef void groups_run(Sim* s, cycle_t to) noexcept nogil
cdef cycle_t groups_next(Sim* s, cycle_t limit) noexcept nogil

cdef inline bint group_cycle(Sim* s, cycle_t now) noexcept nogil:
    """P3 to P7 of the group that is being run; false if the run ends before the end of the cycle."""
    if not start_and_share(s, now):
        return False
    scratchpad_phase(s, now)
    end_cycle(s, now)
    return True
