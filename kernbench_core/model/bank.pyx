"""The ordered list of requesters."""
from libc.string cimport memmove

from kernbench_core.types cimport int32_t, slot_t


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
    p.laid = False


cdef void order_remove(Spm* p, slot_t lane) noexcept nogil:
    cdef int32_t i = 0
    while p.order[i] != lane:
        i += 1
    p.n_order -= 1
    memmove(p.order + i, p.order + i + 1, (p.n_order - i) * sizeof(slot_t))
    p.judge = True
    p.laid = False
