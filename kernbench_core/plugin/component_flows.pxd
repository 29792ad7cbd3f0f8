"""Flows of components: bytes over resources, without a scratchpad at the end."""
from kernbench_core.plugin.component_tables cimport Plugs
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, int64_t, nbytes_t, slot_t

cdef int64_t flow_open(Sim* s, int32_t c, nbytes_t nbytes, const int32_t* path, int32_t n, int32_t weight, cycle_t at) noexcept nogil
cdef int64_t flow_close(Sim* s, int32_t c, int64_t id, cycle_t at) noexcept nogil
cdef void flow_due(Sim* s, slot_t k, cycle_t now) noexcept nogil
cdef void flow_free(Plugs* p, int32_t c, slot_t k) noexcept nogil
cdef nbytes_t flow_moved(Sim* s, slot_t k, cycle_t at) noexcept nogil
