"""A scratchpad through time: who asks, who is granted, what moves (P5 and P6)."""
from kernbench_core.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t

cdef void scratchpad_advance(Sim* s, int32_t spm, cycle_t to) noexcept nogil
cdef void scratchpad_touch(Sim* s, int32_t spm, cycle_t now) noexcept nogil
