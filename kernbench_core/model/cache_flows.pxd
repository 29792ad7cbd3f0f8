"""The interface between the last-level cache, transfers and DRAM channels."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, nbytes_t, slot_t

cdef void cache_look_up(Sim* s, slot_t job, cycle_t now) noexcept nogil
cdef bint cache_reserve(Sim* s, slot_t job) noexcept nogil
cdef void cache_release(Sim* s, slot_t job) noexcept nogil
cdef void cache_find_area(Sim* s, slot_t job) noexcept nogil
cdef void cache_describe_queue(Sim* s, int32_t channel) noexcept nogil
cdef void cache_open_queue(Sim* s, int32_t channel) noexcept nogil
cdef void caches_find_next(Sim* s) noexcept nogil
cdef void caches_complete(Sim* s, cycle_t now) noexcept nogil
cdef void settle_queue(Sim* s, slot_t slot, cycle_t at) noexcept nogil
cdef nbytes_t cache_pending(Sim* s, int32_t channel) noexcept nogil
