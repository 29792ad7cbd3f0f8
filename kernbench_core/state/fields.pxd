"""The model state of a run as bytes: the fields, their ranges and their order.

A field is declared where it stands: `# @past? NEVER: not yet` behind a field of a struct in any `.pxd` says that a snapshot holds it and
that it lies in the range `past?`. `field_table.py` makes `field_table.pxi` from these comments, and all code in this file iterates over
that table.
"""
from kernbench_core.types cimport int32_t, int64_t

cdef enum Range:              # range of a value in a snapshot; `limits_of` (state/fields.pyx) computes the limits for a run
    RANGE_ANY = 0             # a mask of banks: checked against the existing banks (state/audit.pyx)
    RANGE_FLAG = 1            # 0 or 1
    RANGE_COUNT = 2           # number of cycles, bytes or events: 0 to 2^62
    RANGE_TERM = 3            # term of a rate in lowest terms: 0 to 2^31
    RANGE_CYCLE = 4           # the run's own cycle: 0 to max_cycles
    RANGE_PAST = 5            # 0 to the run's cycle
    RANGE_PAST_Q = 6          # the same, or NEVER
    RANGE_NEXT_Q = 7          # the run's cycle to 2^62, or NEVER
    RANGE_ENTRY_Q = 8         # position of an entry, or NONE
    RANGE_RESOURCE_Q = 9      # index of a resource, or NONE
    RANGE_STATUS = 10         # Status
    RANGE_REASON = 11         # StallReason
    RANGE_ACTIVITY = 12       # Activity
    RANGE_FLOW = 13           # position among the flows of a snapshot
    RANGE_FLOW_Q = 14         # the same, or NONE
    RANGE_ROW_Q = 15          # row of a DRAM bank, or NONE
    RANGE_WINDOW = 16         # index of one of the last activations
    RANGE_QUEUED = 17         # number of bursts in a channel's queue
    RANGE_GIVEN = 18          # number of bursts in its buffer
    RANGE_LATER = 19          # a cycle that may be after the run's cycle, by at most the longest time between two DRAM commands
    RANGE_CLIENT = 20         # one of the machine's clients of scratchpads (model/arbiter/arbiter.pxd)
    RANGE_WHEN_Q = 21         # 0 to 2^62, or NEVER
    RANGE_CHANNEL = 22        # a channel of a DMA engine before COMM
    RANGES = 23

cdef struct Field:            # a field of a struct
    const char* name          # name of the field in errors
    size_t at                 # [B] offset from the beginning of the struct
    int32_t width             # [B] size of a value: 1, 4 or 8
    int32_t length            # number of values: more than 1 for an array
    int32_t span              # Range of its values

cdef struct Record:           # the content of a snapshot for a struct
    const char* name          # name of the struct
    const Field* field        # [n] the fields that a snapshot contains
    int32_t n                 # number of fields
    size_t nbytes             # [B] that a struct takes in a snapshot

cdef struct Limits:           # limits of each range
    int64_t[RANGES] low       # the smallest value of each range
    int64_t[RANGES] high      # the largest value of each range
    int64_t[RANGES] also      # one additional value: NEVER, NONE, or `low` again

cdef class Visitor:
    """Visits the tables of a run, one after another, always in the same order (state/snapshot.pyx)."""
    cdef int table(self, const Record* r, void* base, size_t stride, int64_t items) except -1

cdef class Pack(Visitor):
    cdef list parts

cdef class Unpack(Visitor):
    cdef Limits limits
    cdef bytes image
    cdef Py_ssize_t at
    cdef int end(self) except -1

cdef class Show(Visitor):
    cdef dict tables

cdef class Compare(Visitor):
    cdef bytes image
    cdef Py_ssize_t at
    cdef readonly str found

cdef Record SIM, SHARE, ENTRY, DMAJOB, DMAENGINE, RESOURCE, COMPUTE, ARRAYJOB, REQUESTER, FLOW, FLOWTRACE, STREAMTRACE
cdef Record BANK, DEVICE, BURST, ISSUEDBURST, FETCH, CONTROLLER
cdef Record BANKSTATE, REQUEST, BURSTSLOT, PORT, TURN, CHANNEL
cdef Record CACHE, WRITEBACK
cdef Record WORD, COUNTER, POINTER, TIME, OVERLAPPED, ARRIVAL

cdef void limits_of(Limits* x, int64_t cycle, int64_t most_cycles, int64_t entries, int64_t resources) noexcept
