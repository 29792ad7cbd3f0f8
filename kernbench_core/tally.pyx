"""Bank counters.

Every asking counts on every bank that it asks, so counting bank by bank would cost more than arbitration itself. The counters are
therefore bit-sliced: plane k holds bit k of all banks' counts, and adding a mask is a carry chain without a branch. Before a count
may pass 255 the eight low planes are added to sixteen high ones, and before those overflow, to 64-bit totals.
"""
from kernbench_core.types cimport int32_t, int64_t, uint64_t


cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t v) noexcept nogil


cdef void tally_drain(Tally* t) noexcept nogil:
    """Add the low planes to the high ones."""
    cdef int32_t w, k
    cdef uint64_t a, b, c
    cdef uint64_t* low
    cdef uint64_t* high
    for w in range(t.words):
        low = t.low + 8 * w
        high = t.high + 16 * w
        c = 0
        for k in range(8):
            a = high[k]
            b = low[k]
            high[k] = a ^ b ^ c
            c = (a & b) | (c & (a ^ b))
            low[k] = 0
        for k in range(8, 16):
            a = high[k]
            high[k] = a ^ c
            c &= a
    t.adds = 0
    t.drains += 1
    if t.drains == 257:                       # 257 * 255 = 65535, all that sixteen planes hold
        tally_flush(t)


cdef void tally_flush(Tally* t) noexcept nogil:
    """Bring `count` up to date."""
    cdef int32_t bank, k
    cdef uint64_t* low
    cdef uint64_t* high
    cdef int64_t v
    for bank in range(t.banks):
        low = t.low + 8 * (bank >> 6)
        high = t.high + 16 * (bank >> 6)
        v = 0
        for k in range(8):
            v += <int64_t>((low[k] >> (bank & 63)) & 1) << k
        for k in range(16):
            v += <int64_t>((high[k] >> (bank & 63)) & 1) << k
        t.count[bank] += v
    for k in range(8 * t.words):
        t.low[k] = 0
    for k in range(16 * t.words):
        t.high[k] = 0
    t.adds = 0
    t.drains = 0


cdef int32_t tally_noted(Tally* t, uint64_t* m, int32_t n) noexcept nogil:
    """Count the banks of `n` masks, where one word holds all banks, but for fewer than eight that are left in front: how many."""
    cdef int32_t k
    for k in range(n // 8):
        tally_eight(t, m + 8 * k)
    for k in range(n % 8):
        m[k] = m[n // 8 * 8 + k]
    return n % 8


cdef void tally_range(Tally* t, int64_t first, int64_t n) noexcept nogil:
    """Count each of `n` consecutive lines of the interleaved map once, the first on bank `first`."""
    cdef int64_t rows = n // t.banks, k, _k
    if rows:
        for k in range(t.banks):
            t.count[k] += rows
    for _k in range(n - rows * t.banks):
        t.count[first] += 1
        first = first + 1 if first + 1 < t.banks else 0


cdef void tally_times(Tally* t, uint64_t m, int64_t times) noexcept nogil:
    """Count the banks of a mask so often, where one word holds all banks."""
    while m:
        t.count[trailing_zeros(m)] += times
        m &= m - 1


cdef void tally_planes(Tally* t, const uint64_t* low, int64_t times) noexcept nogil:
    """Count so often what stands in eight low planes, where one word holds all banks."""
    cdef int64_t v
    cdef int32_t bank, k
    for bank in range(t.banks):
        v = 0
        for k in range(8):
            v |= <int64_t>((low[k] >> bank) & 1) << k
        t.count[bank] += v * times
