"""The cycle before which no request is denied."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t

cdef bint find_conflict_free(Sim* s, int32_t spm) noexcept nogil
cdef void invalidate_conflict_free(Sim* s, Spm* p, cycle_t now) noexcept nogil
cdef void save_back_offs(Sim* s) noexcept nogil
cdef void restore_back_offs(Sim* s) noexcept nogil

cdef inline bint conflict_free_can(Spm* p) noexcept nogil:
    """Whether the conflict-free horizon is in the future."""
    return p.lookahead.conflict_free > p.done
