"""The page policies of DRAM controllers, by number."""
from kernbench_core.model.dram.devices cimport Controller, Devices
from kernbench_core.types cimport cycle_t, int32_t

cdef enum PageRule:           # in the order of PAGE_POLICIES in kernbench/config/dram_device.py: append
    OPEN_PAGE
    CLOSED_PAGE
    N_PAGE_POLICIES

cdef struct PagePolicy:       # one page policy
    # The bank whose row is closed now, although no burst needs another row of the bank; or NONE, with the cycle from which one
    # may be closed in `soonest`. The function is called in clocks without another row command.
    int32_t (*closes)(Devices* d, Controller* c, cycle_t now, cycle_t* soonest) noexcept nogil

cdef PagePolicy[<int>N_PAGE_POLICIES] PAGE_POLICIES  # indexed by `PageRule`
