"""The only scalar types of the core, and the numbers shared with Python."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

ctypedef int64_t cycle_t      # core-clock cycles since reset
ctypedef int64_t nbytes_t     # bytes
ctypedef int32_t slot_t       # index into a table; NONE: no index

cdef extern from *:
    """
    #define KB_NEVER INT64_MAX
    #define KB_NONE  (-1)
    """
    cycle_t NEVER "KB_NEVER"  # a cycle that never comes
    slot_t NONE "KB_NONE"

cpdef enum EngineType:        # the order that breaks ties (docs/model/time_and_phases.md): append, never renumber
    DMA = 0
    TE = 1
    VE = 2
    MEMORY = 3
    TRACE = 4
    CONTROL = 5
    COMPONENT = 6             # components, including M_CPUs
    CPU = 7                   # an M_CPU, as the target of `submit`

cpdef enum Opkind:            # the kind of a command queue entry in the core
    OP_DMA = 0
    OP_COMPUTE = 1
    OP_NOP = 2
    OP_BARRIER = 3
    OP_END = 4
    OP_COMPONENT = 5          # no entry of the command queue: a job that one component submitted to another

cpdef enum DmaState:          # state of a DMA job; the values are trace schema: append, never renumber
    DMA_QUEUED = 0
    DMA_TRANSFERRING = 1
    DMA_COMPLETED = 2

cpdef enum StallReason:       # why a DMA job does not start or does not progress
    NOT_STALLED = 0
    QUEUE_FULL = 1
    PRIORITY_DEFERRED = 2
    BACKPRESSURE = 3

cpdef enum Channel:           # channel of a DMA engine, as entries name it
    ACT_WEIGHT = 0
    KV_LOAD = 1
    KV_STORE = 2

cdef enum:
    COMM = 3                  # queues between PEs: a separate channel with its own limit
    CHANNELS = 4

cpdef enum Status:
    RUNNING = 0
    DONE = 1
    ABORTED = 2
    DEADLOCK = 3
    FAILED = 4
    OVERFLOW = 5              # a max-min share needs terms of more than 128 bits, or is below 2^-31 B/cycle

cpdef enum Allocation:
    SHARED_BW = 0
    MAX_MIN = 1
    FIFO = 2
    ROW_BUFFER = 3
    CONTROLLER_MODEL = 4      # row_buffer_v2

cpdef enum Overlap:
    OVERLAP_NONE = 0
    OVERLAP_WARN = 1
    OVERLAP_ERROR = 2
