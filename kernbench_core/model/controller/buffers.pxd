"""P4 under row_buffer_v2: buffers of flows, members and rates (C1 to C3 of docs/model/dram_controller.md)."""
from kernbench_core.model.controller.requests cimport Channel, Controllers, Port
from kernbench_core.model.dram.extent cimport Extent
from kernbench_core.model.share.membership cimport Share
from kernbench_core.types cimport cycle_t, int32_t, int64_t, slot_t

cdef void port_open(Share* s, slot_t flow, Extent* x, int32_t memory, bint write) noexcept nogil
cdef void port_close(Share* s, slot_t flow) noexcept nogil
cdef void port_update(Share* s, Controllers* d, Channel* c, slot_t flow, cycle_t now) noexcept nogil
cdef void controllers_phase(Share* s, cycle_t now) noexcept nogil
cdef bint controllers_still(Share* s) noexcept nogil
