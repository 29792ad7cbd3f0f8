"""Sorts the records of a trace before they are formatted.

Records are not written in order, because each scratchpad runs behind the loop at its own pace, and because a block simulates one
requester after another. A radix sort orders the records by cycle. The few records of one cycle are then sorted by the order of
docs/model/traces.md. Both sorts are stable. They move the numbers of records, not the records.
"""
from libc.string cimport memcpy, memset

from kernbench_core.trace.events cimport Event
from kernbench_core.types cimport int32_t

cdef enum:
    DIGIT = 11                # bits of a cycle that one pass of the radix sort examines
    FEW = 12                  # up to this number of records are sorted by insertion


cdef inline bint follows(const Event* a, const Event* b) noexcept nogil:
    """Whether record `a` comes after record `b` of the same cycle."""
    if a.order_key != b.order_key:
        return a.order_key > b.order_key
    return a.job > b.job if a.job != b.job else a.detail > b.detail


cdef void by_cycle(const Event* e, int32_t* order, int32_t* spare, int64_t n, cycle_t first, cycle_t last) noexcept nogil:
    cdef int32_t[(1 << DIGIT) + 1] begin
    cdef int32_t* moved
    cdef int32_t* to = spare
    cdef int32_t* out = order
    cdef int64_t k, digit, shift = 0
    while (last - first) >> shift:
        memset(begin, 0, sizeof(begin))
        for k in range(n):
            begin[(((e[order[k]].cycle - first) >> shift) & ((1 << DIGIT) - 1)) + 1] += 1
        for k in range(1 << DIGIT):
            begin[k + 1] += begin[k]
        for k in range(n):
            digit = ((e[order[k]].cycle - first) >> shift) & ((1 << DIGIT) - 1)
            to[begin[digit]] = order[k]
            begin[digit] += 1
        moved = order
        order = to
        to = moved
        shift += DIGIT
    if order != out:
        memcpy(out, order, n * sizeof(int32_t))


cdef void in_cycle(const Event* e, int32_t* order, int32_t* spare, int64_t n) noexcept nogil:
    """Sort the records of one cycle: few records by insertion, others by merging two sorted halves."""
    cdef int64_t k, i, half = n // 2, left = 0
    cdef int32_t moved
    if n <= FEW:
        for k in range(1, n):
            moved = order[k]
            i = k
            while i and follows(&e[order[i - 1]], &e[moved]):
                order[i] = order[i - 1]
                i -= 1
            order[i] = moved
        return
    in_cycle(e, order, spare, half)
    in_cycle(e, order + half, spare, n - half)
    if not follows(&e[order[half - 1]], &e[order[half]]):
        return
    memcpy(spare, order, half * sizeof(int32_t))
    k = half
    for i in range(n):
        if left == half:
            return
        if k < n and follows(&e[spare[left]], &e[order[k]]):
            order[i] = order[k]
            k += 1
        else:
            order[i] = spare[left]
            left += 1


cdef int64_t arrange(Tracer* t, cycle_t before) noexcept nogil:
    """Write the sorted numbers of the records of cycles before `before` to `order`; return how many they are."""
    cdef Event* e = t.event
    cdef cycle_t first = 0, last = 0
    cdef int64_t k, i, n = 0
    for k in range(t.n):
        if e[k].cycle >= before:
            continue
        first = e[k].cycle if n == 0 or e[k].cycle < first else first
        last = e[k].cycle if n == 0 or e[k].cycle > last else last
        t.order[n] = <int32_t>k
        n += 1
    by_cycle(e, t.order, t.spare, n, first, last)
    i = 0
    for k in range(1, n + 1):
        if k == n or e[t.order[k]].cycle != e[t.order[i]].cycle:
            in_cycle(e, t.order + i, t.spare, k - i)
            i = k
    return n
