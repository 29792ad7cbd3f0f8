from kernbench_core.model.noc.routers cimport Network, Router
from kernbench_core.types cimport cycle_t, int32_t

cdef int32_t match_switch(Network* w, Router* r, cycle_t now) noexcept nogil
cdef void match_channels(Network* w, Router* r) noexcept nogil
