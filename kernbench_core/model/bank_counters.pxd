"""The number of counts of each bank, in bit-sliced counters (model/bank_counters.pyx says why)."""
from kernbench_core.types cimport int32_t, int64_t, uint64_t

cdef struct Tally:            # the number of counts of each bank, in bit-sliced counters
    uint64_t* low             # [words][8] bit planes, to which masks are added without a branch
    uint64_t* noted           # [words][8] masks, which are added to the planes eight at a time (`tally_note`)
    int32_t n_noted           # number of noted masks of each word
    int64_t* count            # [banks] totals drained from the planes so far
    int32_t adds              # upper bound of the counts of a bank since the planes were drained
    int32_t words             # 64-bit words of a mask of banks
    int32_t banks             # banks that are counted

cdef void tally_drain(Tally* t) noexcept nogil
cdef void tally_settle(Tally* t) noexcept nogil
cdef int32_t tally_noted(Tally* t, uint64_t* m, int32_t n) noexcept nogil
cdef void tally_range(Tally* t, int64_t first, int64_t n) noexcept nogil
cdef void tally_times(Tally* t, uint64_t m, int64_t times) noexcept nogil
cdef void tally_planes(Tally* t, const uint64_t* low, int64_t times) noexcept nogil

cdef inline void tally_word(Tally* t, int32_t w, uint64_t m) noexcept nogil:
    """Count the banks of `m` once."""
    cdef uint64_t* p = t.low + 8 * w
    cdef uint64_t s
    cdef int32_t k
    for k in range(8):
        s = p[k]
        p[k] = s ^ m
        m &= s

cdef inline void tally_done(Tally* t, int32_t most) noexcept nogil:
    """Called after every word was counted; `most` is the largest number of counts of a bank (at most 8)."""
    t.adds += most
    if t.adds > 255 - 8:
        tally_drain(t)

cdef inline void tally_note(Tally* t, int32_t w, uint64_t m) noexcept nogil:
    """Note the banks of `m`, to be counted together with others."""
    t.noted[8 * w + t.n_noted] = m

cdef inline void tally_noted_all(Tally* t) noexcept nogil:
    """Called after every word was noted."""
    t.n_noted += 1
    if t.n_noted == 8:
        tally_settle(t)

cdef inline uint64_t majority(uint64_t a, uint64_t b, uint64_t c) noexcept nogil:
    """The carry of a + b + c, bit by bit."""
    return (a & b) | (c & (a ^ b))

cdef inline void add_eight(uint64_t* p, const uint64_t* m) noexcept nogil:
    """Add the banks of eight masks to the planes of a word: a tree of adders instead of eight carry chains."""
    cdef uint64_t a, b, c, d, s = p[0], fours
    cdef int32_t k
    a = majority(s, m[0], m[1])
    s ^= m[0] ^ m[1]
    b = majority(s, m[2], m[3])
    s ^= m[2] ^ m[3]
    c = majority(s, m[4], m[5])
    s ^= m[4] ^ m[5]
    d = majority(s, m[6], m[7])
    p[0] = s ^ m[6] ^ m[7]
    s = p[1]
    fours = majority(s, a, b)
    s ^= a ^ b
    a = majority(s, c, d)
    p[1] = s ^ c ^ d
    s = p[2]
    p[2] = s ^ fours ^ a
    s = majority(s, fours, a)
    for k in range(3, 8):
        a = p[k]
        p[k] = a ^ s
        s &= a

cdef inline void tally_eight(Tally* t, const uint64_t* m) noexcept nogil:
    """Count the banks of eight masks, if one word has all banks."""
    add_eight(t.low, m)
    tally_done(t, 8)
