"""One cycle of a scratchpad: requests, grants and progress (P5 and P6)."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t

cdef void requests_phase(Sim* s, Spm* p, cycle_t now) noexcept nogil
cdef void progress_phase(Sim* s, Spm* p, cycle_t now) noexcept nogil
cdef void scratchpads_cycle(Sim* s, cycle_t now) noexcept nogil
