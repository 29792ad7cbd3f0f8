"""DMA engine: queues, channels, states, stalls (docs/model/dma.md, P3)."""
from kernbench_core.model.dram.extent cimport Extent
from kernbench_core.model.bank cimport BLOCK
from kernbench_core.types cimport CHANNELS, cycle_t, int8_t, int16_t, int32_t, int64_t, nbytes_t, slot_t, uint32_t

cdef struct DmaJob:
    Extent extent             # the bytes that it moves
    int64_t t_start           # KV_STORE_TILE: its place in the order of its group
    nbytes_t nbytes           # [B] aligned, what travels
    int32_t entry             # of the command queue
    int32_t engine            # DMA engine that executes it
    int32_t memory            # its DRAM side
    int32_t route             # of its first channel
    int32_t peer              # between scratchpads: the other one, which it asks too (`dram_addr` is there); NONE: there is DRAM
    int32_t group             # KV stores with one (base, head, kind) on one engine; NONE: not ordered
    int8_t channel            # Channel
    int8_t write              # to DRAM: it reads the scratchpad
    int8_t state              # DmaState; written by dma_transition alone
    int8_t reason             # @reason StallReason of the open episode
    cycle_t stalled_at        # @past begin of the open episode
    cycle_t started           # the cycle in which it started
    cycle_t head              # [cycle] of its head latency
    int64_t seq               # submission number
    slot_t next               # in its channel's queue
    slot_t prev               # the job before it in its queue
    slot_t flows              # its flows, by `sibling`
    int32_t live              # flows not finished; 0 in head latency
    int32_t out               # of those, out for backpressure
    int32_t pressed_channel   # @resource? DRAM channel of the flow that went out first
    int8_t in_head            # in its head latency

cdef struct DmaChannel:
    slot_t first              # pending jobs in submission order
    slot_t last               # the last job in its queue, or NONE
    int32_t outstanding       # TRANSFERRING

cdef struct DmaLimit:         # of a channel
    int32_t max_concurrent    # transfers at a time, at most
    int32_t score, weight     # priority, with the bonus for KV loads; of its flows
    int32_t tie               # among channels of equal score the least goes first; all 0: the order of submission decides
    bint seen                 # P3: it had room at some turn,
    slot_t since_seen         # and the job of it that started after the last such turn

cdef struct DmaEngine:        # up to `id` it is state; behind that what is constant, or of one cycle or block
    int32_t active            # TRANSFERRING
    int32_t pending           # QUEUED
    DmaChannel channel[CHANNELS]  # its queues: by Channel, then that of COMM
    int64_t jobs              # counters: completed jobs
    nbytes_t nbytes           # of finished flows
    cycle_t queue_full        # @count job-cycles of closed episodes
    cycle_t deferred          # @count
    int32_t free              # transfers in head latency + flows not held: busy if there is one
    int32_t backpressured     # transfers whose job is stalled so
    int32_t activity          # @activity Activity of the cycles since `since`
    cycle_t since             # @past
    cycle_t spent[4]          # @past cycles before `since`, by Activity
    bint watched              # on the list of engines whose activity may change
    int32_t id                # engine id
    cycle_t period            # [cycle] it acts in multiples of this
    int32_t max_concurrent    # without those of COMM
    int32_t queue_depth       # queue_depth_per_master
    DmaLimit limit[CHANNELS]  # the limits of these
    int64_t last_started      # submission number of the last job in queue order that started in this P3
    uint32_t changed          # cycles of the block of its scratchpad in which `free` changes,
    int16_t change[BLOCK]     # and by how much

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
