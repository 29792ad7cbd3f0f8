"""The choice of the entry that the host writes, and the cycles of its write and its arrival.

The host begins at most one write in a cycle, and all writes have the same length. Entries therefore arrive in the order of
their writes, at most one in a cycle, and a list is sufficient for the entries in flight.
"""
from kernbench_core.model.heap cimport int_pop, int_push, timer_pop, timer_push
from kernbench_core.types cimport NEVER, NONE


cdef void mmio_open(Mmio* h, int32_t n) noexcept nogil:
    """Before cycle 0: entries that wait for no interrupt are known."""
    cdef int32_t k
    for k in range(n):
        if h.written[k] and h.unknown[k] == 0:
            timer_push(&h.coming, 0, k)


cdef void mmio_raised(Mmio* h, const int32_t* dependents, int32_t n, cycle_t end) noexcept nogil:
    """An entry that raises an interrupt has ended in this cycle."""
    cdef int32_t k, i
    for k in range(n):
        i = dependents[k]
        if not h.written[i]:
            continue
        h.known[i] = max(h.known[i], end + h.interrupt)
        h.unknown[i] -= 1
        if h.unknown[i] == 0:
            timer_push(&h.coming, h.known[i], i)


cdef int32_t mmio_arrived(Mmio* h, cycle_t now) noexcept nogil:
    """Take the entry that arrives in this cycle; NONE if there is none."""
    if h.first == h.last or h.arrival[h.in_transit[h.first]] > now:
        return NONE
    h.first += 1
    return h.in_transit[h.first - 1]


cdef void mmio_begin(Mmio* h, cycle_t now) noexcept nogil:
    """The end of P2: begin to write the first of the known entries, if the host is free."""
    cdef int32_t i
    while h.coming.n and h.coming.item[0].at <= now:
        i = timer_pop(&h.coming)
        int_push(h.waiting, &h.n_waiting, i)
    if h.n_waiting == 0 or h.free > now:
        return
    i = int_pop(h.waiting, &h.n_waiting)
    h.free = now + h.write
    h.arrival[i] = h.free + h.latency
    h.in_transit[h.last] = i
    h.last += 1


cdef cycle_t mmio_next(Mmio* h) noexcept nogil:
    """After P2: the next cycle in which an entry arrives or the host may begin a write; NEVER if there is none."""
    cdef cycle_t at = h.arrival[h.in_transit[h.first]] if h.first < h.last else NEVER
    if h.n_waiting:
        return min(at, h.free)
    return min(at, max(h.coming.item[0].at, h.free)) if h.coming.n else at
