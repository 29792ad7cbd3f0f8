"""The request of a TE or VE in its next body cycle, if one word has all banks; both walks over blocks inline these functions."""
from kernbench_core.model.bank cimport Requester, Spm, bank_of
from kernbench_core.model.compute cimport Compute, Stream, stream_banks, stream_next
from kernbench_core.types cimport NEVER, cycle_t, int32_t, int64_t, uint64_t
from kernbench_core.fast.block_ports cimport Walk

cdef inline uint64_t stream_line(Stream* t, Spm* p, Walk* w, cycle_t i) noexcept nogil:
    """`stream_banks` of a sparse engine: nothing or one line, and in the first cycle perhaps two lines."""
    cdef uint64_t mask = 0
    while t.next == i:
        mask |= <uint64_t>1 << (bank_of(p, t.line) if p.blocked else t.line)
        t.line += 1
        if not p.blocked and t.line == w.banks:
            t.line = 0
        t.at += w.line
        stream_next(t)
    return mask

cdef inline void request_next(Spm* p, Walk* w, Compute* e, int32_t ports, uint64_t* reads, uint64_t* writes) noexcept nogil:
    """The request of the next body cycle."""
    cdef cycle_t i = e.body - e.body_left
    cdef uint64_t mask
    cdef int32_t k
    reads[0] = 0
    writes[0] = 0
    for k in range(e.streams):
        mask = stream_line(&e.stream[k], p, w, i) if e.sparse else stream_banks(&e.stream[k], p, i)
        if ports == 0 and w.split and e.stream[k].write:
            writes[0] |= mask
        else:
            reads[0] |= mask
