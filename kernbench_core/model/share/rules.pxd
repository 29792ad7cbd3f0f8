"""The allocation rules, by number (`Allocation`)."""
from kernbench_core.model.share.membership cimport Share
from kernbench_core.types cimport cycle_t

cdef struct ShareRule:
    void (*rates)(Share* s, cycle_t now) noexcept nogil  # P4: sets the rates of flows on resources whose membership changed
    bint queues  # whether flows that can use a DRAM channel wait in its line; the rule chooses the member among them
    bint local                # whether a change affects only flows on changed resources

cdef ShareRule[5] SHARE_RULES  # indexed by `Allocation`

cdef void share_rates(Share* s, cycle_t now) noexcept nogil
