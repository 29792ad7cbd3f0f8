"""The controllers of DRAM channels under row_buffer_v2: queues, active requests, buffers of flows, and what chooses."""
from kernbench_core.model.controller.timing cimport DeviceState, Timing, clock_t
from kernbench_core.model.dram.extent cimport Cursor, Dram, Extent
from kernbench_core.types cimport cycle_t, int32_t, int64_t, nbytes_t, slot_t

cdef enum MapField:           # of an address map (C4), in the order of FIELDS in kernbench/config/dram_controller.py
    FIELD_ROW
    FIELD_PSEUDO
    FIELD_RANK
    FIELD_STACK
    FIELD_GROUP
    FIELD_BANK
    FIELD_COLUMN
    N_FIELDS

cdef enum:
    MOST_FIELDS = 16          # of a map, and pairs of a hash
    OPEN_WRITES = 2           # bursts of a flow in the write queue that are not whole (C1)

cdef struct AddressFields:    # `map` and `hash`; state/controller_layout.pyx writes them
    int32_t n                 # fields of an address
    int32_t field[MOST_FIELDS]         # MapField, the lowest first
    int64_t size[MOST_FIELDS]  # values of each field
    int64_t place[MOST_FIELDS]         # by which a value is multiplied: the upper part of a column
    int32_t pairs             # pairs of fields of a hash
    int32_t left[MOST_FIELDS]          # MapField
    int32_t right[MOST_FIELDS]         # MapField
    int32_t shift[MOST_FIELDS]         # of the right field
    int64_t mask[MOST_FIELDS]          # 2^bits - 1 of the left field
    int64_t rows              # of a bank

cdef struct Request:          # a burst that waits for a command
    slot_t flow               # @flow? whose bytes it has; NONE: that has ended, and it is a write
    int32_t bank              # of the channel, by the address map
    int64_t row               # of that bank, by the address map
    int64_t seq               # @count bursts of the flow before it
    int64_t number            # @count its number in the channel
    clock_t came              # @later the clock in which it was queued
    bint write                # @flag it needs WR, not RD
    bint whole                # @flag a read, or a write whose data are there
    bint counted              # @flag its first command was given

cdef struct Place:            # of a burst in the buffer of its flow
    cycle_t at                # @when? the cycle from which on it is there; NEVER before its command
    nbytes_t end              # @count [B] of the flow up to the end of this burst

cdef struct Port:             # the buffer of each flow slot
    Cursor at                 # the first byte behind the bursts that were queued
    Extent extent             # what the transfer moves
    int32_t memory            # the memory (Controllers.memory) that it moves to or from
    bint write                # the transfer writes DRAM
    nbytes_t asked            # @count [B] of bursts that were queued
    int64_t queued            # @count bursts that were queued
    int64_t there             # @count of those, from the first on: there (read) or whole (write)
    int64_t free              # @count of those, from the first on: their place is free again
    nbytes_t limit            # [B] up to which the flow may earn; P4 writes it
    bint clipped              # its rate is what is left of that; P4 writes it
    Place* ring               # [places] of bursts `free` to `queued`, by number modulo `places`

cdef struct Turn:             # of the flows of one direction
    cycle_t started           # @later start of the transfer that queued last
    int64_t seq               # @count submission number of that transfer
    int32_t engine            # @count DMA engine of that transfer
    int32_t left              # @count bursts that its flow may still queue in this turn

cdef struct Channel:          # a controller
    DeviceState device        # open rows, and when commands are allowed
    Request* queue[2]         # [depth] that wait, the oldest first: reads, writes
    int32_t n[2]              # @queued
    int32_t whole             # writes of the queue that are whole
    Request* active           # [banks] for which ACT was given, in that order
    int32_t n_active          # @given
    int32_t opening           # banks that wait for ACT2
    clock_t bus_free[2]       # @later from which clock on the column bus (or the only one), and the row bus, is free
    bint writes               # @flag writes are served
    clock_t pair_at           # @later with two phases: the clock in which a PRE may not follow the last row command,
    int32_t pair_pseudo       # @row? of its pseudo-channel,
    int32_t pair_bank         # @row? and its bank, or NONE: of all
    clock_t data_clock        # @later up to and without which clock the data clock runs
    bint cas                  # @flag a CAS was given: its column command comes in the next clock,
    int32_t cas_list          # @count for a request of this list: 0 reads, 1 writes, 2 active,
    int32_t cas_place         # @count in this place
    int64_t refs              # @count refreshes given
    bint waits                # a refresh waits; refresh_look writes it
    int32_t refreshing        # the bank whose refresh waits; NONE: it is of a rank, or none waits
    Turn turn[2]              # of flows that read, and that write
    clock_t next_clock        # nothing is done in an earlier one while nothing changes
    cycle_t due               # the cycle in which that is, or a buffer has something to do
    cycle_t done              # the cycle in which P4 last ran this controller
    int64_t looks             # how often `mark_queue` ran
    int64_t bursts            # @count column commands given
    int64_t activations       # @count ACTs given
    int64_t hits              # @count bursts whose row was open at their first command,
    int64_t misses            # @count whose bank was closed,
    int64_t conflicts         # @count whose bank had another row open

cdef struct Controllers:      # all channels of a machine; state/controller_layout.pyx writes what is not said to be written elsewhere
    Timing timing             # the times of the device
    AddressFields map         # which bits of an address are bank and row
    Channel* channel          # [n] by resource
    Port* port                # by flow slot
    Dram* memory              # the memories of the run
    int32_t n                 # channels
    int32_t depth[2]          # bursts that the queues hold: reads, writes
    int32_t places            # bursts of the buffer of a flow
    int32_t high              # whole writes from which on they are served,
    int32_t low               # and down to which
    int32_t scheduler         # ControllerScheduler
    int32_t cap               # bursts that may pass the oldest of a bank
    int32_t page              # ControllerPage
    clock_t idle              # clocks after which `adaptive` closes a row
    bint per_bank             # refreshes are of one bank
    int32_t postpone          # refreshes that may wait while there are requests
    nbytes_t burst            # [B] of a whole burst
    int64_t num               # core cycles of a DRAM clock: num/den
    int64_t den               # the denominator of that rate
    int64_t peak_num          # [B/cycle] at which a flow is drained or delivers at most: peak_num/peak_den
    int64_t peak_den          # the denominator of that rate
    clock_t* departed         # of the load generator: by `seq`, the clock in which the last data of a burst were there; else NULL

cdef inline cycle_t cycle_of(Controllers* d, clock_t clock) noexcept nogil:
    """The core cycle in which a DRAM clock is."""
    return (clock * d.num + d.den - 1) // d.den

cdef inline clock_t clock_up_to(Controllers* d, cycle_t cycle) noexcept nogil:
    """The last DRAM clock up to the end of a cycle."""
    return cycle * d.den // d.num
