"""The class `Core`, and the functions that continue its run."""
from kernbench_core.state.arena cimport Arena
from kernbench_core.trace.events cimport Tracer
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t

cdef void run_until(Sim* s, cycle_t limit, bint skip, Tracer* trace) noexcept nogil

cdef class Core:
    cdef Sim sim
    cdef Arena arena
    cdef list components
    cdef object arbiter       # the user-defined arbiter of the run, or None
    cdef int refuse_saving(self) except -1
    cdef bint has_plugs(self)
    cdef int restore_whole(self, bytes image) except -1
