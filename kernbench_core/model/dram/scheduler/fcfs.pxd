"""`fcfs`: first come, first served: the oldest burst of the queue."""
from kernbench_core.model.dram.devices cimport Burst, Controller, Devices
from kernbench_core.types cimport cycle_t, int32_t

cdef void mark_oldest(Devices* d, Controller* c) noexcept nogil
cdef int32_t oldest(Devices* d, Controller* c, cycle_t now, cycle_t* soonest) noexcept nogil
