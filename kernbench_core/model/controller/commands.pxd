"""The commands of a DRAM clock: C5 and C7 of docs/model/dram_controller.md."""
from kernbench_core.model.controller.requests cimport Channel, Controllers, Request
from kernbench_core.model.controller.timing cimport clock_t
from kernbench_core.types cimport int32_t

cdef clock_t controller_clock(Controllers* d, Channel* c, clock_t now) noexcept nogil
cdef void choose_direction(Controllers* d, Channel* c) noexcept nogil
