from kernbench_core.model.noc.routers cimport Network
from kernbench_core.types cimport cycle_t

cdef void match_switches(Network* w, cycle_t now) noexcept nogil
cdef void match_channels(Network* w) noexcept nogil
