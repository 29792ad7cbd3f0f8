from kernbench_core.model.noc.routers cimport Network
from kernbench_core.types cimport cycle_t, slot_t

cdef void network_send(Network* w, slot_t packet) noexcept nogil
cdef void network_clock(Network* w, cycle_t now) noexcept nogil
cdef cycle_t network_next(Network* w, cycle_t now) noexcept nogil
