"""Transfers between two scratchpads: one flow that asks both (FORMATS, `kernbench/system/1`)."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, slot_t

cdef void pair_open(Sim* s, slot_t flow) noexcept nogil
cdef void pair_close(Sim* s, slot_t flow, cycle_t now) noexcept nogil
cdef void pair_turn(Sim* s, int32_t spm) noexcept nogil
cdef void pair_rest(Sim* s) noexcept nogil
cdef void paired_cycle(Sim* s, cycle_t now) noexcept nogil
