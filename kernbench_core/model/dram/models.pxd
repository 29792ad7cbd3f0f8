"""The DRAM models with a state of their own: row_buffer_v1 (model/dram) and row_buffer_v2 (model/controller)."""
from kernbench_core.model.dram.extent cimport Extent
from kernbench_core.model.share.membership cimport Share
from kernbench_core.types cimport cycle_t, int32_t, slot_t

cdef void dram_open(Share* s, slot_t flow, Extent* x, int32_t memory, bint write) noexcept nogil
cdef void dram_close(Share* s, slot_t flow) noexcept nogil
cdef void dram_phase(Share* s, cycle_t now) noexcept nogil
cdef bint dram_still(Share* s) noexcept nogil
