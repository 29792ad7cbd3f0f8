"""`open`: a row stays open until a burst wants another one of its bank, or a refresh is due."""
from kernbench_core.model.dram.devices cimport Controller, Devices
from kernbench_core.types cimport cycle_t, int32_t

cdef int32_t keep_open(Devices* d, Controller* c, cycle_t now, cycle_t* soonest) noexcept nogil
