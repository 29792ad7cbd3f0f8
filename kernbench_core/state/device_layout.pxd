"""The tables of row_buffer_v1."""
from kernbench_core.state.arena cimport Arena
from kernbench_core.model.sim cimport Sim

cdef int lay_out_devices(Sim* s, Arena a, dict spec) except -1
