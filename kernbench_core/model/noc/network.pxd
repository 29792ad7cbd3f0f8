"""A network of routers that move flits (docs/model/flits.md, F1 to F6). Times are clocks of the network.

Inputs and outputs are numbered over all routers, those of one router one after the other. Behind the outputs of routers follow those
of terminals, one each: the way into the network.
"""
from kernbench_core.types cimport cycle_t, int32_t, int64_t, slot_t, uint64_t

cdef enum:
    MOST_CHANNELS = 64        # virtual channels of an input
    MOST_PORTS = 64           # inputs or outputs of a router

cdef enum Wait:               # why a flit does not go on: counters of outputs have the same names
    WAIT_NO_CREDIT = 0
    WAIT_NO_CHANNEL = 1
    WAIT_LOST = 2
    WAITS = 3

cdef enum VcState:            # of a virtual channel of an input
    VC_IDLE = 0               # no packet has its head here
    VC_WAITING = 1            # the head waits for a channel of its output (F3)
    VC_ACTIVE = 2             # it has one

cdef struct Hop:              # one row of a route
    int32_t output            # the output of the router that the packet takes
    int32_t low               # channels that the packet may take there, both included
    int32_t high              # the last of those channels

cdef struct Packet:
    cycle_t born              # clock in which it entered its terminal's queue
    cycle_t end               # its tail is ejected; NEVER before
    int32_t source            # terminals
    int32_t target            # the terminal that it goes to
    int32_t hop               # of the router that its head is in, or comes to next: into `hop`
    int32_t flits             # its length
    int64_t tag               # of the caller
    int32_t segment           # of the caller
    int32_t[WAITS] waits      # clocks that its flits waited, by Wait
    slot_t next               # in the queue of its terminal, then among those that have ended

cdef struct Flit:
    slot_t packet             # that it is a part of
    int32_t number            # 0 for the head

cdef struct InputVc:
    int32_t state             # VcState
    int32_t first             # of its ring of `depth` flits
    int32_t n                 # flits in its ring
    int32_t output            # while active
    int32_t channel           # of that output
    int32_t accept            # F3: the channel of an output, counted over the router's, that has priority

cdef struct OutputVc:
    bint taken                # by a packet whose tail has not left
    int32_t credits           # free places behind it
    int32_t grant             # F3: the channel of an input, counted over the router's, that has priority

cdef struct Input:
    int32_t router            # that it belongs to
    int32_t output            # that feeds it
    int32_t channel           # F4: that has priority
    int32_t accept            # F4: the output of the router that has priority
    uint64_t waiting          # channels in these states,
    uint64_t ready            # active with a flit
    int64_t occupied          # flits in its buffers, summed over clocks: up to `since`
    cycle_t since             # the clock up to which `occupied` counts
    int32_t n                 # flits in its buffers
    int32_t most              # the most flits that its buffers held

cdef struct Output:
    int32_t router            # NONE: of a terminal
    int32_t input             # behind it; NONE: a terminal,
    int32_t terminal          # this one
    int32_t latency           # from the grant to the arrival
    int32_t credit            # from the departure of a flit behind it to its credit
    int64_t num               # it takes num/den flits in a clock, at most 1
    int64_t den               # the denominator of that rate
    int64_t busy              # clock * num up to which it is taken
    int32_t grant             # F4: the input of the router that has priority
    int64_t flits             # that left
    int64_t no_credit         # clocks in which a flit had its channel and waited for a credit only
    int64_t no_channel        # clocks in which a head waited here for a channel
    int64_t lost              # clocks in which a flit asked for this output and another one left, or none could

cdef struct Router:
    int32_t input             # the first of its inputs,
    int32_t inputs            # and how many these are
    int32_t output            # the first of its outputs,
    int32_t outputs           # and how many these are
    int32_t n                 # flits in its buffers

cdef struct Terminal:
    slot_t first              # packets that wait
    slot_t last               # the last packet that waits, NONE
    int32_t sent              # flits of the first
    int32_t channel           # of the last packet that began
    int32_t output            # its way into the network

cdef struct Arrival:          # of a flit (n >= 0) or of a credit (n < 0)
    Flit flit                 # that arrives
    int32_t place             # input, or output
    int32_t channel           # of that input or output
    int32_t next              # in its bucket, or in the list of free ones

cdef struct Request:          # F3
    int32_t vc                # of an input, counted over the router's
    int32_t output            # that it may leave by
    int32_t low               # the first of the channels of the output that it may take,
    int32_t high              # and the last
    int32_t next              # at the same output

cdef struct Grant:            # F4
    int32_t input             # from which a flit leaves in this clock,
    int32_t channel           # its channel
    int32_t output            # and the output that it takes

cdef struct Network:
    int32_t channels          # of an input
    int32_t depth             # flits of a channel
    int32_t routers           # how many there are
    int32_t inputs            # of all routers
    int32_t outputs           # without those of terminals
    int32_t terminals         # how many there are
    int32_t escapes           # channels of the escape network; 0: routes are fixed
    Router* router            # [routers]
    Input* input              # [inputs]
    Output* output            # [outputs + terminals]
    Terminal* terminal        # [terminals]
    InputVc* in_vc            # by input, channel
    OutputVc* out_vc          # by output, channel
    Flit* flit                # by input, channel, place
    Hop* hop                  # rows of routes
    int32_t* adaptive         # by router and target: two outputs or NONE, that of the escape network, its channel
    Packet* packet            # all packets of the run
    int32_t horizon           # buckets of the calendar,
    int32_t* bucket           # of arrivals by clock
    Arrival* arrival          # places for arrivals to come
    int32_t free_arrival      # the first place that is free
    int64_t in_flight         # arrivals to come
    int64_t n_flits           # in buffers
    int64_t n_queued          # packets that have not left their terminals
    slot_t ended              # packets whose tails were ejected in this clock
    slot_t ended_last         # the last of these
    int32_t* head             # F3: of each output of a router, its first request
    Request* request          # F3: of a router in this clock
    int32_t* offer            # F3: by channel of an input, the best offer, and how far it is from its pointer
    int32_t* offer_turn       # and that distance
    Grant* granted            # F4
    int32_t n_granted         # how many these are

cdef void network_send(Network* w, slot_t packet) noexcept nogil
cdef void network_clock(Network* w, cycle_t now) noexcept nogil
cdef cycle_t network_next(Network* w, cycle_t now) noexcept nogil
