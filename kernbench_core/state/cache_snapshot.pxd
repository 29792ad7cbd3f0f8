"""The part of a snapshot for last-level caches."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.state.fields cimport Visitor
from kernbench_core.types cimport int64_t

cdef void settle_caches(Sim* s) noexcept nogil
cdef int visit_caches(Sim* s, Visitor v) except -1
cdef int visit_write_backs(Sim* s, Visitor v) except -1
cdef int64_t max_cache_bytes(Sim* s) noexcept nogil
cdef void reset_caches(Sim* s) noexcept nogil
cdef int resume_write_backs(Sim* s) except -1
