"""Masks of banks, 64 to a word."""
from kernbench_core.types cimport int32_t, uint64_t

cdef inline void set_run(uint64_t* mask, int32_t first, int32_t n) noexcept nogil:
    """Set `n` bits from bit `first` on, word by word."""
    cdef int32_t w = first >> 6, bit = first & 63, take
    while n > 0:
        take = 64 - bit if 64 - bit < n else n
        mask[w] |= (<uint64_t>-1 >> (64 - take)) << bit
        n -= take
        w += 1
        bit = 0
