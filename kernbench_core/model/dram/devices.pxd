"""The controllers of DRAM channels under row_buffer_v1: waiting bursts, bursts whose command was issued, and the state of the
choices."""
from kernbench_core.model.dram.device cimport Device, DeviceTiming
from kernbench_core.model.dram.extent cimport Cursor, Dram, Extent
from kernbench_core.types cimport cycle_t, int32_t, int64_t, nbytes_t, slot_t

cdef struct Burst:            # a burst in the queue, which waits for its command; queue_burst writes it
    slot_t flow               # @flow the flow of its bytes
    int32_t bank              # number of its bank in the channel, by the address map
    int64_t row               # its row in that bank, by the address map
    nbytes_t nbytes           # [B] that the burst moves for its flow, at most the bytes of a whole burst
    nbytes_t end              # [B] of its flow from the first byte to the end of this burst
    bint write                # whether it needs WR instead of RD
    bint leads                # whether it is the oldest queued burst of its bank; the scheduler writes this field in each scan
    bint candidate            # whether it is a candidate; the scheduler writes this field in each scan

cdef struct IssuedBurst:            # a burst whose command was issued and that is not finished; give_burst writes it
    slot_t flow               # @flow the flow of its bytes
    nbytes_t nbytes           # [B] that the burst moves for its flow
    nbytes_t end              # [B] of its flow from the first byte to the end of this burst
    cycle_t at                # @later the cycle from which it may be on the data bus

cdef struct Fetch:            # the position of each flow slot; fetch_open writes it, queue_burst advances it
    Cursor at                 # the first byte after the queued bursts
    Extent extent             # the bytes that the transfer moves
    int32_t memory            # index of the memory (Devices.memory) to or from which it moves them
    bint write                # whether the transfer writes DRAM
    nbytes_t requested        # @count [B] of the flow for which bursts were queued
    int64_t marked            # number of the last scan in which the scheduler found a burst of the flow

cdef struct Controller:       # the controller of one channel
    Device device             # the state of its banks and buses
    Burst* queue              # [depth] waiting bursts, the oldest first
    int32_t queued            # @queued number of bursts in the queue
    int32_t n_issued          # @given number of bursts in `issued`
    IssuedBurst* issued       # [room] bursts between their command and their last byte, in the order of their commands
    cycle_t refresh           # the cycle in which the next refresh is due; refresh_turn advances it
    bint writes               # @flag whether the last column command was WR; give_burst writes it
    int32_t streak            # @count number of consecutive column commands of this kind; give_burst counts them
    cycle_t turn_started  # @later start of the transfer that queued last; the flows take turns from it on. queue_fill writes the turn
    int64_t turn_seq          # @count submission number of that transfer
    int32_t turn_engine       # @count DMA engine of that transfer
    int32_t turn_left         # @count bursts that its flow may still queue in this turn
    cycle_t command_at        # no command is issued in an earlier cycle while nothing changes; controller_turn writes it
    cycle_t look_at           # no burst arrives or ends in an earlier cycle while nothing changes; look_ahead writes it
    cycle_t done              # the cycle in which device_phase last ran this controller
    slot_t serving            # @flow? the flow whose burst is on the data bus, or NONE; take_bus writes it
    nbytes_t nbytes           # [B] that the burst on the data bus moves; take_bus writes it
    int64_t bursts            # @count number of column commands issued
    int64_t activations       # @count number of ACTs issued
    int64_t refreshes         # @count number of REFs issued

cdef struct Devices:          # all channels of a machine; state/device_layout.pyx writes all fields without another writer
    DeviceTiming timing       # timing parameters between commands
    Controller* channel       # [n] the controller of each DRAM channel, by resource
    Fetch* fetch              # the next byte to queue of each flow slot
    Dram* memory              # the memories of the run
    int32_t n                 # number of DRAM channels
    int32_t depth             # bursts for which a queue has room (queue_bursts)
    int32_t room              # bursts of a channel that may be between command and last byte (buffer_bursts)
    int32_t batch             # bursts that may pass an older burst (batch_bursts)
    int64_t columns           # number of bursts in a row of a bank
    nbytes_t burst            # [B] size of a whole burst
    int32_t scheduler         # SchedulerRule: the choice of the next burst (model/dram/scheduler)
    int32_t page              # PageRule: when a row that no burst needs is closed (model/dram/page)
    int32_t map               # AddressMapRule: the bank and the row of a burst (model/dram/map)
    int64_t scans             # number of times that schedulers marked a queue (controller_step); marks of an earlier scan are not valid
