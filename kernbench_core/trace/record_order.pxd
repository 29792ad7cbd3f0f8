"""The order of the lines of a trace."""
from kernbench_core.trace.events cimport Tracer
from kernbench_core.types cimport cycle_t, int64_t

cdef int64_t arrange(Tracer* t, cycle_t before) noexcept nogil
