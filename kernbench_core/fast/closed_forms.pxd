"""Many cycles of a scratchpad at once, in which no request is denied."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.dram.extent cimport Dram
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int64_t

cdef bint closed_form_advance(Sim* s, Spm* p, cycle_t to) noexcept nogil
cdef bint banks_differ(Spm* p, Dram* d, int64_t lines) noexcept nogil
