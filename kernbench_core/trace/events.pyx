"""The buffer of records of a traced run.

Records are not written in the order of lines; `arrange` finds that order.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy

from kernbench_core.model.bank cimport BLOCK
from kernbench_core.types cimport cycle_t, int32_t, int64_t

cdef enum:
    FIRST_ROOM = 1 << 16      # records


cdef bint more_room(Tracer* t) noexcept nogil:
    """Double the room: needed only if one scratchpad writes more than a batch in the few cycles that it runs at once."""
    cdef Event* more = <Event*>realloc(t.event, 2 * t.room * sizeof(Event))
    cdef int32_t* order
    if more == NULL:
        t.lost = True
        return False
    t.event = more
    order = <int32_t*>realloc(t.order, 4 * t.room * sizeof(int32_t))
    if order == NULL:
        t.lost = True
        return False
    t.room *= 2
    t.order = order
    t.spare = order + t.room
    return True


cdef void forget(Tracer* t, cycle_t before) noexcept nogil:
    """Remove the records of cycles before the given one; the others keep their order."""
    cdef int64_t k, n = 0
    for k in range(t.n):
        if t.event[k].cycle >= before:
            t.event[n] = t.event[k]
            n += 1
    t.n = n


cdef class Trace:
    """Records of a run at a level: 1 is summary, 2 is full, 3 is access. `requesters` and `words`: the largest number of requests in a
    cycle, and of 64-bit words of banks."""

    def __init__(self, int32_t level, int32_t requesters, int32_t words):
        cdef int32_t k
        if self.tracer.event != NULL:
            raise RuntimeError("a Trace is made once")
        self.tracer.level = level
        self.tracer.room = FIRST_ROOM
        self.tracer.event = <Event*>malloc(FIRST_ROOM * sizeof(Event))
        self.tracer.order = <int32_t*>malloc(2 * FIRST_ROOM * sizeof(int32_t))
        self.tracer.spare = self.tracer.order + FIRST_ROOM
        self.tracer.requesting = <TracedRequest*>calloc(requesters + 1, sizeof(TracedRequest))
        self.tracer.masks = <uint64_t*>calloc(5 * (requesters + 1) * words, sizeof(uint64_t))
        self.tracer.notes = <Note*>calloc(BLOCK * (requesters + 1), sizeof(Note))
        self.tracer.denials = <Denial*>calloc(BLOCK * (requesters + 1), sizeof(Denial))
        if not (self.tracer.event and self.tracer.order and self.tracer.requesting and self.tracer.masks and self.tracer.notes
                and self.tracer.denials):
            raise MemoryError(f"no memory for a trace of {requesters} requesters with {words} words of banks each")
        for k in range(requesters + 1):
            self.tracer.requesting[k].requested_reads = self.tracer.masks + 5 * k * words
            self.tracer.requesting[k].requested_writes = self.tracer.masks + (5 * k + 1) * words
            self.tracer.requesting[k].no_read = self.tracer.masks + (5 * k + 2) * words
            self.tracer.requesting[k].no_write = self.tracer.masks + (5 * k + 3) * words
            self.tracer.requesting[k].by_read = self.tracer.masks + (5 * k + 4) * words

    def __dealloc__(self):
        free(self.tracer.event)
        free(self.tracer.order)
        free(self.tracer.requesting)
        free(self.tracer.masks)
        free(self.tracer.notes)
        free(self.tracer.denials)

    def dump(self):
        """The remaining records, as bytes."""
        return PyBytes_FromStringAndSize(<char*>self.tracer.event, self.tracer.n * sizeof(Event))

    def load(self, bytes records not None):
        """Restore a `dump` of the same build. ValueError if it is not such a dump."""
        cdef int64_t n = len(records) // sizeof(Event)
        if len(records) % sizeof(Event):
            raise ValueError(f"{len(records)} bytes are no records of a trace")
        while self.tracer.room < n:
            if not more_room(&self.tracer):
                raise MemoryError(f"no memory for {n} records of a trace")
        memcpy(self.tracer.event, PyBytes_AS_STRING(records), len(records))
        self.tracer.n = n

    def __len__(self):
        return self.tracer.n

    def ends(self, cycle_t after, cycle_t before):
        """Positions of the entries whose jobs ended at cycles above `after` and below `before`, among the remaining records."""
        cdef int64_t k
        return [
            self.tracer.event[k].entry for k in range(self.tracer.n)
            if after < self.tracer.event[k].cycle < before and REC_END <= self.tracer.event[k].kind < REC_STALL
        ]
