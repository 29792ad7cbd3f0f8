"""Setup of components before a run, and reports about them."""
from kernbench_core.state.arena cimport Arena
from kernbench_core.model.sim cimport Sim

cdef int plug_sizes(Sim* s, list operations) except -1
cdef int lay_out_plugs(Sim* s, Arena a, list operations, dict machine, dict program) except -1
cdef object plug_failure(Sim* s)
cdef list plug_counters(Sim* s)
cdef bytes plug_snapshot(Sim* s)
cdef int plug_check_snapshot(Sim* s) except -1
cdef int plug_restore(Sim* s, bytes image, size_t at) except -1
