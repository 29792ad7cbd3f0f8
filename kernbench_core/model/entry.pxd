"""Start and end of the job of an entry."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t

cdef void entry_started(Sim* s, int32_t entry, cycle_t now) noexcept nogil
cdef void entry_ended(Sim* s, int32_t entry, cycle_t end) noexcept nogil
