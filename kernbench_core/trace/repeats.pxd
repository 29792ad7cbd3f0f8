"""Stored lines of records that repeat.

A transfer writes hundreds of lines that differ only in a few numbers. The lines of the last record of each entry, channel and so on
(`Kind.shared`) are stored. For the next such record, only the numbers that have changed are written into the stored lines, which are
then copied. There are places for 4,096 such records; a record that needs the place of others replaces them.
"""
from libc.string cimport memcpy, memmove

from kernbench_core.trace.events cimport Event
from kernbench_core.trace.templates cimport OWN, SHARED, Kind
from kernbench_core.trace.text cimport CHUNK, Buffer
from kernbench_core.types cimport int32_t, int64_t, uint64_t

cdef extern from "trace/digits.h":
    int64_t kb_digits(uint64_t v) noexcept nogil
    void kb_put_before(char* end, uint64_t v, int64_t n) noexcept nogil

cdef enum:
    PLACE_BITS = 12
    PLACES = 1 << PLACE_BITS
    LINES = 2                 # limit of the lines of a record that repeats
    BEFORE = 8                # [B] before the first line: writing a number reads and writes back the bytes before it

cdef extern from *:
    """
    #define KB_LARGE 10000000000000000
    """
    uint64_t LARGE "KB_LARGE"  # lines with a number of so many digits are not stored

cdef struct Repeat:
    Kind* kind                # NULL: the place is empty
    int64_t entry             # position of the entry in the command queue
    int64_t[SHARED] shared    # values that all these records have in common
    uint64_t[OWN + 1] own     # numbers that the lines contain, the first of which is the cycle
    int32_t[OWN + 1] digits   # how many digits these numbers have
    int32_t[(OWN + 1) * LINES] end  # where each number ends in each line [B]; 0: it is not in the line
    int64_t length            # [B] length of the lines
    int32_t lines             # number of lines

cdef struct Repeats:
    Repeat* place             # [PLACES] the stored records
    char* text                # [PLACES * room] the lines
    int64_t room              # [B] capacity of the text of a place


cdef inline int64_t place_of(Kind* t, Event* e) noexcept nogil:
    cdef uint64_t mixed = <uint64_t>e.v[t.shared[0]] << 12 ^ <uint64_t>e.v[t.shared[1]] << 32 ^ <uint64_t>e.v[t.shared[2]] << 40
    mixed ^= <uint64_t>e.entry ^ <uint64_t>t.first << 44
    return <int64_t>((mixed * <uint64_t>0x9E3779B97F4A7C15ULL) >> (64 - PLACE_BITS))


cdef inline bint holds(Repeat* r, Kind* t, Event* e) noexcept nogil:
    """Whether the place has the lines of such a record."""
    return (r.kind == t and r.entry == e.entry and r.shared[0] == e.v[t.shared[0]] and r.shared[1] == e.v[t.shared[1]]
            and r.shared[2] == e.v[t.shared[2]])


cdef inline bint storable(Kind* t, Event* e) noexcept nogil:
    """Whether the lines of the record have all numbers, and none is too large."""
    cdef uint64_t largest = <uint64_t>e.cycle
    cdef int32_t k
    for k in range(t.n_own):
        largest |= <uint64_t>e.v[t.own[k]]          # a negative or missing number is larger than all others
    return largest < LARGE


cdef inline void widen(Repeat* r, char* text, int32_t k, int64_t n) noexcept nogil:
    """Give a number another count of digits: move the text after it."""
    cdef int64_t more = n - r.digits[k], end
    cdef int32_t i, j
    for i in range(LINES):
        end = r.end[k * LINES + i]
        if end == 0:
            continue
        memmove(text + end + more, text + end, r.length - end)
        r.length += more
        for j in range((OWN + 1) * LINES):
            if r.end[j] >= end:
                r.end[j] += <int32_t>more
    r.digits[k] = <int32_t>n


cdef inline void change(Repeat* r, char* text, int32_t k, uint64_t v) noexcept nogil:
    """Replace a number in the stored lines."""
    cdef int64_t n = kb_digits(v)
    cdef int32_t i
    if n != r.digits[k]:
        widen(r, text, k, n)
    r.own[k] = v
    for i in range(LINES):
        if r.end[k * LINES + i]:
            kb_put_before(text + r.end[k * LINES + i], v, n)


cdef inline void put_repeat(Buffer* b, Repeat* r, char* text, Kind* t, Event* e) noexcept nogil:
    """Write the lines of a record into the place of such records, and copy them."""
    cdef char* to = b.data + b.n
    cdef int64_t n = 0
    cdef int32_t k
    change(r, text, 0, <uint64_t>e.cycle)
    for k in range(t.n_own):
        if r.own[k + 1] != <uint64_t>e.v[t.own[k]]:
            change(r, text, k + 1, <uint64_t>e.v[t.own[k]])
    while n < r.length:
        memcpy(to + n, text + n, CHUNK)
        n += CHUNK
    b.n += r.length
