"""DMA engine: queues, channels, states, stalls (docs/model/dma.md, P3)."""
from kernbench_core.model.dram.extent cimport Extent
from kernbench_core.model.bank cimport BLOCK
from kernbench_core.types cimport CHANNELS, cycle_t, int8_t, int16_t, int32_t, int64_t, nbytes_t, slot_t, uint32_t

cdef struct DmaJob:
    Extent extent             # the bytes that the job moves
    int64_t t_start           # KV_STORE_TILE: its position in the order of its group
    nbytes_t nbytes           # [B] aligned size, which is what is transferred
    int32_t entry             # its entry in the command queue
    int32_t engine            # the DMA engine that executes it
    int32_t memory            # the memory on its DRAM side
    int32_t route             # the route of its first channel
    # between scratchpads: the other scratchpad, whose banks it also requests (`dram_addr` is there); NONE: the other side is
    int32_t peer  # DRAM
    int32_t group             # KV stores with the same (base, head, kind) on one engine; NONE: not ordered
    int8_t channel            # Channel
    int8_t write              # direction to DRAM: the job reads the scratchpad
    int8_t state              # DmaState; only dma_transition writes this field
    int8_t reason             # @reason StallReason of the open stall episode
    cycle_t stalled_at        # @past start of the open stall episode
    cycle_t started           # the cycle in which it started
    cycle_t head              # [cycle] head latency
    int64_t seq               # submission number
    slot_t next               # the next job in the queue of its channel
    slot_t prev               # the job before it in the queue
    slot_t flows              # the first of its flows, linked by `sibling`
    int32_t live              # flows that have not finished; 0 during the head latency
    int32_t out               # of those, flows that are out for backpressure
    int32_t pressed_channel   # @resource? DRAM channel of the first flow that went out
    int8_t in_head            # whether it is in its head latency

cdef struct DmaChannel:
    slot_t first              # pending jobs, in submission order
    slot_t last               # the last job in the queue, or NONE
    int32_t outstanding       # TRANSFERRING

cdef struct DmaLimit:         # the limits of a channel
    int32_t max_concurrent    # largest number of concurrent transfers
    int32_t score, weight     # priority, including the bonus for KV loads; weight of its flows
    int32_t tie  # among channels of equal score, the lowest goes first; if all are 0, the order of submission decides
    bint seen                 # P3: whether the channel had room in some turn
    slot_t since_seen         # its job that started after the last such turn

# The fields before `id` are state; the others are constant, or belong to one cycle or block. Fields that change together in
# every block are adjacent, so that they are in few lines of the processor's cache.
cdef struct DmaEngine:
    int32_t active            # TRANSFERRING
    int32_t pending           # QUEUED
    DmaChannel channel[CHANNELS]  # its queues: by Channel, followed by that of COMM
    int64_t jobs              # counter of completed jobs
    nbytes_t nbytes           # [B] of finished flows
    cycle_t queue_full        # @count job-cycles of closed stall episodes
    cycle_t deferred          # @count
    int32_t free              # transfers in head latency + flows that are not held: the engine is busy if this is above 0
    int32_t backpressured     # transfers whose job is stalled by backpressure
    int32_t activity          # @activity Activity in the cycles since `since`
    cycle_t since             # @past
    cycle_t spent[4]          # @past cycles before `since`, by Activity
    bint watched              # whether it is on the list of engines whose activity may change
    int32_t id                # engine id
    uint32_t changed          # cycles of the block of its scratchpad in which `free` changes
    int16_t change[BLOCK]     # the changes in these cycles
    cycle_t period            # [cycle] the engine acts in multiples of this period
    int32_t max_concurrent    # limit of transfers, without those of COMM
    int32_t queue_depth       # queue_depth_per_master
    DmaLimit limit[CHANNELS]  # the limits of these
    int64_t last_started      # submission number of the last job, in queue order, that started in this P3

cdef enum Activity:
    IDLE = 0
    BUSY = 1
    STALLED_BANK = 2
    STALLED_BACKPRESSURE = 3

cdef bint dma_transition(DmaJob* j, int32_t state) noexcept nogil
cdef void dma_submit(DmaEngine* e, DmaJob* jobs, slot_t job, int64_t seq) noexcept nogil
cdef void dma_begin_admission(DmaEngine* e) noexcept nogil
cdef slot_t dma_pick(DmaEngine* e, DmaJob* jobs) noexcept nogil
cdef slot_t dma_pick_comm(DmaEngine* e, DmaJob* jobs) noexcept nogil
cdef bint dma_start(DmaEngine* e, DmaJob* jobs, slot_t job, cycle_t now) noexcept nogil
cdef bint dma_stall(DmaEngine* e, DmaJob* j, int32_t reason, cycle_t now) noexcept nogil
cdef int32_t dma_defer(DmaEngine* e, DmaJob* jobs, cycle_t now) noexcept nogil
cdef bint dma_complete(DmaEngine* e, DmaJob* j) noexcept nogil
cdef void dma_activity(DmaEngine* e, cycle_t now) noexcept nogil
