"""Routes that are added at run time."""
from kernbench_core.state.arena cimport Arena
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport int64_t

cdef int64_t route_add(Sim* s, Arena a, int64_t memory, list links, int64_t latency, through) except -1
cdef int route_refuse_snapshot(Sim* s) except -1
