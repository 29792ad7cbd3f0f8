"""Scratchpads that are connected by transfers between scratchpads, cycle by cycle."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t

cdef void update_stepping(Sim* s, int32_t spm) noexcept nogil
cdef void reset_stepping(Sim* s) noexcept nogil
cdef void paired_cycle(Sim* s, cycle_t now) noexcept nogil
