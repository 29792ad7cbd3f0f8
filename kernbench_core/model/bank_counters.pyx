"""Bank counters.

Every request counts on all of its banks, so counting bank by bank would cost more than arbitration itself. The counters are
therefore bit-sliced: plane k holds bit k of all banks' counts, and adding a mask is a carry chain without a branch. Before a
count may pass 255 the eight planes are drained into 64-bit totals.
"""
from libc.string cimport memset

from kernbench_core.types cimport int32_t, int64_t, uint64_t


cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t v) noexcept nogil


cdef inline uint64_t spread(uint64_t* planes, int32_t shift) noexcept nogil:
    """The counts of eight banks, beginning at bit `shift`, with one byte for each: a transposed matrix of eight by eight
    bits."""
    cdef uint64_t x = 0, t
    cdef int32_t k
    for k in range(8):
        x |= (planes[k] >> shift & 255) << 8 * k
    t = (x ^ x >> 7) & 0x00AA00AA00AA00AAULL
    x ^= t ^ t << 7
    t = (x ^ x >> 14) & 0x0000CCCC0000CCCCULL
    x ^= t ^ t << 14
    t = (x ^ x >> 28) & 0x00000000F0F0F0F0ULL
    return x ^ t ^ t << 28


cdef void tally_settle(Tally* t) noexcept nogil:
    """Add the noted masks to the planes."""
    cdef int32_t w, k
    for w in range(t.words):
        for k in range(t.n_noted, 8):
            t.noted[8 * w + k] = 0
        add_eight(t.low + 8 * w, t.noted + 8 * w)
    t.n_noted = 0
    tally_done(t, 8)


cdef void tally_drain(Tally* t) noexcept nogil:
    """Bring `count` up to date."""
    cdef int32_t bank, k
    cdef uint64_t counts
    if t.n_noted:
        tally_settle(t)
    for bank in range(0, t.banks, 8):
        counts = spread(t.low + 8 * (bank >> 6), bank & 63)
        for k in range(min(8, t.banks - bank)):
            t.count[bank + k] += counts >> 8 * k & 255
    memset(t.low, 0, 8 * t.words * sizeof(uint64_t))
    t.adds = 0


cdef int32_t tally_noted(Tally* t, uint64_t* m, int32_t n) noexcept nogil:
    """Count the banks of `n` masks, if one word has all banks; fewer than eight masks are left over at the front. Return their
    number."""
    cdef int32_t k
    for k in range(n // 8):
        tally_eight(t, m + 8 * k)
    for k in range(n % 8):
        m[k] = m[n // 8 * 8 + k]
    return n % 8


cdef void tally_range(Tally* t, int64_t first, int64_t n) noexcept nogil:
    """Count `n` consecutive lines of the interleaved map; the first line is in bank `first`."""
    cdef int64_t rows, k, _k
    if n >= t.banks:
        rows = n // t.banks
        n -= rows * t.banks
        for k in range(t.banks):
            t.count[k] += rows
    for _k in range(n):
        t.count[first] += 1
        first = first + 1 if first + 1 < t.banks else 0


cdef void tally_times(Tally* t, uint64_t m, int64_t times) noexcept nogil:
    """Count the banks of a mask several times, if one word has all banks."""
    while m:
        t.count[trailing_zeros(m)] += times
        m &= m - 1


cdef void tally_planes(Tally* t, const uint64_t* low, int64_t times) noexcept nogil:
    """Count the contents of eight low planes several times, if one word has all banks."""
    cdef int64_t v
    cdef int32_t bank, k
    for bank in range(t.banks):
        v = 0
        for k in range(8):
            v |= <int64_t>((low[k] >> bank) & 1) << k
        t.count[bank] += v * times
