"""Groups of scratchpads that run ahead at the same time, in host threads (docs/adr/0062-threads.md)."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.state.arena cimport Arena
from kernbench_core.types cimport cycle_t, int32_t

# Runs the cycles of one group before a given cycle.
ctypedef void (*group_fn)(Sim* s, int32_t group, cycle_t to) noexcept nogil

cdef int lay_out_threads(Sim* s, Arena a, int32_t n) except -1
cdef int32_t threads_of(Sim* s) noexcept nogil
cdef void threads_run(Sim* s, group_fn advance, cycle_t to) noexcept nogil
cdef bint next_early(Sim* s, int32_t* entry) noexcept nogil
