"""Records the conflicts of a block of cycles.

A block simulates one requester after another, so all requests of a cycle are known only at the end of the block. Until then, every
request is noted: a granted request in a few words, and a denied request with everything that its event contains. At the end of the
block, the requests of each cycle with a first denial are collected and recorded by the same code as in a plain run.
"""
from kernbench_core.trace.events cimport TracedRequest, Denial
from kernbench_core.trace.record_requests cimport add_read_banks, record_conflicts

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t v) noexcept nogil


cdef void open_notes(Sim* s, Walk* w) noexcept nogil:
    w.trace = s.trace
    w.flow_trace = s.flow_trace
    w.trace.note = w.trace.notes
    w.trace.n_denials = 0
    w.trace.fresh = 0


cdef void note_denial(Sim* s, Spm* p, Walk* w, slot_t requester, int64_t c, uint64_t reads, uint64_t writes, uint64_t denied,
                      bint fresh) noexcept nogil:
    """Note a denied request after its arbitration. The granted banks have been updated, and the denying banks have not."""
    cdef Denial* d = &w.trace.denials[w.trace.n_denials]
    w.trace.n_denials += 1
    d.before = w.trace.note
    d.requester = requester
    d.cycle = <int32_t>c
    d.fresh = fresh
    d.banks[0] = reads
    d.banks[1] = writes
    d.missing[0] = denied & reads & w.taken[0][(c + 1) * w.ports[0] - 1]
    d.missing[1] = denied & writes & w.taken[1][(c + 1) * w.ports[1] - 1] if w.split else 0
    d.by_read = 0
    if not w.split:
        add_read_banks(s, p, requester, &d.by_read)
    if fresh:
        w.trace.fresh |= <uint64_t>1 << c


cdef TracedRequest* gathered(Tracer* t, slot_t requester) noexcept nogil:
    cdef TracedRequest* a = &t.requesting[t.n_requesting]
    t.n_requesting += 1
    a.requester = requester
    return a


cdef void gather(Tracer* t, int32_t c) noexcept nogil:
    """Collect the requests of one cycle, in the order of arbitration."""
    cdef Note* note = t.notes
    cdef Denial* d
    cdef TracedRequest* a
    cdef int32_t k = 0
    while True:
        while k < t.n_denials and t.denials[k].before == note:
            d = &t.denials[k]
            k += 1
            if d.cycle == c:
                a = gathered(t, d.requester)
                a.requested_reads[0] = d.banks[0]
                a.requested_writes[0] = d.banks[1]
                a.no_read[0] = d.missing[0]
                a.no_write[0] = d.missing[1]
                a.by_read[0] = d.by_read
                a.fresh = d.fresh
        if note == t.note:
            return
        if note.cycle == c:
            a = gathered(t, note.requester)
            a.requested_reads[0] = note.banks[0]
            a.requested_writes[0] = note.banks[1]
            a.no_read[0] = 0
            a.no_write[0] = 0
            a.fresh = False
        note += 1


cdef void close_notes(Sim* s, Spm* p, Walk* w) noexcept nogil:
    """End a block: record its conflicts, and clear the notes for the next block."""
    cdef int32_t c
    while w.trace.fresh:
        c = trailing_zeros(w.trace.fresh)
        w.trace.fresh &= w.trace.fresh - 1
        gather(w.trace, c)
        w.trace.denied = True
        record_conflicts(s, p, w.begin + c)
    w.trace.note = w.trace.notes
    w.trace.n_denials = 0
