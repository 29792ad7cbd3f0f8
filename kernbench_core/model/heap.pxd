"""Binary min-heaps in caller-owned arrays: timers by (cycle, id), ready lists by file position."""
from kernbench_core.types cimport cycle_t, int32_t

cdef struct Timer:
    cycle_t at                # the cycle in which the timer is due
    int32_t id                # the job or engine of the timer; the id breaks ties

cdef struct TimerHeap:
    Timer* item               # the heap, the earliest first
    int32_t n                 # number of timers in the heap

cdef inline bint timer_before(Timer a, Timer b) noexcept nogil:
    return a.at < b.at or (a.at == b.at and a.id < b.id)

cdef inline void timer_push(TimerHeap* h, cycle_t at, int32_t id) noexcept nogil:
    cdef int32_t i = h.n, up
    cdef Timer t
    t.at = at
    t.id = id
    h.n += 1
    while i > 0:
        up = (i - 1) >> 1
        if not timer_before(t, h.item[up]):
            break
        h.item[i].at = h.item[up].at
        h.item[i].id = h.item[up].id
        i = up
    h.item[i].at = at
    h.item[i].id = id

cdef inline int32_t timer_pop(TimerHeap* h) noexcept nogil:
    """Remove the earliest timer; return its id."""
    cdef int32_t top = h.item[0].id, i = 0, kid
    cdef Timer last = h.item[h.n - 1]
    h.n -= 1
    while True:
        kid = 2 * i + 1
        if kid >= h.n:
            break
        if kid + 1 < h.n and timer_before(h.item[kid + 1], h.item[kid]):
            kid += 1
        if not timer_before(h.item[kid], last):
            break
        h.item[i].at = h.item[kid].at
        h.item[i].id = h.item[kid].id
        i = kid
    h.item[i].at = last.at
    h.item[i].id = last.id
    return top

cdef inline void int_push(int32_t* item, int32_t* n, int32_t v) noexcept nogil:
    cdef int32_t i = n[0], up
    n[0] += 1
    while i > 0:
        up = (i - 1) >> 1
        if item[up] <= v:
            break
        item[i] = item[up]
        i = up
    item[i] = v

cdef inline int32_t int_pop(int32_t* item, int32_t* n) noexcept nogil:
    cdef int32_t top = item[0], last = item[n[0] - 1], i = 0, kid
    n[0] -= 1
    item[n[0]] = 0          # cleared, because a snapshot must not contain data of finished work
    while True:
        kid = 2 * i + 1
        if kid >= n[0]:
            break
        if kid + 1 < n[0] and item[kid + 1] < item[kid]:
            kid += 1
        if item[kid] >= last:
            break
        item[i] = item[kid]
        i = kid
    if i < n[0]:
        item[i] = last
    return top
