from kernbench_core.model.sim cimport Sim
from kernbench_core.state.arena cimport Arena

cdef int lay_out_interfaces(Sim* s, Arena a, dict m) except -1
cdef int add_segments(Sim* s, Arena a, list segments) except -1
