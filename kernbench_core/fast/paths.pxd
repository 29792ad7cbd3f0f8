"""Fast paths, and a scratchpad through time."""
from kernbench_core.model.arbiter.oldest_first cimport aged_first, may_be_aged
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, slot_t

cdef void scratchpad_advance(Sim* s, int32_t spm, cycle_t to) noexcept nogil
cdef void scratchpad_due(Sim* s, int32_t spm, cycle_t to) noexcept nogil
cdef void scratchpad_touch(void* sim, int32_t spm, cycle_t now) noexcept nogil
cdef void settle_dense(Sim* s, Spm* p) noexcept nogil

cdef inline slot_t* order_of(Sim* s, Spm* p, cycle_t now) noexcept nogil:
    """The requesters in the order of arbitration of one cycle."""
    return aged_first(s, p, p.order, p.n_order, now) if may_be_aged(p, now) else p.order
