"""Up to when nothing is denied."""
from kernbench_core.bank cimport Spm
from kernbench_core.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t

cdef bint scratchpad_clear(Sim* s, int32_t spm) noexcept nogil
cdef void clear_over(Sim* s, Spm* p, cycle_t now) noexcept nogil
cdef void keep_looks(Sim* s) noexcept nogil
cdef void take_looks(Sim* s) noexcept nogil
