"""The events of a run: plain records that the loop writes, and that are sorted and formatted in batches (`Format`)."""
from kernbench_core.model.dram.extent cimport Cursor
from kernbench_core.types cimport cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint32_t, uint64_t

cdef enum:                    # positions in the list of templates of `Format`: append, never renumber
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
    REC_RUN = 21              # REC_ACCESS and REC_MOVED of an address run
    REC_CPU_START = 22
    REC_CPU_END = 23
    REC_FAR = 24              # the same as REC_ACCESS, in the far scratchpad of a flow between two scratchpads
    REC_FAR_STALL = 25        # REC_STALL by a bank of the far scratchpad
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
    cycle_t cycle             # the cycle in which the event happened
    uint64_t order_key        # phase, kind of engine, engine: the order within a cycle
    int32_t job               # number of its job, or position in the order of issue
    uint32_t detail           # DRAM channel + 1, number of the (first) event type, and one bit (`late`)
    int32_t kind              # kind of the record
    int32_t entry             # entry of the command queue, or NONE
    int64_t v[VALUES]         # values for the templates; MISSING for no value

cdef struct TracedRequest:    # one request of a cycle, if all requests are recorded
    slot_t requester          # the requester that makes the request
    uint64_t* requested_reads  # [words] banks requested with a read (or shared) port
    uint64_t* requested_writes  # [words] banks requested with a write port
    uint64_t* no_read         # [words] banks of `requested_reads` without a free port
    uint64_t* no_write        # [words] banks of `requested_writes` without a free port
    uint64_t* by_read         # [words] shared ports: banks of `no_read` that the request reads; it writes the others
    bint fresh                # whether this is the first cycle in which it is denied

cdef struct Note:             # one request of a block of cycles that was granted completely; in the order of the requesters
    uint64_t[2] banks         # banks with a read (or shared) port, banks with a write port
    slot_t requester          # the requester that made the request
    int32_t cycle             # cycle, counted from the beginning of the block

cdef struct Denial:           # the same for a request that was denied a bank
    uint64_t[2] banks         # banks that it requests: with a read (or shared) port, with a write port
    uint64_t[2] missing       # banks that it was denied: with a read (or shared) port, with a write port
    uint64_t by_read          # as in TracedRequest
    slot_t requester          # the requester that made the request
    int32_t cycle             # cycle, counted from the beginning of the block
    bint fresh                # whether this is the first cycle in which it is denied
    Note* before              # the first note after it, in the order of the requesters

cdef struct Tracer:
    int32_t level             # TraceLevel
    bint rolls                # whether a single scratchpad may be run without blocks (fast/rolling.pyx)
    Event* event              # the records
    int64_t n, room, full     # records in use; room; with `full` records the run returns
    int32_t* order            # [room] numbers of records, in the order of the lines (trace/record_order.pyx)
    int32_t* spare            # [room] working space for the sort
    bint lost                 # whether there was no memory for a record
    TracedRequest* requesting  # [n_requesting] requests of this cycle, in the order of arbitration
    int32_t n_requesting      # number of these requests
    bint denied               # whether one of them was denied for the first time
    uint64_t* masks           # the words of the masks of these requests
    int32_t commands          # number of entries of the queue
    const int32_t* row        # commands after them: jobs of components, and jobs without an entry; NONE are left out
    Note* notes               # notes of the current block: room for every requester in every cycle
    Note* note                # where the next note is written
    Denial* denials           # denials of the current block: room for every requester in every cycle
    int32_t n_denials         # number of these denials
    uint64_t fresh            # cycles of the block with a first denial

cdef struct FlowTrace:        # trace data of a flow slot
    bint used                 # whether it belongs to a running transfer
    bint entered              # whether it has entered its resources
    bint suspended            # @flag whether the trace has reported that the flow has left its resources
    Cursor at                 # the first byte of the open address run
    nbytes_t left             # [B] of the open address run, from the first byte of the open request on
    cycle_t requested         # @past? the cycle of the first request of the open address run; NEVER: no run is open
    int32_t bank              # bank of the first byte of the open address run
    bint conflict             # @flag whether a request of the open address run was denied
    cycle_t held              # between scratchpads: the last cycle in which the trace recorded that it is held

cdef struct StreamTrace:      # trace data of a region of a running TE or VE job
    nbytes_t first            # [B] offset in the region of the beginning of the open request
    nbytes_t last             # [B] offset in the region of the end of the open request; not above `first`: there is no open request
    cycle_t requested         # @past? the cycle of the first request of the region; NEVER: there was none
    bint conflict             # @flag whether a request of the region was denied

cdef extern from *:
    """
    #define KB_MISSING INT64_MIN
    """
    int64_t MISSING "KB_MISSING"

cdef bint more_room(Tracer* t) noexcept nogil

cdef inline Event* emit(Tracer* t, int32_t kind, cycle_t cycle, int32_t phase, int32_t engine_kind, int32_t engine, int64_t job,
                        int32_t channel, int32_t number, int32_t entry) noexcept nogil:
    """Add a record; NULL if there is no memory for it, or if it belongs to a component's job without a description."""
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
    e.order_key = (<uint64_t>phase << 40) | (<uint64_t>engine_kind << 32) | <uint64_t>engine
    e.job = <int32_t>job
    e.detail = (<uint32_t>(channel + 1) << 9) | (<uint32_t>number << 1)
    e.kind = kind
    e.entry = entry
    return e

cdef inline void late(Event* e) noexcept nogil:
    """Mark a record that comes after other records with the same `order_key`."""
    e.detail |= 1

cdef void forget(Tracer* t, cycle_t before) noexcept nogil
cdef class Trace:
    cdef Tracer tracer
