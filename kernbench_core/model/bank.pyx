"""The ordered list of requesters."""
from libc.string cimport memmove

from kernbench_core.fast.fast_state cimport requester_left, requesters_changed
from kernbench_core.types cimport int32_t, slot_t


cdef inline int32_t place_after(Spm* p, TieBreak* tie_break, TieBreak* mine) noexcept nogil:
    """The number of requesters that are not after `mine` in tie-break order."""
    cdef TieBreak* other
    cdef int32_t low = 0, high = p.n_order, middle
    while low < high:
        middle = (low + high) >> 1
        other = &tie_break[p.order[middle]]
        if other.engine < mine.engine or other.engine == mine.engine and other.seq <= mine.seq:
            low = middle + 1
        else:
            high = middle
    return low


cdef void order_insert(Spm* p, TieBreak* tie_break, slot_t requester) noexcept nogil:
    """Insert a requester at its position in tie-break order."""
    cdef int32_t i = place_after(p, tie_break, &tie_break[requester])
    memmove(p.order + i + 1, p.order + i, (p.n_order - i) * sizeof(slot_t))
    p.order[i] = requester
    p.n_order += 1
    requesters_changed(&p.lookahead)


cdef void order_remove(Spm* p, TieBreak* tie_break, slot_t requester) noexcept nogil:
    """Remove a requester, whose position in tie-break order is still the same."""
    cdef int32_t i = place_after(p, tie_break, &tie_break[requester]) - 1
    while p.order[i] != requester:              # another one in the same position
        i -= 1
    p.n_order -= 1
    memmove(p.order + i, p.order + i + 1, (p.n_order - i) * sizeof(slot_t))
    requester_left(&p.lookahead)
