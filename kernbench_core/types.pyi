"""The numbers that the core shares with Python (`types.pxd`)."""

from enum import IntEnum

COMM_CHANNEL: int  #: of queues between PEs, beside those of Channel

class EngineType(IntEnum):
    """Kinds of engines, in the order that breaks ties (docs/model/time_and_phases.md)."""

    DMA = 0
    TE = 1
    VE = 2
    MEMORY = 3
    TRACE = 4
    CONTROL = 5
    COMPONENT = 6
    CPU = 7

class Opkind(IntEnum):
    """What an entry of a command queue is for the core."""

    OP_DMA = 0
    OP_COMPUTE = 1
    OP_NOP = 2
    OP_BARRIER = 3
    OP_END = 4
    OP_COMPONENT = 5

class Status(IntEnum):
    """How a run stands; OVERFLOW: a max-min share needs terms that 128 bits do not hold."""

    RUNNING = 0
    DONE = 1
    ABORTED = 2
    DEADLOCK = 3
    FAILED = 4
    OVERFLOW = 5

class Allocation(IntEnum):
    """How flows share a resource (docs/model/sharing.md)."""

    SHARED_BW = 0
    MAX_MIN = 1
    FIFO = 2
    ROW_BUFFER = 3
    CONTROLLER_MODEL = 4

class Overlap(IntEnum):
    """What is done about jobs whose scratchpad ranges overlap."""

    OVERLAP_NONE = 0
    OVERLAP_WARN = 1
    OVERLAP_ERROR = 2

class DmaState(IntEnum):
    """Where a job is on its way through a DMA engine."""

    DMA_QUEUED = 0
    DMA_TRANSFERRING = 1
    DMA_COMPLETED = 2

class StallReason(IntEnum):
    """Why a job does not start or does not go on."""

    NOT_STALLED = 0
    QUEUE_FULL = 1
    PRIORITY_DEFERRED = 2
    BACKPRESSURE = 3

class Channel(IntEnum):
    """Channels of a DMA engine that entries name."""

    ACT_WEIGHT = 0
    KV_LOAD = 1
    KV_STORE = 2
