"""The controllers of DRAM channels under row_buffer_v2: queues, active requests, buffers of flows, and the state of the
choices."""
from kernbench_core.model.controller.timing cimport DeviceState, Timing, clock_t
from kernbench_core.model.dram.extent cimport Cursor, Dram, Extent
from kernbench_core.types cimport cycle_t, int32_t, int64_t, nbytes_t, slot_t

cdef enum MapField:           # field of an address map (C4), in the order of FIELDS in kernbench/config/dram_controller.py
    FIELD_ROW
    FIELD_PSEUDO
    FIELD_RANK
    FIELD_STACK
    FIELD_GROUP
    FIELD_BANK
    FIELD_COLUMN
    N_FIELDS

cdef enum:
    MAX_FIELDS = 16           # limit of the fields of a map, and of the pairs of a hash
    OPEN_WRITES = 2           # limit of the bursts of a flow in the write queue whose data are not complete (C1)

cdef struct AddressFields:    # `map` and `hash`; state/controller_layout.pyx writes them
    int32_t n                 # number of fields of an address
    int32_t field[MAX_FIELDS]  # MapField, the lowest first
    int64_t size[MAX_FIELDS]  # number of values of each field
    int64_t factor[MAX_FIELDS]  # factor with which the value of each field counts: above 1 for the upper part of a column
    int32_t pairs             # number of pairs of fields in the hash
    int32_t left[MAX_FIELDS]  # MapField: the field of each pair whose value the hash changes
    int32_t right[MAX_FIELDS]  # MapField: the field of each pair whose value is XORed into the left one
    int32_t shift[MAX_FIELDS]  # bits by which the value of the right field is shifted right before
    int64_t mask[MAX_FIELDS]  # the bits that are XORed: 2^bits - 1 for the left field
    int64_t rows              # number of rows of a bank

cdef struct Request:          # a burst that waits for a command
    slot_t flow               # @flow? the flow of its bytes; NONE: the flow has ended, and the burst is a write
    int32_t bank              # number of the bank in the channel
    int64_t row               # number of the row in the bank
    int64_t seq               # @count number of earlier bursts of the same flow
    int64_t number            # @count number of the burst in its channel, which determines bank and row
    clock_t came              # @later the clock in which it was queued
    bint write                # @flag whether it needs WR instead of RD
    bint whole                # @flag whether it is a read, or a write whose data have arrived
    bint counted              # @flag whether its first command was issued

cdef struct BurstSlot:        # room for one burst in the buffer of its flow
    cycle_t at                # @when? the cycle from which its data are available; NEVER before its command
    nbytes_t end              # @count [B] of the flow up to the end of this burst

cdef struct Port:             # the buffer of each flow slot
    Cursor at                 # the first byte after the queued bursts
    Extent extent             # the bytes that the transfer moves
    int32_t memory            # the memory (Controllers.memory) to or from which it moves them
    bint write                # whether the transfer writes DRAM
    nbytes_t requested        # @count [B] of queued bursts
    int64_t queued            # @count queued bursts
    int64_t there             # @count number of the oldest queued bursts whose data are available (read) or complete (write)
    int64_t free              # @count number of the oldest queued bursts whose slot is free again
    nbytes_t limit            # [B] from the first byte of the flow: its credit covers no byte beyond this; P4 writes this field
    bint clipped              # whether its rate is limited by the remainder up to `limit`; P4 writes this field
    BurstSlot* ring           # [slots] the slots of the bursts `free` to `queued`, by number modulo `slots`

cdef struct Turn:             # the turn of the flows of one direction
    cycle_t started           # @later start of the transfer that queued last
    int64_t seq               # @count submission number of that transfer
    int32_t engine            # @count DMA engine of that transfer
    int32_t left              # @count bursts that its flow may still queue in this turn

cdef struct Channel:          # a controller
    DeviceState device        # open rows, and the clocks from which commands are allowed
    Request* queue[2]         # [depth] waiting bursts, the oldest first: reads, writes
    int32_t n[2]              # @queued number of requests in each queue: reads, writes
    int32_t whole             # number of requests in the write queue whose data are complete
    Request* active           # [banks] requests for which ACT was issued, in this order
    int32_t n_active          # @given number of requests in `active`
    int32_t opening           # number of banks that wait for ACT2
    clock_t bus_free[2]       # @later the clock from which the column bus (or the only bus) and the row bus are free
    bint writes               # @flag whether the controller serves writes now
    clock_t pair_at           # @later with two phases: the clock in which a PRE may not follow the last row command
    int32_t pair_pseudo       # @row? with two phases: the pseudo-channel of that row command
    int32_t pair_bank         # @row? with two phases: the bank of that row command; NONE: all banks
    clock_t data_clock        # @later the first clock in which the data clock no longer runs
    bint cas                  # @flag whether a CAS was issued, whose column command must follow in the next clock
    int32_t cas_list          # @count the list with the request of that CAS: 0 reads, 1 writes, 2 active
    int32_t cas_index         # @count position of the request in that list
    int64_t refs              # @count number of refreshes issued
    bint waits                # whether a refresh is pending; refresh_look writes this field
    int32_t refreshing        # the bank with a pending refresh; NONE: the refresh is for a rank, or none is pending
    Turn turn[2]              # turns of the flows that read, and of the flows that write
    clock_t next_clock        # no command is issued in an earlier clock while nothing changes
    cycle_t due               # the cycle of `next_clock`, or the earlier cycle in which a buffer must be handled
    cycle_t done              # the cycle in which P4 last ran this controller
    int64_t scans             # number of runs of `mark_queue`
    int64_t bursts            # @count number of column commands issued
    int64_t activations       # @count number of ACTs issued
    int64_t hits              # @count number of bursts whose row was open at their first command
    int64_t misses            # @count number of bursts whose bank was closed at their first command
    int64_t conflicts         # @count number of bursts whose bank had another open row at their first command

cdef struct Controllers:      # all channels of a machine; state/controller_layout.pyx writes all fields without another writer
    Timing timing             # the timing parameters of the device
    AddressFields map         # the bits of an address for bank and row
    Channel* channel          # [n] the controller of each DRAM channel, by resource
    Port* port                # the buffer of each flow slot
    Dram* memory              # the memories of the run
    int32_t n                 # number of DRAM channels
    int32_t depth[2]          # bursts for which the queues have room: reads, writes
    int32_t slots             # bursts for which the buffer of a flow has room
    int32_t high              # number of complete writes at which the controller begins to serve writes
    int32_t low               # number of writes at which it stops serving them
    int32_t scheduler         # ControllerScheduler: which burst gets a command next
    int32_t cap               # bursts that may pass the oldest burst of a bank
    int32_t page              # ControllerPage: when a row that no request needs is closed
    clock_t idle              # clocks after which `adaptive` closes a row
    bint per_bank             # whether a refresh is for one bank
    int32_t postpone          # refreshes that may be postponed while there are requests
    nbytes_t burst            # [B] size of a whole burst
    int64_t num               # numerator of the core cycles of a DRAM clock
    int64_t den               # denominator of the core cycles of a DRAM clock
    int64_t peak_num          # [B/cycle] numerator of the highest rate at which a flow is drained or delivers
    int64_t peak_den          # denominator of that rate
    clock_t* departed         # for the load generator: the clock in which the last data of a burst arrived, by `seq`; else NULL

cdef inline cycle_t cycle_of(Controllers* d, clock_t clock) noexcept nogil:
    """The core cycle of a DRAM clock."""
    return (clock * d.num + d.den - 1) // d.den

cdef inline clock_t clock_up_to(Controllers* d, cycle_t cycle) noexcept nogil:
    """The last DRAM clock that begins before the end of a cycle."""
    return cycle * d.den // d.num
