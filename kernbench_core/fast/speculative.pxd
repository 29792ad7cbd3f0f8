"""Blocks that are walked in the hope that nothing comes of age in them."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport int64_t, slot_t

cdef bint may_try(Sim* s, Spm* p, int64_t* n) noexcept nogil
cdef bint try_block(Sim* s, Spm* p, int64_t n) noexcept nogil
