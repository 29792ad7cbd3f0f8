"""Packs, checks and shows the fields of a run that a snapshot contains."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memcmp, memcpy

from kernbench_core.model.dma cimport STALLED_BACKPRESSURE
from kernbench_core.types cimport BACKPRESSURE, COMM, NEVER, NONE, OVERFLOW, int8_t

cdef const int64_t MOST = 0x4000000000000000     # limit of cycles and bytes: the sum of two still fits


cdef void set_field(Field* f, const char* name, size_t at, int32_t width, int32_t length, int32_t span) noexcept:
    f.name = name
    f.at = at
    f.width = width
    f.length = length
    f.span = span


cdef Record* RECORDS[64]      # all of them
cdef int32_t n_records = 0


cdef void set_record(Record* r, const char* name, const Field* field, int32_t n) noexcept:
    global n_records
    cdef int32_t k
    RECORDS[n_records] = r
    n_records += 1
    r.name = name
    r.field = field
    r.n = n
    r.nbytes = 0
    for k in range(n):
        r.nbytes += <size_t>field[k].width * field[k].length


include "field_table.pxi"

# Tables of plain numbers.
cdef Field a_word, a_counter, a_pointer, a_time, an_overlapped, an_arrival
set_field(&a_word, b"banks", 0, 8, 1, RANGE_ANY)
set_record(&WORD, b"mask", &a_word, 1)
set_field(&a_counter, b"times", 0, 8, 1, RANGE_COUNT)
set_record(&COUNTER, b"bank", &a_counter, 1)
set_field(&a_pointer, b"client", 0, 4, 1, RANGE_CLIENT)
set_record(&POINTER, b"pointer", &a_pointer, 1)
set_field(&a_time, b"ready", 0, 8, 1, RANGE_LATER)
set_record(&TIME, b"group", &a_time, 1)
set_field(&an_overlapped, b"with", 0, 4, 1, RANGE_ENTRY_Q)
set_record(&OVERLAPPED, b"overlap", &an_overlapped, 1)
set_field(&an_arrival, b"arrival", 0, 8, 1, RANGE_WHEN_Q)
set_record(&ARRIVAL, b"Mmio", &an_arrival, 1)


cdef void limit(Limits* x, int32_t span, int64_t low, int64_t high) noexcept:
    x.low[span] = x.also[span] = low
    x.high[span] = high


cdef void limits_of(Limits* x, int64_t cycle, int64_t most_cycles, int64_t entries, int64_t resources) noexcept:
    """The ranges of a run before `cycle`; those of clients, flows and DRAM rows are known later (state/resume.pyx,
    state/device_snapshot.pyx)."""
    cdef int32_t k
    for k in range(RANGES):
        limit(x, k, 0, -1)
    limit(x, RANGE_FLAG, 0, 1)
    limit(x, RANGE_COUNT, 0, MOST)
    limit(x, RANGE_TERM, 0, <int64_t>1 << 31)
    limit(x, RANGE_CYCLE, 0, most_cycles)
    limit(x, RANGE_PAST, 0, cycle)
    limit(x, RANGE_PAST_Q, 0, cycle)
    limit(x, RANGE_NEXT_Q, cycle, MOST)
    limit(x, RANGE_ENTRY_Q, 0, entries - 1)
    limit(x, RANGE_RESOURCE_Q, 0, resources - 1)
    limit(x, RANGE_STATUS, 0, OVERFLOW)
    limit(x, RANGE_REASON, 0, BACKPRESSURE)
    limit(x, RANGE_ACTIVITY, 0, STALLED_BACKPRESSURE)
    limit(x, RANGE_ROW_Q, 0, MOST)
    limit(x, RANGE_WINDOW, 0, WINDOW - 1)
    limit(x, RANGE_WHEN_Q, 0, MOST)
    limit(x, RANGE_CHANNEL, 0, COMM - 1)
    x.also[<int>RANGE_PAST_Q] = x.also[<int>RANGE_NEXT_Q] = x.also[<int>RANGE_WHEN_Q] = NEVER
    x.also[<int>RANGE_ENTRY_Q] = x.also[<int>RANGE_RESOURCE_Q] = x.also[<int>RANGE_FLOW_Q] = x.also[<int>RANGE_ROW_Q] = NONE


cdef inline int64_t value_at(const char* place, int32_t width) noexcept nogil:
    cdef int32_t four
    cdef int64_t eight
    if width == 1:
        return (<const int8_t*>place)[0]
    if width == 4:
        memcpy(&four, place, 4)
        return four
    memcpy(&eight, place, 8)
    return eight


cdef inline bint within(const Limits* x, int32_t span, int64_t value) noexcept nogil:
    return span == RANGE_ANY or x.low[span] <= value <= x.high[span] or value == x.also[span]


cdef str allowed(const Limits* x, int32_t span):
    """The range in words, for an error."""
    low, high, also = x.low[span], x.high[span], x.also[span]
    text = f"{low} to {high}" if low <= high else "no number"
    return text if also == low else f"{text}, or {also}"


cdef class Visitor:
    cdef int table(self, const Record* r, void* base, size_t stride, int64_t items) except -1:
        raise NotImplementedError


cdef class Pack(Visitor):
    """Makes the bytes of a snapshot."""

    def __init__(self):
        self.parts = []

    cdef int table(self, const Record* r, void* base, size_t stride, int64_t items) except -1:
        cdef bytes out = PyBytes_FromStringAndSize(NULL, items * r.nbytes)
        cdef char* to = PyBytes_AS_STRING(out)
        cdef const Field* f
        cdef int64_t k
        cdef int32_t i
        for k in range(items):
            for i in range(r.n):
                f = &r.field[i]
                memcpy(to, <const char*>base + k * stride + f.at, <size_t>f.width * f.length)
                to += <size_t>f.width * f.length
        self.parts.append(out)
        return 0


cdef class Unpack(Visitor):
    """Writes the fields of a snapshot into the tables, after each is checked against its range; the ValueError names the field that is out
    of range."""

    def __init__(self, bytes image not None):
        self.image = image

    cdef int table(self, const Record* r, void* base, size_t stride, int64_t items) except -1:
        cdef const char* source = PyBytes_AS_STRING(self.image) + self.at
        cdef const Field* f
        cdef int64_t k, value
        cdef int32_t i, n
        if items * <Py_ssize_t>r.nbytes > len(self.image) - self.at:
            raise ValueError(f"it ends inside the table of {r.name.decode()}, which has {items} items of {r.nbytes} bytes")
        for k in range(items):
            for i in range(r.n):
                f = &r.field[i]
                for n in range(f.length):
                    value = value_at(source, f.width)
                    if not within(&self.limits, f.span, value):
                        raise ValueError(
                            f"{r.name.decode()} {k}: {f.name.decode()} = {value}: allowed are {allowed(&self.limits, f.span)}")
                    memcpy(<char*>base + k * stride + f.at + <size_t>n * f.width, source, f.width)
                    source += f.width
        self.at += items * r.nbytes
        return 0

    cdef int end(self) except -1:
        if self.at != len(self.image):
            raise ValueError(f"it has {len(self.image) - self.at} bytes behind its last table")
        return 0


cdef class Show(Visitor):
    """Names every value: `{table: [{field: value}]}`."""

    def __init__(self):
        self.tables = {}

    cdef int table(self, const Record* r, void* base, size_t stride, int64_t items) except -1:
        cdef const Field* f
        cdef int64_t k
        cdef int32_t i, n
        rows = self.tables.setdefault(r.name.decode(), [])
        for k in range(items):
            row = {}
            for i in range(r.n):
                f = &r.field[i]
                values = [value_at(<const char*>base + k * stride + f.at + <size_t>n * f.width, f.width) for n in range(f.length)]
                row[f.name.decode()] = values if f.length > 1 else values[0]
            rows.append(row)
        return 0


cdef class Compare(Visitor):
    """Finds the first value of a snapshot that differs from the run; `found` names it, "" if there is none."""

    def __init__(self, bytes image not None):
        self.image = image
        self.found = ""

    cdef int table(self, const Record* r, void* base, size_t stride, int64_t items) except -1:
        cdef const char* source = PyBytes_AS_STRING(self.image) + self.at
        cdef const char* place
        cdef const Field* f
        cdef int64_t k
        cdef int32_t i, n
        self.at += items * r.nbytes
        if self.found or self.at > len(self.image):
            return 0
        for k in range(items):
            for i in range(r.n):
                f = &r.field[i]
                for n in range(f.length):
                    place = <const char*>base + k * stride + f.at + <size_t>n * f.width
                    if memcmp(place, source, f.width) != 0:
                        self.found = (
                            f"{r.name.decode()} {k}: {f.name.decode()} = {value_at(source, f.width)}: "
                            f"it follows from the rest that it is {value_at(place, f.width)}")
                        return 0
                    source += f.width
        return 0


def state_fields():
    """`{struct: [(field, bytes, length, range)]}` of all fields in snapshots: two builds must agree in them to exchange snapshots."""
    return {
        RECORDS[k].name.decode(): [
            (RECORDS[k].field[i].name.decode(), RECORDS[k].field[i].width, RECORDS[k].field[i].length, RECORDS[k].field[i].span)
            for i in range(RECORDS[k].n)]
        for k in range(n_records)
    }
