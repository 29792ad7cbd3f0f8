"""The page policies of DRAM controllers, by number (C5)."""
from kernbench_core.model.controller.requests cimport Channel, Controllers
from kernbench_core.model.controller.timing cimport BankState, clock_t

cdef enum ControllerPage:     # in the order of PAGES in kernbench/config/dram_controller.py: append
    OPEN_PAGES
    CLOSED_PAGES
    ADAPTIVE_PAGES
    N_CONTROLLER_PAGES

cdef struct PagePolicy:       # one page policy
    # The first clock from `now` on in which the policy closes the open row of a bank, if no request needs this row; NEVER: the row
    # stays open. NULL: the policy never closes a row, so the controller does not look for one.
    clock_t (*closes_at)(Controllers* d, BankState* b, clock_t now) noexcept nogil

cdef PagePolicy[<int>N_CONTROLLER_PAGES] CONTROLLER_PAGES  # indexed by `ControllerPage`

cdef clock_t close_page(Controllers* d, Channel* c, clock_t now, bint* issued) noexcept nogil
