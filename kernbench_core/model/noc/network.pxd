"""A network of routers that move flits (docs/model/flits.md, F1 to F6). Times are clocks of the network.

Inputs and outputs are numbered over all routers; those of one router are consecutive. The outputs of terminals, one for each,
follow the outputs of routers; a terminal's output leads into the network.
"""
from kernbench_core.types cimport cycle_t, int32_t, int64_t, slot_t, uint64_t

cdef enum:
    MOST_CHANNELS = 64        # virtual channels of an input
    MOST_PORTS = 64           # inputs or outputs of a router

cdef enum Wait:               # why a flit does not move on; counters of outputs have the same names
    WAIT_NO_CREDIT = 0
    WAIT_NO_CHANNEL = 1
    WAIT_LOST = 2
    WAITS = 3

cdef enum VcState:            # the state of a virtual channel of an input
    VC_IDLE = 0               # no packet has its head in the channel
    VC_WAITING = 1            # the head waits for a channel of its output (F3)
    VC_ACTIVE = 2             # the packet has a channel of its output

cdef struct Hop:              # one router of a route
    int32_t output            # the output of the router that the packet takes
    int32_t low               # first channel that the packet may take at the output
    int32_t high              # last channel that the packet may take

cdef struct Packet:
    cycle_t born              # clock in which it entered the queue of its terminal
    cycle_t end               # clock in which its tail is ejected; NEVER before
    int32_t source            # terminals
    int32_t target            # the terminal to which it goes
    int32_t hop               # the router that has its head, or that the head reaches next: index into `hop`
    int32_t flits             # its length in flits
    int64_t tag               # a number for the caller
    int32_t segment           # a number for the caller
    int32_t[WAITS] waits      # clocks that its flits waited, by Wait
    slot_t next               # the next packet in the queue of its terminal, and later among the ended packets

cdef struct Flit:
    slot_t packet             # the packet of the flit
    int32_t number            # position in the packet; 0 for the head

cdef struct InputVc:
    int32_t state             # VcState
    int32_t first             # first flit of its ring buffer of `depth` flits
    int32_t n                 # number of flits in its ring buffer
    int32_t output            # its output, while active
    int32_t channel           # channel of this output
    int32_t accept            # F3: the channel of an output, numbered over the router's, that has priority

cdef struct OutputVc:
    bint taken                # whether a packet has it whose tail has not left
    int32_t credits           # free buffer places at the input after it
    int32_t grant             # F3: the channel of an input, numbered over the router's, that has priority

cdef struct Input:
    int32_t router            # the router to which it belongs
    int32_t output            # that feeds it
    int32_t channel           # F4: the channel that has priority
    int32_t accept            # F4: the output of the router that has priority
    uint64_t waiting          # channels in state VC_WAITING
    uint64_t ready            # active channels that have a flit
    int64_t occupied          # flits in its buffers, summed over the clocks up to `since`
    cycle_t since             # the clock up to which `occupied` counts
    int32_t n                 # flits in its buffers
    int32_t most              # the largest number of flits in its buffers so far

cdef struct Output:
    int32_t router            # NONE: the output of a terminal
    int32_t input             # the input to which it leads; NONE: it leads to a terminal
    int32_t terminal          # that terminal
    int32_t latency           # from the grant to the arrival
    int32_t credit            # clocks from the departure of a flit from the next input to the return of its credit
    int64_t num               # bandwidth of num/den flits in a clock, at most 1
    int64_t den               # the denominator of that rate
    int64_t busy              # clock * num up to which it is occupied
    int32_t grant             # F4: the input of the router that has priority
    int64_t flits             # flits that have left
    int64_t no_credit         # clocks in which a flit had its channel and waited only for a credit
    int64_t no_channel        # clocks in which a head waited for a channel of this output
    int64_t lost              # clocks in which a flit requested this output, but another flit left or no flit could leave

cdef struct Router:
    int32_t input             # its first input
    int32_t inputs            # number of its inputs
    int32_t output            # its first output
    int32_t outputs           # number of its outputs
    int32_t n                 # flits in its buffers

cdef struct Terminal:
    slot_t first              # waiting packets
    slot_t last               # the last waiting packet, or NONE
    int32_t sent              # flits of the first packet that have left
    int32_t channel           # channel of the last packet that began
    int32_t output            # its output into the network

cdef struct Arrival:          # the arrival of a flit (n >= 0) or of a credit (n < 0)
    Flit flit                 # that arrives
    int32_t place             # an input or an output
    int32_t channel           # of that input or output
    int32_t next              # the next arrival in its bucket, or in the list of free places

cdef struct Request:          # F3
    int32_t vc                # channel of an input, numbered over the router's
    int32_t output            # the output by which it may leave
    int32_t low               # the first channel of the output that it may take
    int32_t high              # the last channel that it may take
    int32_t next              # the next request for the same output

cdef struct Grant:            # F4
    int32_t input             # the input from which a flit leaves in this clock
    int32_t channel           # channel of this input
    int32_t output            # the output that the flit takes

cdef struct Network:
    int32_t channels          # of an input
    int32_t depth             # flits of a channel
    int32_t routers           # number of routers
    int32_t inputs            # of all routers
    int32_t outputs           # outputs without those of terminals
    int32_t terminals         # number of terminals
    int32_t escapes           # number of channels of the escape network; 0: routes are fixed
    Router* router            # [routers]
    Input* input              # [inputs]
    Output* output            # [outputs + terminals]
    Terminal* terminal        # [terminals]
    InputVc* in_vc            # by input, channel
    OutputVc* out_vc          # by output, channel
    Flit* flit                # by input, channel, place
    Hop* hop                  # routers of routes
    int32_t* adaptive         # by router and target: two outputs or NONE, the output of the escape network, and its channel
    Packet* packet            # all packets of the run
    int32_t horizon           # number of buckets of the calendar
    int32_t* bucket           # arrivals by clock
    Arrival* arrival          # places for future arrivals
    int32_t free_arrival      # the first free place
    int64_t in_flight         # number of future arrivals
    int64_t n_flits           # number of flits in buffers
    int64_t n_queued          # number of packets that have not left their terminals
    slot_t ended              # packets whose tails were ejected in this clock
    slot_t ended_last         # the last of these packets
    int32_t* head             # F3: the first request of each output of a router
    Request* request          # F3: the requests of a router in this clock
    int32_t* offer            # F3: by channel of an input, the best offer
    int32_t* offer_turn       # F3: distance of this offer from the pointer
    Grant* granted            # F4
    int32_t n_granted         # number of granted flits

cdef void network_send(Network* w, slot_t packet) noexcept nogil
cdef void network_clock(Network* w, cycle_t now) noexcept nogil
cdef cycle_t network_next(Network* w, cycle_t now) noexcept nogil
