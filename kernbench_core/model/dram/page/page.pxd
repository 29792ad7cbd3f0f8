"""The page policies of DRAM controllers, by number."""
from kernbench_core.model.dram.devices cimport Controller, Devices
from kernbench_core.types cimport N_PAGE_POLICIES, cycle_t, int32_t

cdef struct PagePolicy:       # a rule
    # The bank whose row is closed now, though no burst wants another row of it; or NONE, and in `soonest` the cycle from which
    # one may be closed. It is asked in clocks without another row command.
    int32_t (*closes)(Devices* d, Controller* c, cycle_t now, cycle_t* soonest) noexcept nogil

cdef PagePolicy[N_PAGE_POLICIES] PAGE_POLICIES  # by `PageRule`
