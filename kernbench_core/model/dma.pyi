"""States, stalls and channels of DMA jobs, for Python (`dma.pxd`)."""

from enum import IntEnum

COMM_CHANNEL: int  #: of queues between PEs, beside those of Channel

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
