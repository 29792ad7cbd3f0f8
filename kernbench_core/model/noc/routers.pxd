"""A network of routers that move flits (docs/model/flits.md, F1 to F6). Times are clocks of the network.

A router has input ports and output ports (`Input`, `Output`), and each port has virtual channels. Three kinds of numbers name them:
- A port is numbered over all routers; the ports of one router are consecutive. The outputs of terminals, one for each, follow the
  outputs of routers; a terminal's output leads into the network.
- A channel has a number in its port (`channel`), which is also its position in the masks of the port.
- A channel of all inputs, or of all outputs, has a number that consists of both (`vc`): see `port_of`, `channel_of` and `vc_of`.

Invariants between clocks:
- A channel of an input is idle (no flit, no packet), or it waits (its first flit is a head without a channel of an output), or it is
  active (its packet has a channel of an output, until the tail leaves).
- `waiting` of the network lists each waiting channel once; `ready` lists each active channel with a flit once.
- An output has a credit for each free place of the buffer after it, without the places of flits and credits that are on their way.
"""
from kernbench_core.types cimport cycle_t, int16_t, int32_t, int64_t, slot_t, uint64_t

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t v) noexcept nogil

cdef enum:
    MAX_CHANNELS = 64         # virtual channels of an input
    MAX_PORTS = 64            # inputs or outputs of a router

cdef enum Wait:               # why a flit does not move on; counters of outputs have the same names
    WAIT_NO_CREDIT = 0
    WAIT_NO_CHANNEL = 1
    WAIT_LOST = 2
    WAITS = 3

cdef enum FlitKind:           # bits
    HEAD = 1
    TAIL = 2                  # a packet of one flit: both

cdef enum AdaptiveRoute:      # the columns of `Network.adaptive`
    MINIMAL = 0               # an output on a shortest path, or NONE; at the target, the output to the terminal
    MINIMAL_2 = 1             # another output on a shortest path, or NONE
    ESCAPE = 2                # the output of the escape network; NONE at the target
    ESCAPE_CHANNEL = 3        # its channel
    ADAPTIVE_COLUMNS = 4

cdef struct Hop:              # one router of a route; small, because each packet reads other hops
    int32_t output            # the output of the router that the packet takes
    unsigned char low         # first channel that the packet may take at the output
    unsigned char high        # last channel that the packet may take

cdef struct Packet:
    cycle_t queued_at         # clock in which it entered the queue of its terminal
    cycle_t end               # clock in which its tail is ejected; NEVER before
    int32_t source            # index of the terminal from which it comes
    int32_t target            # index of the terminal to which it goes
    int32_t hop               # index in `Network.hop` of the first router of its route
    int32_t flits             # length in flits
    int64_t tag               # a number that the caller chose; the network does not use it
    int32_t segment           # a second number that the caller chose; for transfers, the segment of the route
    int32_t[WAITS] waits      # clocks that its flits waited, by Wait
    slot_t next               # the next packet in the queue of its terminal, and later among the ended packets

cdef struct Flit:
    slot_t packet             # index of its packet
    int32_t hop               # if it is a head: index in `Network.hop` of the next router at which it needs a channel
    int32_t kind              # FlitKind

cdef struct InputVc:          # a virtual channel of an input; 16 bytes, because every flit reads one
    slot_t packet             # packet of the first flit
    int32_t hop               # `Flit.hop` of the first flit
    int32_t to                # while active: the channel of an output; while it waits on a fixed route: the first that it may take
    int16_t accept            # F3: the channel of an output, numbered over the router's, that has priority
    unsigned char kind        # FlitKind of the first flit
    unsigned char last        # while it waits on a fixed route: the last channel of the output that it may take

cdef struct Behind:           # the flits of an input's channel behind the first, in a ring buffer
    int32_t n                 # number of flits behind the first
    int32_t second            # position of the second flit of the channel in the ring buffer

cdef struct OutputVc:         # a virtual channel at the far end of an output
    int32_t credits           # free buffer places at the input after it
    int32_t grant             # F3: the first channel of an input that has priority

cdef struct Input:            # one line of the host's cache; a channel is idle, or it waits, or it is active
    uint64_t held             # channels that have a flit
    uint64_t more             # channels that have more than one flit
    uint64_t waiting          # channels whose first flit is a head without a channel of an output (F3)
    uint64_t active           # channels whose packet has a channel of an output
    int64_t occupied          # clocks in which flits left its buffers, less the clocks in which flits arrived, summed over all flits
    int32_t router            # the router to which it belongs
    int32_t output            # index of the output that leads to it
    int32_t credit            # `Output.credit` of that output
    int32_t n                 # number of flits in its buffers
    int32_t most              # the largest number of flits in its buffers so far
    unsigned char channel     # F4: the channel that has priority
    unsigned char accept      # F4: the output of the router that has priority
    unsigned char after       # the next input of the router in cyclic order, numbered within the router
    unsigned char granted     # F4: 1 + the channel from which a flit leaves in this clock; 0: none

cdef struct Output:           # the fields that every flit needs come first, in one line of the host's cache
    uint64_t taken            # channels that a packet occupies: the packet has the channel, and its tail has not left
    uint64_t empty            # channels without a credit
    int64_t busy              # links with less than a flit in a clock: the link is occupied up to this clock, times `num`
    int64_t num               # numerator of its bandwidth [flits/clock], which is at most 1
    int64_t den               # denominator of its bandwidth
    int64_t flits             # number of flits that have left
    int32_t input             # the input to which it leads; NONE: it leads to a terminal
    int32_t latency           # clocks from the grant of a flit to its arrival; at least 1
    int32_t credit            # clocks from the departure of a flit from the next input to the return of its credit; at least 1
    unsigned char grant       # F4: the input of the router that has priority
    unsigned char after       # the next output of the router in cyclic order, numbered within the router
    unsigned char heads       # F3: whether no head (0), one head (1) or several heads (2) of fixed routes request it in this clock
    unsigned char requested   # F4: whether a flit requests it in this clock
    int64_t no_credit         # clocks in which a flit had its channel and waited only for a credit
    int64_t no_channel        # clocks in which a head waited for a channel of this output
    int64_t lost              # clocks in which a flit requested this output, but another flit left or no flit could leave

cdef struct Router:
    int32_t input             # index of its first input
    int32_t inputs            # number of its inputs
    int32_t output            # index of its first output
    int32_t outputs           # number of its outputs
    bint listed               # whether it is in `Network.crowded`

cdef struct Terminal:
    slot_t first              # the first waiting packet; NONE: no packet waits
    slot_t last               # the last waiting packet; NONE: no packet waits
    int32_t sent              # number of flits of the first packet that have left
    int32_t channel           # channel of the packet that began last
    int32_t output            # index of its output into the network

cdef struct Arrival:          # of a flit
    Flit flit                 # the flit that arrives
    int32_t vc                # the channel of an input; -1 - k: the terminal at the end of channel k of an output

cdef struct Request:          # F3: of a head, to one output
    uint64_t channels         # channels of the output that the head may take
    uint64_t won              # the channels of `channels` that made the head an offer
    int32_t vc                # the input's channel with the head
    int32_t output            # the requested output of the router
    int32_t next              # the next request for the same output, of another head; NONE: no other
    int32_t lead              # the first request of this head; the fields below are those of the head, in its first request
    int32_t accept            # `InputVc.accept` of the head's channel
    int32_t distance          # distance of the best offer from this pointer; NO_OFFER: no offer
    int32_t offer             # the channel of an output, numbered over the router's, that made the best offer

cdef struct Network:
    int32_t channels          # number of virtual channels of an input
    int32_t shift             # the numbers of all channels of a port have these bits: channel `c` of port `p` is `p << shift | c`
    int32_t depth             # capacity of a virtual channel [flits]
    int32_t routers           # number of routers
    int32_t inputs            # number of inputs of all routers
    int32_t outputs           # number of outputs of all routers, without the outputs of terminals
    int32_t terminals         # number of terminals
    int32_t escapes           # number of channels of the escape network; 0: routes are fixed
    Router* router            # [routers]
    Input* input              # [inputs]
    Output* output            # [outputs + terminals]
    Terminal* terminal        # [terminals]
    InputVc* in_vc            # the virtual channels of all inputs, by input and channel
    OutputVc* out_vc          # the virtual channels at the far ends of all outputs, by output and channel
    Behind* behind            # the flits behind the first of each virtual channel, by input and channel
    Flit* ring                # ring buffers of these flits, by input, channel and position
    Hop* hop                  # the hops of all routes, one route after another
    int32_t* adaptive         # outputs for a packet at a router with a target, by router, target and AdaptiveRoute
    Packet* packet            # all packets of the run
    int32_t* waiting          # channels of inputs whose first flit is a head without a channel of an output
    int32_t n_waiting         # number of channels in `waiting`
    int32_t* ready            # the active channels of inputs that have a flit
    int32_t n_ready           # number of channels in `ready`
    int32_t* crowded          # F3: a head of each output, F4: the routers, for which flits compete in this clock
    uint64_t* queued          # a bit for each terminal with a waiting packet
    int32_t horizon           # number of buckets of the calendar: a power of two, more than the longest latency
    int32_t max_due           # flits that can arrive in one clock
    int32_t max_credits_due   # credits that can return in one clock
    Arrival* due              # flits that arrive in a clock, by bucket of the calendar
    int32_t* n_due            # number of these flits, by bucket
    int32_t* back             # channels of outputs to which a credit returns in a clock, by bucket of the calendar
    int32_t* n_back           # number of these credits, by bucket
    int64_t n_queued          # number of packets that have not left their terminals
    slot_t ended              # packets whose tails were ejected in this clock
    slot_t ended_last         # the last of these packets
    int32_t* head             # F3: the first request of each output of a router
    Request* request          # F3: the requests of a router in this clock

cdef inline int32_t port_of(Network* w, int32_t vc) noexcept nogil:
    """The port of a channel that is numbered over all ports."""
    return vc >> w.shift

cdef inline int32_t channel_of(Network* w, int32_t vc) noexcept nogil:
    """The number of this channel in its port."""
    return vc & ((1 << w.shift) - 1)

cdef inline int32_t vc_of(Network* w, int32_t port, int32_t channel) noexcept nogil:
    """The number of a channel over all ports."""
    return (port << w.shift) + channel

cdef inline int low_bit(uint64_t mask) noexcept nogil:
    """The lowest position of a mask that is not 0."""
    return trailing_zeros(mask)

cdef inline int from_pointer(uint64_t mask, int32_t pointer) noexcept nogil:
    """The first position of a mask that is not 0, in cyclic order, starting at the pointer."""
    cdef uint64_t above = mask >> pointer << pointer
    return trailing_zeros(above if above else mask)

cdef inline uint64_t bit(int32_t position) noexcept nogil:
    return <uint64_t>1 << position

cdef inline uint64_t range_of(int32_t low, int32_t high) noexcept nogil:
    """A mask of the channels from `low` to `high`."""
    return ~<uint64_t>0 >> (63 - high + low) << low

cdef inline void wait(Network* w, int32_t vc, int32_t why) noexcept nogil:
    """Count a clock in which the first flit of a channel, numbered over all inputs, does not move."""
    w.packet[w.in_vc[vc].packet].waits[why] += 1

cdef inline bint idle(Output* o, cycle_t now) noexcept nogil:
    """Whether the link takes a flit in this clock. A router sends at most one flit in a clock to each link."""
    return o.num == o.den or now * o.num >= o.busy

cdef inline void route(Network* w, InputVc* v) noexcept nogil:
    """F2: find the request of the head that is now the first flit of a channel. An adaptive route is found in each clock (F3)."""
    cdef Hop* h
    if w.escapes == 0:
        h = &w.hop[v.hop]
        v.to = vc_of(w, h.output, h.low)
        v.last = h.high
