"""P4 under row_buffer_v1."""
from kernbench_core.model.dram.devices cimport Devices
from kernbench_core.model.dram.extent cimport Extent
from kernbench_core.model.share.membership cimport Share
from kernbench_core.types cimport cycle_t, int32_t, slot_t

cdef void fetch_open(Share* s, slot_t flow, Extent* x, int32_t memory, bint write) noexcept nogil
cdef void device_phase(Share* s, cycle_t now) noexcept nogil
cdef bint devices_still(Share* s) noexcept nogil
