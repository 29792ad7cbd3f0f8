"""A machine's only scratchpad, from request to request, up to its next event."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t

cdef bint may_roll(Sim* s, Spm* p) noexcept nogil
cdef cycle_t roll(Sim* s, Spm* p, cycle_t to) noexcept nogil
