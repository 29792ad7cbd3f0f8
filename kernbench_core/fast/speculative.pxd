"""Blocks that are walked in the hope that nothing comes of age in them."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t

cdef bint speculative_can(Sim* s, Spm* p, cycle_t to) noexcept nogil
cdef void speculative_advance(Sim* s, Spm* p, cycle_t to) noexcept nogil
