"""Room for transfers between scratchpads that components submit, and wakes of one component by another."""
from kernbench_core.state.arena cimport Arena
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport int64_t

cdef int peers_open(Sim* s, Arena a, list room) except -1
cdef int peers_wake(Sim* s, int64_t component, int64_t at) except -1
