"""The rules of sharing, by number (`Allocation`)."""
from kernbench_core.model.share.membership cimport Share
from kernbench_core.types cimport cycle_t

cdef struct ShareRule:
    void (*rates)(Share* s, cycle_t now) noexcept nogil  # P4: the rates of flows on resources whose membership changed
    bint queues               # who could use a DRAM channel stands in its line; the rule says who of them is a member
    bint local                # a change reaches no flow but those on changed resources

cdef ShareRule[5] SHARE_RULES  # by `Allocation`

cdef void share_rates(Share* s, cycle_t now) noexcept nogil
