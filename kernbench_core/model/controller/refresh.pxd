"""Refresh: C7 of docs/model/dram_controller.md."""
from kernbench_core.model.controller.requests cimport Channel, Controllers
from kernbench_core.model.controller.timing cimport clock_t

cdef clock_t refresh_look(Controllers* d, Channel* c, clock_t now) noexcept nogil
cdef clock_t refresh_command(Controllers* d, Channel* c, clock_t now, bint* gave) noexcept nogil
