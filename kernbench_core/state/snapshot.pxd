"""A run's model state as bytes (docs/adr/0009-checkpoints.md)."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.state.fields cimport Visitor
from kernbench_core.types cimport int32_t, int64_t, slot_t

cdef bytes take_snapshot(Sim* s)
cdef int64_t max_bytes(Sim* s)
cdef dict show_snapshot(Sim* s)
cdef int check_same(Sim* s, bytes image) except -1
cdef int visit_queue(Sim* s, Visitor v) except -1
cdef int visit_engines(Sim* s, Visitor v) except -1
cdef int visit_flows(Sim* s, Visitor v, slot_t* live, int32_t n) except -1
cdef int32_t live_flows(Sim* s, slot_t* live) noexcept nogil
