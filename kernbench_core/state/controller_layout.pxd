"""The tables of row_buffer_v2."""
from kernbench_core.model.controller.requests cimport Controllers
from kernbench_core.state.arena cimport Arena
from kernbench_core.types cimport int32_t

cdef int lay_out_controllers(Controllers* d, Arena a, dict spec, int32_t channels, int32_t flows) except -1
