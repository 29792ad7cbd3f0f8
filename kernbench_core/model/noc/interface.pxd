"""What a machine's transfers have of a network of routers (docs/model/flit_transfers.md): segments of routes, and a state for each flow."""
from kernbench_core.model.noc.network cimport WAITS, Network
from kernbench_core.types cimport cycle_t, int32_t, int64_t, nbytes_t, slot_t

cdef struct Segment:          # routers that follow each other on a route
    int32_t source            # terminal where packets enter,
    int32_t target            # and where they are ejected
    int32_t hop               # the first of its hops
    int32_t alone             # clocks of a packet of one flit with nothing in its way

cdef struct Interface:        # of a flow slot
    bint full                 # its window has no room for a packet: it is at no resource
    bint gives                # its bytes enter the network before its scratchpad is asked; else after that
    nbytes_t entered          # bytes that entered the network,
    nbytes_t packed           # of those, in packets,
    nbytes_t ejected          # whose packets left their last segment,
    nbytes_t asked            # and, where it gives, that were requested
    int64_t packets           # packets times segments that ended, and
    int64_t flits             # their flits
    cycle_t travel            # clocks from the queue of a terminal to the ejection, summed over them
    cycle_t alone             # the same, with nothing in their way
    int64_t[WAITS] waits      # clocks that their flits waited

cdef struct Interfaces:
    Network net               # the routers of the machine
    Interface* at             # [Sim.n_flows] by flow slot
    Segment* segment          # [n_segments] of all routes
    int32_t n_segments, segment_room  # how many these are; room for them
    int32_t n_hops, hop_room  # the same of hops
    slot_t* active            # flows past their head latency that have not ended, by engine, submission, channel
    int32_t n_active          # how many these are
    slot_t* going_on          # packets that enter another segment in the next cycle
    int32_t n_going_on        # how many these are
    slot_t free_packet        # unused packets, by `next`
    nbytes_t flit             # [B] of a flit,
    nbytes_t packet           # of a packet,
    nbytes_t window           # and that a flow has under way, at most
    cycle_t next              # no clock of the network before this one does anything
    int32_t* resource         # [outputs + terminals] the link that an output leads over; NONE
    int32_t* output           # [resources] the output that leads over a link; NONE
