"""The queue of a DRAM controller: flows append bursts in turns, and the remaining bursts of a flow that ends are removed."""
from kernbench_core.model.dram.devices cimport Controller, Devices
from kernbench_core.model.share.membership cimport Share
from kernbench_core.types cimport slot_t

cdef void queue_burst(Share* s, Devices* d, Controller* c, slot_t flow) noexcept nogil
cdef void queue_fill(Share* s, Devices* d, slot_t bus) noexcept nogil
cdef void queue_forget(Share* s, slot_t flow) noexcept nogil
