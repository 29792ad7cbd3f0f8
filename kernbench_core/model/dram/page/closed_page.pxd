"""`closed`: a row is closed as soon as no burst in the queue wants it."""
from kernbench_core.model.dram.devices cimport Controller, Devices
from kernbench_core.types cimport cycle_t, int32_t

cdef int32_t close_unwanted(Devices* d, Controller* c, cycle_t now, cycle_t* soonest) noexcept nogil
