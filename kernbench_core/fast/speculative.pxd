"""Blocks that are walked in the hope that nothing comes of age in them."""
from kernbench_core.fast.block cimport block_can
from kernbench_core.model.bank cimport BLOCK, Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int64_t

cdef bint speculative_advance(Sim* s, Spm* p, cycle_t to) noexcept nogil

cdef inline bint speculative_can(Spm* p, cycle_t to) noexcept nogil:
    """A block of one order of arbitration would have to be shorter than it could be."""
    cdef int64_t n = min(<int64_t>BLOCK, to - p.done)
    cdef bint later = p.n_held and p.oldest < p.look.calm and p.done + n - p.oldest > p.max_wait
    return p.n_order > 0 and (n > p.max_wait and p.look.calm > p.done or later) and block_can(p)
