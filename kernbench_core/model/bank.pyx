"""The ordered list of requesters."""
from libc.string cimport memmove

from kernbench_core.fast.fast_state cimport requester_left, requesters_changed
from kernbench_core.types cimport int32_t, slot_t


cdef void order_insert(Spm* p, TieBreak* tie_break, slot_t requester) noexcept nogil:
    """Insert a requester at its position in tie-break order."""
    cdef TieBreak* mine = &tie_break[requester]
    cdef TieBreak* other
    cdef int32_t i = p.n_order
    while i > 0:
        other = &tie_break[p.order[i - 1]]
        if other.engine < mine.engine or other.engine == mine.engine and other.seq < mine.seq:
            break
        p.order[i] = p.order[i - 1]
        i -= 1
    p.order[i] = requester
    p.n_order += 1
    requesters_changed(&p.lookahead)


cdef void order_remove(Spm* p, slot_t requester) noexcept nogil:
    cdef int32_t i = 0
    while p.order[i] != requester:
        i += 1
    p.n_order -= 1
    memmove(p.order + i, p.order + i + 1, (p.n_order - i) * sizeof(slot_t))
    requester_left(&p.lookahead)
