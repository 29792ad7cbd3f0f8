"""The loop that goes from event to event."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t

cdef void begin_fast(Sim* s, bint skip) noexcept nogil
cdef void run_fast(Sim* s, cycle_t limit, bint skip) noexcept nogil
cdef void catch_up(Sim* s) noexcept nogil
