"""Bank counters and the ordered list of requesters.

Every asking counts on every bank that it asks, so counting bank by bank would cost more than arbitration itself. The counters are
therefore bit-sliced: plane k holds bit k of all banks' counts, and adding a mask is a carry chain without a branch. Before a count
may pass 255 the eight low planes are added to sixteen high ones, and before those overflow, to 64-bit totals.
"""
from libc.string cimport memmove

from kernbench_core.types cimport int32_t, int64_t, slot_t, uint64_t


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


cdef void tally_range(Tally* t, int64_t first, int64_t n) noexcept nogil:
    """Count each of `n` consecutive lines of the interleaved map once, the first on bank `first`."""
    cdef int64_t rows = n // t.banks, k, _k
    if rows:
        for k in range(t.banks):
            t.count[k] += rows
    for _k in range(n - rows * t.banks):
        t.count[first] += 1
        first = first + 1 if first + 1 < t.banks else 0


cdef void order_insert(Spm* p, Lane* lanes, slot_t lane) noexcept nogil:
    """Put a lane into its place in tie-break order."""
    cdef int32_t i = p.n_order
    cdef slot_t other
    while i > 0:
        other = p.order[i - 1]
        if lanes[other].key_engine < lanes[lane].key_engine or (
                lanes[other].key_engine == lanes[lane].key_engine and lanes[other].key_seq < lanes[lane].key_seq):
            break
        p.order[i] = other
        i -= 1
    p.order[i] = lane
    p.n_order += 1
    p.judge = True


cdef void order_remove(Spm* p, slot_t lane) noexcept nogil:
    cdef int32_t i = 0
    while p.order[i] != lane:
        i += 1
    p.n_order -= 1
    memmove(p.order + i, p.order + i + 1, (p.n_order - i) * sizeof(slot_t))
    p.judge = True
