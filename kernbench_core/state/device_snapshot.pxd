"""The part of a snapshot for the controllers of DRAM channels under row_buffer_v1."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.state.fields cimport Visitor
from kernbench_core.types cimport int32_t, int64_t, slot_t

cdef int visit_devices(Sim* s, Visitor v, slot_t* live, int32_t n) except -1
cdef int64_t max_device_bytes(Sim* s) noexcept nogil
cdef void reset_devices(Sim* s) noexcept nogil
cdef int resume_devices(Sim* s, slot_t* live, int32_t n) except -1
