"""The division of scratchpads into groups, and the part of each group in the lists."""
from kernbench_core.state.arena cimport Arena
from kernbench_core.model.sim cimport Sim

cdef int lay_out_groups(Sim* s, Arena a, list flows) except -1
cdef void reset_horizons(Sim* s) noexcept nogil
