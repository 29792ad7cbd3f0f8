"""Windows: cycles in which only open lanes make requests, handled eight lanes at a time."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t

cdef cycle_t first_request(Sim* s) noexcept nogil
cdef cycle_t first_other_request(Sim* s) noexcept nogil
cdef void find_due(Sim* s, cycle_t now) noexcept nogil
cdef bint run_window(Sim* s, Spm* p, cycle_t to) noexcept nogil
