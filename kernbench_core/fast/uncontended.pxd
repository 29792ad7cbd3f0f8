"""Scratchpads in which no request can be denied until requesters change."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport int32_t

cdef bint scratchpad_uncontended(Sim* s, int32_t spm) noexcept nogil

cdef inline bint uncontended_can(Sim* s, Spm* p) noexcept nogil:
    """Nobody asks, or no bank can have more askers than ports."""
    return p.n_order == 0 or s.skip and p.n_pairs == 0 and scratchpad_uncontended(s, <int32_t>(p - s.spm))
