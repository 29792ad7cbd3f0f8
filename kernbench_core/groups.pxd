"""Groups of scratchpads that share no resource with others (docs/adr/0037-groups.md)."""
from kernbench_core.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t

cdef bint group_cycle(Sim* s, cycle_t now) noexcept nogil
cdef void group_end(Sim* s, cycle_t now) noexcept nogil
cdef cycle_t groups_until(Sim* s, cycle_t limit) noexcept nogil
cdef void groups_run(Sim* s, cycle_t to) noexcept nogil
cdef cycle_t groups_next(Sim* s, cycle_t limit) noexcept nogil
