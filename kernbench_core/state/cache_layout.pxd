"""Tables of last-level caches."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.state.arena cimport Arena
from kernbench_core.types cimport int32_t, int64_t

cdef int lay_out_write_backs(Sim* s, Arena a, int32_t first, list caches) except -1
cdef int lay_out_caches(Sim* s, Arena a, list caches, int64_t flows) except -1
