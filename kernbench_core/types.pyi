"""The numbers that the core shares with Python (`types.pxd`)."""

from enum import IntEnum

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
