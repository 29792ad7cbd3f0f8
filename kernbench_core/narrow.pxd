"""Scratchpads whose banks fit one word: their lanes are walked one after the other, each over a block of cycles."""
from kernbench_core.bank cimport Spm
from kernbench_core.sim cimport Sim
from kernbench_core.types cimport int64_t, slot_t

cdef void narrow_block(Sim* s, Spm* p, slot_t* order, int64_t n) noexcept nogil
cdef void narrow_count(Spm* p) noexcept nogil
