"""A heap of cycles by id, in which the cycle of an item can be changed: wakes of components, ends of their flows."""
from kernbench_core.types cimport NEVER, cycle_t, int32_t

cdef struct Clock:
    cycle_t* at               # [ids] the cycle of each item; NEVER: the item is not in the heap
    int32_t* heap             # ids of the items, the earliest first; of equal cycles, the lowest id first
    int32_t* place            # [ids] position of each item in the heap
    int32_t n                 # number of items in the heap

cdef inline bint clock_before(Clock* c, int32_t a, int32_t b) noexcept nogil:
    return c.at[a] < c.at[b] or (c.at[a] == c.at[b] and a < b)

cdef inline void clock_put(Clock* c, int32_t i, int32_t id) noexcept nogil:
    c.heap[i] = id
    c.place[id] = i

cdef inline void clock_settle(Clock* c, int32_t i) noexcept nogil:
    """Move the item at position `i` to its correct position."""
    cdef int32_t id = c.heap[i], kid
    while i and clock_before(c, id, c.heap[(i - 1) >> 1]):
        clock_put(c, i, c.heap[(i - 1) >> 1])
        i = (i - 1) >> 1
    while True:
        kid = 2 * i + 1
        if kid + 1 < c.n and clock_before(c, c.heap[kid + 1], c.heap[kid]):
            kid += 1
        if kid >= c.n or not clock_before(c, c.heap[kid], id):
            break
        clock_put(c, i, c.heap[kid])
        i = kid
    clock_put(c, i, id)

cdef inline void clock_set(Clock* c, int32_t id, cycle_t at) noexcept nogil:
    """Set the cycle of an item to `at`, whatever it was before; NEVER removes the item."""
    cdef bint inside = c.at[id] != NEVER
    cdef int32_t i = c.place[id]
    c.at[id] = at
    if not inside and at != NEVER:
        i = c.n
        c.n += 1
        clock_put(c, i, id)
    elif inside and at == NEVER:
        c.n -= 1
        if i == c.n:
            return
        clock_put(c, i, c.heap[c.n])
    elif not inside:
        return
    clock_settle(c, i)

cdef inline cycle_t clock_next(Clock* c) noexcept nogil:
    return c.at[c.heap[0]] if c.n else NEVER
