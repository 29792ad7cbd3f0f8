"""A scratchpad through time: who asks, who is granted, what moves (P5 and P6)."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, slot_t

cdef void scratchpad_advance(Sim* s, int32_t spm, cycle_t to) noexcept nogil
cdef slot_t* turn_of(Sim* s, Spm* p, cycle_t now) noexcept nogil
cdef void wide_cycle(Sim* s, Spm* p, slot_t* order) noexcept nogil
cdef void scratchpad_due(Sim* s, int32_t spm, cycle_t to) noexcept nogil
cdef void scratchpad_touch(Sim* s, int32_t spm, cycle_t now) noexcept nogil
