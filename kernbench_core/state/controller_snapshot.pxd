"""The part of a snapshot for the controllers of DRAM channels under row_buffer_v2."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.state.fields cimport Visitor
from kernbench_core.types cimport int32_t, int64_t, slot_t

cdef int visit_controllers(Sim* s, Visitor v, slot_t* live, int32_t n) except -1
cdef int64_t max_controller_bytes(Sim* s) noexcept nogil
cdef void reset_controllers(Sim* s) noexcept nogil
cdef int resume_controllers(Sim* s, slot_t* live, int32_t n) except -1
