"""What the controller of a DRAM channel chooses in each clock under row_buffer_v1."""
from kernbench_core.model.dram.devices cimport Controller, Devices
from kernbench_core.types cimport cycle_t

cdef void controller_turn(Devices* d, Controller* c, cycle_t now) noexcept nogil
