"""Many cycles of a scratchpad at once, where that is exactly equal to stepping them."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t

cdef cycle_t scratchpad_next(Sim* s, int32_t spm) noexcept nogil
cdef bint scratchpad_uncontended(Sim* s, int32_t spm) noexcept nogil
cdef bint uncontended_advance(Sim* s, Spm* p, cycle_t to) noexcept nogil

cdef inline bint uncontended_can(Sim* s, Spm* p) noexcept nogil:
    """Nobody asks, or no bank can have more askers than ports."""
    return p.n_order == 0 or s.skip and p.n_pairs == 0 and scratchpad_uncontended(s, <int32_t>(p - s.spm))

cdef inline bint conflict_free_can(Spm* p) noexcept nogil:
    """The conflict-free horizon lies ahead."""
    return p.look.conflict_free > p.done
