"""`oldest_first`: requests that have waited `max_wait_cycles` go first, the oldest before the others; then the tie-break order."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport OLDEST_FIRST, cycle_t, int32_t, slot_t

cdef slot_t* aged_first(Sim* s, Spm* p, slot_t* order, int32_t n, cycle_t now) noexcept nogil
cdef void oldest_first(Sim* s, Spm* p, cycle_t now) noexcept nogil

cdef inline bint by_age(Spm* p) noexcept nogil:
    """The scratchpad has this arbiter: fast paths know no other."""
    return p.arbiter == OLDEST_FIRST

cdef inline bint may_be_aged(Spm* p, cycle_t now) noexcept nogil:
    """A request may have waited `max_wait_cycles` in cycle `now`; if not, the order is the tie-break order."""
    return p.n_held and now + 1 - p.oldest > p.max_wait

cdef inline slot_t* order_of(Sim* s, Spm* p, cycle_t now) noexcept nogil:
    """The requesters in the order of arbitration of one cycle."""
    return aged_first(s, p, p.order, p.n_order, now) if may_be_aged(p, now) else p.order
