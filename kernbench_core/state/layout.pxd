"""Makes the tables of a run from plain numbers."""
from kernbench_core.state.arena cimport Arena
from kernbench_core.model.sim cimport Sim

cdef int lay_out(Sim* s, Arena a, dict machine, dict program) except -1
cdef int lay_out_traces(Sim* s, Arena a, bint wanted) except -1
