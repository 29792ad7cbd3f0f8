"""Who denied whom in a block of cycles.

The requesters of a block come one after the other, so what others asked for in a cycle is known when all have been walked. Until then every
request is noted: what was granted in a few words, what was denied with all that an event of it says. When the block is over, the
requests of those cycles in which one was denied for the first time are gathered, and told as those of the plain walk are.
"""
from kernbench_core.trace.events cimport Asking, Denial
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
    """After it was arbitrated; the banks that it was granted have changed, those that denied it have not."""
    cdef Denial* d = &w.trace.denials[w.trace.n_denials]
    w.trace.n_denials += 1
    d.place = w.trace.note
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


cdef Asking* gathered(Tracer* t, slot_t requester) noexcept nogil:
    cdef Asking* a = &t.asking[t.n_asking]
    t.n_asking += 1
    a.requester = requester
    return a


cdef void gather(Tracer* t, int32_t c) noexcept nogil:
    """The requests of one cycle, in the order of arbitration."""
    cdef Note* note = t.notes
    cdef Denial* d
    cdef Asking* a
    cdef int32_t k = 0
    while True:
        while k < t.n_denials and t.denials[k].place == note:
            d = &t.denials[k]
            k += 1
            if d.cycle == c:
                a = gathered(t, d.requester)
                a.asked_reads[0] = d.banks[0]
                a.asked_writes[0] = d.banks[1]
                a.no_read[0] = d.missing[0]
                a.no_write[0] = d.missing[1]
                a.by_read[0] = d.by_read
                a.fresh = d.fresh
        if note == t.note:
            return
        if note.cycle == c:
            a = gathered(t, note.requester)
            a.asked_reads[0] = note.banks[0]
            a.asked_writes[0] = note.banks[1]
            a.no_read[0] = 0
            a.no_write[0] = 0
            a.fresh = False
        note += 1


cdef void close_notes(Sim* s, Spm* p, Walk* w) noexcept nogil:
    """The block is over; the notes are open for the next."""
    cdef int32_t c
    while w.trace.fresh:
        c = trailing_zeros(w.trace.fresh)
        w.trace.fresh &= w.trace.fresh - 1
        gather(w.trace, c)
        w.trace.denied = True
        record_conflicts(s, p, w.begin + c)
    w.trace.note = w.trace.notes
    w.trace.n_denials = 0
