"""The controllers of DRAM channels under row_buffer_v1: bursts that wait, bursts whose command was given, and what chooses."""
from kernbench_core.model.dram.device cimport Device, DeviceTiming
from kernbench_core.model.dram.extent cimport Cursor, Dram, Extent
from kernbench_core.types cimport cycle_t, int32_t, int64_t, nbytes_t, slot_t

cdef struct Burst:            # in the queue: it waits for its command; queue_burst writes it
    slot_t flow               # @flow whose bytes it has
    int32_t bank              # number of its bank in the channel, by the address map
    int64_t row               # its row of that bank, by the address map
    nbytes_t nbytes           # [B] of the flow, at most those of a whole burst
    nbytes_t end              # [B] of the flow up to the end of this burst
    bint write                # it needs WR, not RD
    bint leads                # it is the oldest queued burst of its bank; the scheduler writes it in each look
    bint candidate            # it may be next; the scheduler writes it in each look

cdef struct Given:            # its command was given, and it is not over; give_burst writes it
    slot_t flow               # @flow whose bytes it has
    nbytes_t nbytes           # [B] of the flow
    nbytes_t end              # [B] of the flow up to the end of this burst
    cycle_t at                # @later the cycle from which it may be on the data bus

cdef struct Fetch:            # of each flow slot; fetch_open writes it, queue_burst moves it on
    Cursor at                 # the first byte behind the bursts that were queued
    Extent extent             # what the transfer moves
    int32_t memory            # the memory (Devices.memory) that it moves to or from
    bint write                # the transfer writes DRAM
    nbytes_t asked            # @count [B] of bursts that were queued
    int64_t marked            # the last look in which the scheduler met a burst of the flow

cdef struct Controller:       # of one channel
    Device device             # its banks
    Burst* queue              # [depth] bursts that wait, the oldest first
    int32_t queued            # @queued bursts in the queue
    int32_t n_given           # @given bursts in `given`
    Given* given              # [room] bursts between command and last byte, in the order of their commands
    cycle_t refresh           # the cycle in which the next refresh is due; refresh_turn moves it on
    bint writes               # @flag the last column command was WR; give_burst writes it
    int32_t streak            # @count column commands of that kind since the last one of the other; give_burst counts
    cycle_t turn_started      # @later start of the transfer that queued last, by which flows take turns; queue_fill writes the turn
    int64_t turn_seq          # @count submission number of that transfer
    int32_t turn_engine       # @count DMA engine of that transfer
    int32_t turn_left         # @count bursts that its flow may still queue in this turn
    cycle_t command_at        # no command is given in an earlier cycle while nothing changes; controller_turn writes it
    cycle_t look_at           # no burst arrives or is over in an earlier cycle while nothing changes; look_ahead writes it
    cycle_t done              # the cycle in which device_phase last ran this controller
    slot_t serving            # @flow? whose burst is on the data bus, or NONE; take_bus writes it
    nbytes_t nbytes           # [B] of the burst on the data bus; take_bus writes it
    int64_t bursts            # @count column commands given
    int64_t activations       # @count ACTs given
    int64_t refreshes         # @count REFs given

cdef struct Devices:          # all channels of a machine; state/device_layout.pyx writes what is not said to be written elsewhere
    DeviceTiming timing       # between commands
    Controller* channel       # [n] by resource
    Fetch* fetch              # by flow slot
    Dram* memory              # the memories of the run
    int32_t n                 # channels
    int32_t depth             # bursts that a queue holds (queue_bursts)
    int32_t room              # bursts of a channel between command and last byte (buffer_bursts)
    int32_t batch             # bursts that may pass an older one (batch_bursts)
    int64_t columns           # bursts of a row of a bank
    nbytes_t burst            # [B] of a whole burst
    int32_t scheduler         # SchedulerRule: which burst goes next (model/dram/scheduler)
    int32_t page              # PageRule: when a row is closed that no burst wants (model/dram/page)
    int32_t map               # AddressMapRule: bank and row of a burst (model/dram/map)
    int64_t looks             # how often schedulers marked a queue; marks of an older look are void; controller_turn counts
