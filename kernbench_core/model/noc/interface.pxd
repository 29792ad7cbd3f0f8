"""The interface between a machine's transfers and a network of routers (docs/model/flit_transfers.md): segments of routes, and
a state for each flow."""
from kernbench_core.model.noc.routers cimport WAITS, Network
from kernbench_core.types cimport cycle_t, int32_t, int64_t, nbytes_t, slot_t

cdef struct Segment:          # consecutive routers on a route
    int32_t source            # index of the terminal at which packets enter
    int32_t target            # index of the terminal at which packets are ejected
    int32_t hop               # index of its first hop in `Network.hop`
    int32_t alone             # clocks that a packet of one flit takes without contention

cdef struct Interface:        # the state of a flow slot
    bint full                 # whether its window has no room for a packet; the flow is then a member of no resource
    bint gives                # whether its bytes enter the network before the request to its scratchpad; if not, they enter after it
    nbytes_t entered          # [B] that have entered the network
    nbytes_t packed           # [B] of `entered` that are in packets
    nbytes_t ejected          # [B] of `entered` whose packets have left their last segment
    nbytes_t requested        # [B] that were requested from the scratchpad, if `gives`
    int64_t packets           # number of packets that left a segment, counted once for each segment
    int64_t flits             # number of flits of these packets
    cycle_t travel            # clocks from the queue of a terminal to the ejection, summed over these packets
    cycle_t alone             # clocks that these packets would take without contention, summed
    int64_t[WAITS] waits      # clocks that the flits of these packets waited, by Wait

cdef struct Interfaces:
    Network net               # the routers of the machine
    Interface* at             # [Sim.n_flows] the interface of each flow slot
    Segment* segment          # [n_segments] the segments of all routes
    int32_t n_segments, segment_room  # number of segments in use; the second field is the room for segments
    int32_t n_hops, hop_capacity  # number of hops in use; the second field is the room for hops
    slot_t* active            # flows that are past their head latency and have not ended, by engine, submission, channel
    int32_t n_active          # number of these flows
    slot_t* going_on          # packets that enter another segment in the next cycle
    int32_t n_going_on        # number of these packets
    slot_t free_packet        # unused packets, linked by `next`
    nbytes_t flit             # [B] size of a flit
    nbytes_t packet           # [B] largest size of a packet
    nbytes_t window           # [B] that a flow may have in flight
    cycle_t next              # the network does no work in an earlier clock
    int32_t* resource         # [outputs + terminals] the link to which an output leads; NONE: it leads to no link
    int32_t* output           # [resources] the output that leads to a link; NONE: the resource is no link of the network
