"""Many cycles of a scratchpad at once, where that is exactly equal to stepping them."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, int64_t

cdef bint scratchpad_uncontended(Sim* s, int32_t spm) noexcept nogil
cdef cycle_t scratchpad_next(Sim* s, int32_t spm) noexcept nogil
cdef void scratchpad_jump(Sim* s, int32_t spm, cycle_t now, int64_t cycles) noexcept nogil
