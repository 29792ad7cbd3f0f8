"""`fr_fcfs_cap`: as `fr_fcfs`, while fewer than `batch_bursts` bursts have passed the oldest of the bank."""
from kernbench_core.model.dram.devices cimport Controller, Devices

cdef void mark_capped(Devices* d, Controller* c) noexcept nogil
