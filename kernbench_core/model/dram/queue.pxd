"""The controller of a DRAM channel under row_buffer_v1: bursts that wait, in which order they go, and those on their way."""
from kernbench_core.model.dram.extent cimport Cursor, Dram, Extent
from kernbench_core.model.dram.device cimport Device, DeviceTiming
from kernbench_core.model.share.membership cimport Share
from kernbench_core.types cimport cycle_t, int32_t, int64_t, nbytes_t, slot_t

cdef struct Burst:            # waits for its command
    slot_t flow               # @flow
    int32_t bank
    int64_t row
    nbytes_t nbytes, end      # of the flow, at most those of a whole burst; and of the flow up to its end
    bint write
    bint leads                # the oldest of its bank; found anew for each look, as
    bint hit                  # that it may be next: the first of its flow, its row open, and none older passed by too often

cdef struct Given:            # its command was given; it is in the channel's buffer
    slot_t flow               # @flow
    nbytes_t nbytes, end
    cycle_t at                # @later it has the data bus from then on, at the earliest

cdef struct Fetch:            # of each flow slot
    Cursor at                 # behind the bursts that were queued
    Extent extent
    int32_t memory
    bint write
    nbytes_t asked            # @count [B] of bursts that were queued
    int64_t seen              # in the last look

cdef struct Controller:
    Device device
    Burst* queue              # [depth], the oldest first
    int32_t queued            # @queued bursts in it
    int32_t n_given           # @given bursts in the buffer
    Given* given              # [room], in the order of their commands
    cycle_t refresh           # when the next one is due
    bint writes               # @flag what goes now,
    int32_t streak            # @count for so many bursts
    cycle_t turn_started      # @later the flow that queued last, by the order of transfers,
    int64_t turn_seq          # @count
    int32_t turn_engine       # @count
    int32_t turn_left         # @count and how many more it may
    cycle_t command_at        # nothing is given in an earlier cycle, while nothing changes
    cycle_t look_at           # nor has the burst on the bus moved, or one arrived
    cycle_t done              # cycle in which it was last looked at
    slot_t serving            # @flow? the flow that has the data bus, or NONE,
    nbytes_t nbytes           # and the bytes of its burst
    int64_t bursts            # @count so many were given
    int64_t activations       # @count
    int64_t refreshes         # @count

cdef struct Devices:
    DeviceTiming timing
    Controller* channel       # by resource
    Fetch* fetch
    Dram* memory
    int32_t n, depth, room, batch
    int64_t columns           # bursts of a row
    nbytes_t burst            # [B]
    int64_t looks
    cycle_t next              # no channel has something to do in an earlier cycle

cdef void queue_burst(Share* s, Devices* d, Controller* c, slot_t flow) noexcept nogil
cdef void queue_fill(Share* s, Devices* d, slot_t bus) noexcept nogil
cdef void queue_turn(Devices* d, Controller* c, cycle_t now) noexcept nogil
cdef void queue_forget(Share* s, slot_t flow) noexcept nogil
