"""Many cycles of a scratchpad at once, where that is exactly equal to stepping them."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t

cdef cycle_t scratchpad_next(Sim* s, int32_t spm) noexcept nogil
cdef bint uncontended_can(Sim* s, Spm* p, cycle_t to) noexcept nogil
cdef void uncontended_advance(Sim* s, Spm* p, cycle_t to) noexcept nogil
cdef bint conflict_free_can(Sim* s, Spm* p, cycle_t to) noexcept nogil
cdef void conflict_free_advance(Sim* s, Spm* p, cycle_t to) noexcept nogil
