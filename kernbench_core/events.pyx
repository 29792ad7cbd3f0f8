"""The ring of records of a traced run.

Records of one cycle are not written in their order: scratchpads run behind the loop, and each by itself. They are sorted before they
are formatted, by what MODEL section 10 says of the order of events.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcpy, memmove

from kernbench_core.bank cimport BLOCK
from kernbench_core.types cimport cycle_t, int32_t, int64_t

cdef enum:
    FIRST_ROOM = 1 << 16      # records


cdef bint more_room(Tracer* t) noexcept nogil:
    """Twice the room: only where one scratchpad alone writes more than a batch in the few cycles that it runs at once."""
    cdef Event* more = <Event*>realloc(t.event, 2 * t.room * sizeof(Event))
    if more == NULL:
        t.lost = True
        return False
    t.event = more
    t.room *= 2
    return True


cdef int in_order(const void* x, const void* y) noexcept nogil:
    cdef const Event* a = <const Event*>x
    cdef const Event* b = <const Event*>y
    if a.cycle != b.cycle:
        return -1 if a.cycle < b.cycle else 1
    if a.place != b.place:
        return -1 if a.place < b.place else 1
    if a.job != b.job:
        return -1 if a.job < b.job else 1
    if a.detail != b.detail:
        return -1 if a.detail < b.detail else 1
    return -1 if a.order < b.order else 1


cdef class Trace:
    """Records of a run at a level: 1 summary, 2 full, 3 access. `lanes` and `words`: most requests of a cycle, 64-bit words of banks."""

    def __init__(self, int32_t level, int32_t lanes, int32_t words):
        cdef int32_t k
        if self.tracer.event != NULL:
            raise RuntimeError("a Trace is made once")
        self.tracer.level = level
        self.tracer.room = FIRST_ROOM
        self.tracer.event = <Event*>malloc(FIRST_ROOM * sizeof(Event))
        self.tracer.asking = <Asking*>calloc(lanes + 1, sizeof(Asking))
        self.tracer.masks = <uint64_t*>calloc(5 * (lanes + 1) * words, sizeof(uint64_t))
        self.tracer.notes = <Note*>calloc(BLOCK * (lanes + 1), sizeof(Note))
        self.tracer.denials = <Denial*>calloc(BLOCK * (lanes + 1), sizeof(Denial))
        if not (self.tracer.event and self.tracer.asking and self.tracer.masks and self.tracer.notes and self.tracer.denials):
            raise MemoryError(f"no memory for a trace of {lanes} requesters with {words} words of banks each")
        for k in range(lanes + 1):
            self.tracer.asking[k].asked_reads = self.tracer.masks + 5 * k * words
            self.tracer.asking[k].asked_writes = self.tracer.masks + (5 * k + 1) * words
            self.tracer.asking[k].no_read = self.tracer.masks + (5 * k + 2) * words
            self.tracer.asking[k].no_write = self.tracer.masks + (5 * k + 3) * words
            self.tracer.asking[k].by_read = self.tracer.masks + (5 * k + 4) * words

    def __dealloc__(self):
        free(self.tracer.event)
        free(self.tracer.asking)
        free(self.tracer.masks)
        free(self.tracer.notes)
        free(self.tracer.denials)

    cdef int64_t sort_before(self, cycle_t before) noexcept nogil:
        """Sort the records; how many of them are of cycles before that."""
        cdef int64_t low = 0, high = self.tracer.n, middle
        qsort(self.tracer.event, self.tracer.n, sizeof(Event), in_order)
        while low < high:
            middle = (low + high) // 2
            if self.tracer.event[middle].cycle < before:
                low = middle + 1
            else:
                high = middle
        return low

    def dump(self):
        """The records that are still here, as bytes, and how many there ever were."""
        return PyBytes_FromStringAndSize(<char*>self.tracer.event, self.tracer.n * sizeof(Event)), self.tracer.written

    def load(self, bytes records not None, int64_t written):
        """Put a `dump` of the same build back. ValueError where it is none."""
        cdef int64_t n = len(records) // sizeof(Event)
        if len(records) % sizeof(Event):
            raise ValueError(f"{len(records)} bytes are no records of a trace")
        while self.tracer.room < n:
            if not more_room(&self.tracer):
                raise MemoryError(f"no memory for {n} records of a trace")
        memcpy(self.tracer.event, PyBytes_AS_STRING(records), len(records))
        self.tracer.n = n
        self.tracer.written = written

    def drop(self, int64_t n):
        """Forget the first `n` records."""
        memmove(self.tracer.event, self.tracer.event + n, (self.tracer.n - n) * sizeof(Event))
        self.tracer.n -= n

    def __len__(self):
        return self.tracer.n

    def ends(self, cycle_t after, cycle_t before):
        """Positions of the entries whose jobs ended at cycles above `after` and below `before`, of the records that are still here."""
        cdef int64_t k
        return [
            self.tracer.event[k].entry for k in range(self.tracer.n)
            if after < self.tracer.event[k].cycle < before and REC_END <= self.tracer.event[k].kind < REC_STALL
        ]
