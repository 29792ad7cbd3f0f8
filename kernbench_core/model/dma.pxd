"""DMA engine: queues, channels, states, stalls (docs/model/dma.md, P3)."""
from kernbench_core.model.dram.extent cimport Extent
from kernbench_core.model.bank cimport BLOCK
from kernbench_core.types cimport CHANNELS, cycle_t, int8_t, int16_t, int32_t, int64_t, nbytes_t, slot_t, uint32_t

cdef struct DmaJob:
    Extent extent             # the bytes that the job moves
    int64_t t_start           # KV_STORE_TILE: its position in the order of its group
    nbytes_t nbytes           # [B] aligned size, which is what is transferred
    int32_t entry             # position of its entry in the command queue
    int32_t engine            # index of the DMA engine that executes it
    int32_t memory            # index of the memory on its DRAM side
    int32_t route             # index of the route to its first channel; the routes to the other channels follow
    # between scratchpads: the other scratchpad, whose banks it also requests (`dram_addr` is there); NONE: the other side is
    int32_t peer  # DRAM
    int32_t group             # number of its group of KV stores, which have one (base, head, kind) and one engine; NONE: not ordered
    int8_t channel            # Channel: the channel of the engine in whose queue it waits
    int8_t write              # direction: 1 from scratchpad to DRAM, 0 from DRAM to scratchpad
    int8_t state              # DmaState; only dma_transition writes this field
    int8_t reason             # @reason StallReason of the current stall; NOT_STALLED: it does not stall
    cycle_t stalled_at        # @past the cycle in which the current stall began
    cycle_t started           # the cycle in which it started
    cycle_t head              # [cycle] its head latency: from its start until its flows may move bytes
    int64_t seq               # submission number: number of engine jobs that were submitted before it
    slot_t next               # the next job in the queue of its channel
    slot_t prev               # the job before it in the queue
    slot_t flows              # the first of its flows, linked by `sibling`
    int32_t live              # number of its flows that have not ended; 0 during the head latency
    int32_t out               # number of its flows that are out for backpressure
    int32_t pressed_channel   # @resource? DRAM channel of the flow that went out first
    int8_t in_head            # whether it is in its head latency

cdef struct DmaChannel:
    slot_t first              # the first waiting job, in submission order; NONE: no job waits
    slot_t last               # the last waiting job; NONE: no job waits
    int32_t outstanding       # number of its jobs that are TRANSFERRING

cdef struct DmaLimit:         # the limits of a channel
    int32_t max_concurrent    # largest number of jobs of the channel that may be TRANSFERRING at a time
    int32_t score, weight     # priority, including the bonus for KV loads; the second field is the weight of the channel's flows
    int32_t tie  # order of channels of equal score, the lowest first; if all are 0, jobs go in the order of their submission
    bint seen                 # P3: whether the channel had room in some turn
    slot_t since_seen         # its job that started after the last such turn

# The fields before `id` are state; the others are constant, or belong to one cycle or block. Fields that change together in
# every block are adjacent, so that they are in few lines of the processor's cache.
cdef struct DmaEngine:
    int32_t active            # number of jobs that are TRANSFERRING
    int32_t pending           # number of jobs that are QUEUED
    DmaChannel channel[CHANNELS]  # the queue of each Channel; the last is that of COMM
    int64_t jobs              # number of jobs that are complete
    nbytes_t nbytes           # [B] moved by flows that have ended
    cycle_t queue_full        # @count cycles of ended stalls for `queue_full`, summed over jobs
    cycle_t deferred          # @count cycles of ended stalls for `priority_deferred`, summed over jobs
    int32_t free              # transfers in their head latency, plus flows that are not held: the engine is busy if this is above 0
    int32_t backpressured     # number of transfers that stall for `backpressure`
    int32_t activity          # @activity Activity: what the engine has been doing since cycle `since`
    cycle_t since             # @past the cycle in which the current activity began
    cycle_t spent[4]          # @past cycles spent in each Activity before cycle `since`
    int32_t turn              # @channel `round_robin`: the channel whose job starts next, if one is eligible
    bint watched              # whether it is in `Spm.watch`: its activity may change in this cycle or block
    int32_t id                # engine id in the machine
    uint32_t changed          # a bit for each cycle of the current block in which `free` changes
    int16_t change[BLOCK]     # by how much `free` changes in each of these cycles
    int32_t arbiter           # DmaArbiterRule: which eligible job starts next (model/dma_arbiter.pxd)
    cycle_t period            # [cycle] the engine acts in multiples of this period
    int32_t max_concurrent    # largest number of jobs that may be TRANSFERRING, without jobs of COMM
    int32_t queue_depth       # largest number of jobs of a channel that may be TRANSFERRING (queue_depth_per_master)
    DmaLimit limit[CHANNELS]  # the limits of each Channel
    int64_t last_started      # submission number of the last job, in queue order, that started in this P3

cdef enum Activity:
    IDLE = 0
    BUSY = 1
    STALLED_BANK = 2
    STALLED_BACKPRESSURE = 3

cdef bint dma_transition(DmaJob* j, int32_t state) noexcept nogil
cdef void dma_submit(DmaEngine* e, DmaJob* jobs, slot_t job, int64_t seq) noexcept nogil
cdef void dma_begin_admission(DmaEngine* e) noexcept nogil
cdef slot_t eligible_head(DmaEngine* e, DmaJob* jobs, int32_t channel) noexcept nogil
cdef slot_t dma_pick_comm(DmaEngine* e, DmaJob* jobs) noexcept nogil
cdef bint dma_start(DmaEngine* e, DmaJob* jobs, slot_t job, cycle_t now) noexcept nogil
cdef bint dma_stall(DmaEngine* e, DmaJob* j, int32_t reason, cycle_t now) noexcept nogil
cdef int32_t dma_defer(DmaEngine* e, DmaJob* jobs, cycle_t now) noexcept nogil
cdef bint dma_complete(DmaEngine* e, DmaJob* j) noexcept nogil
cdef void dma_activity(DmaEngine* e, cycle_t now) noexcept nogil
