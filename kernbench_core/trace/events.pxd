"""What a run tells of itself: plain records, written by the loop, sorted and formatted in batches (`Format`)."""
from kernbench_core.model.dram.extent cimport Cursor
from kernbench_core.types cimport cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint32_t, uint64_t

cdef enum:                    # positions in the list of templates that `Format` gets: append, never renumber
    REC_ISSUE = 0
    REC_CONTROL = 1
    REC_START = 2             # + kind of engine: DMA, TE, VE
    REC_END = 5               # likewise
    REC_STALL = 8
    REC_RESUME = 9
    REC_JOIN = 10
    REC_JOIN_LINK = 11
    REC_LEAVE = 12
    REC_LEAVE_LINK = 13
    REC_SUSPEND = 14
    REC_RETURN = 15
    REC_ACCESS = 16
    REC_MOVED = 17
    REC_CONFLICT = 18
    REC_OVERLAP = 19
    REC_EMIT = 20
    REC_RUN = 21              # REC_ACCESS and REC_MOVED of a run
    REC_CPU_START = 22
    REC_CPU_END = 23
    REC_FAR = 24              # what REC_ACCESS is, in the other scratchpad of a flow between two
    REC_FAR_STALL = 25        # REC_STALL by a bank of the other scratchpad
    REC_ENQUEUE = 26          # a command that a component submitted, or an entry that the host wrote
    REC_LOOKUP = 27
    REC_BACK_START = 28       # bytes that a cache writes back
    REC_BACK_END = 29
    REC_FLITS = 30            # a flow that moved over routers has ended
    VALUES = 8

cdef enum TraceLevel:
    TRACE_OFF = 0
    TRACE_SUMMARY = 1
    TRACE_FULL = 2
    TRACE_ACCESS = 3

cdef struct Event:
    cycle_t cycle             # in which it happened
    uint64_t place            # phase, kind of engine, engine: the order inside a cycle
    int32_t job               # number of the job, or place of issue
    uint32_t detail           # DRAM channel + 1, number of the (first) event type, one bit more (`late`)
    int32_t kind              # of record
    int32_t entry             # of the command queue; NONE
    int64_t v[VALUES]         # what the templates ask for; MISSING where there is nothing

cdef struct Asking:           # one request of a cycle, where all requests are written down
    slot_t requester          # whose request it is
    uint64_t* asked_reads     # [words] banks asked for a read (or shared) port
    uint64_t* asked_writes    # [words] for a write port
    uint64_t* no_read         # [words] of the former, those without one
    uint64_t* no_write        # [words] likewise
    uint64_t* by_read         # [words] shared ports, of those without one: banks that are read, the others are written
    bint fresh                # it was not denied before

cdef struct Note:             # one request of a block of cycles, in the order of the requesters: all of it was granted
    uint64_t[2] banks         # of read (or shared) ports, of write ports
    slot_t requester          # whose request it is
    int32_t cycle             # of the block

cdef struct Denial:           # likewise, some bank of it was denied
    uint64_t[2] banks         # read ports and write ports that it asks for
    uint64_t[2] missing       # of them
    uint64_t by_read          # as in Asking
    slot_t requester          # whose request was denied
    int32_t cycle             # of the block
    bint fresh                # it was denied for the first time
    Note* place               # it stands before this note

cdef struct Tracer:
    int32_t level             # TraceLevel
    bint rolls                # a scratchpad that is alone need not be walked in blocks (fast/rolling.pyx)
    Event* event              # the records
    int64_t n, room, full     # with `full` records the run comes back
    int32_t* order            # [room] numbers of records, as they are to be written (trace/record_order.pyx)
    int32_t* spare            # [room]
    bint lost                 # there was no memory for a record
    Asking* asking            # [n_asking] of this cycle, in the order of arbitration
    int32_t n_asking          # how many these are
    bint denied               # one of them was denied for the first time
    uint64_t* masks           # their bits
    int32_t commands          # entries of the queue;
    const int32_t* row        # behind them, what is of no entry, and jobs of components: their commands; NONE are left out
    Note* notes               # of a block: room for every requester in every cycle
    Note* note                # the next one
    Denial* denials           # likewise
    int32_t n_denials         # how many these are
    uint64_t fresh            # cycles of the block with a first denial

cdef struct FlowTrace:        # of a flow slot
    bint used                 # it belongs to a running transfer
    bint entered              # it has entered its resources
    bint suspended            # @flag
    Cursor at                 # the first byte of the open run
    nbytes_t left             # [B] of it, from the first byte of the open request on
    cycle_t asked             # @past? the first asking of it; NEVER: no run is open
    int32_t bank              # of its first byte
    bint conflict             # @flag a request of it was denied
    cycle_t held              # between scratchpads: the last cycle in which it was told that it is held

cdef struct StreamTrace:      # of a region of a running TE or VE job
    nbytes_t first            # [B] of the region: what the open request asks for,
    nbytes_t last             # up to here; none where that is not above `first`
    cycle_t asked             # @past? as in FlowTrace, for the whole region
    bint conflict             # @flag

cdef extern from *:
    """
    #define KB_MISSING INT64_MIN
    """
    int64_t MISSING "KB_MISSING"

cdef bint more_room(Tracer* t) noexcept nogil

cdef inline Event* emit(Tracer* t, int32_t kind, cycle_t cycle, int32_t phase, int32_t engine_kind, int32_t engine, int64_t job,
                        int32_t channel, int32_t number, int32_t entry) noexcept nogil:
    """A new record; NULL where there is no memory for it, or it is of a component's job that nobody described."""
    cdef Event* e
    if entry >= t.commands:
        entry = t.row[entry - t.commands] if t.row != NULL else -1
        if entry < 0:
            return NULL
    if t.n == t.room and not more_room(t):
        return NULL
    e = &t.event[t.n]
    t.n += 1
    e.cycle = cycle
    e.place = (<uint64_t>phase << 40) | (<uint64_t>engine_kind << 32) | <uint64_t>engine
    e.job = <int32_t>job
    e.detail = (<uint32_t>(channel + 1) << 9) | (<uint32_t>number << 1)
    e.kind = kind
    e.entry = entry
    return e

cdef inline void late(Event* e) noexcept nogil:
    """It stands behind other records at the same place."""
    e.detail |= 1

cdef void forget(Tracer* t, cycle_t before) noexcept nogil
cdef class Trace:
    cdef Tracer tracer
