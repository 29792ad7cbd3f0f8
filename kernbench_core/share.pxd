"""Shared bandwidth: resources, who is a member of them, and each member's rate (MODEL section 3)."""
from kernbench_core.dram cimport Cursor
from kernbench_core.types cimport cycle_t, int32_t, int64_t, nbytes_t, slot_t

cdef struct Resource:         # a DRAM channel, or one direction of a link
    int64_t num               # capacity num/den [B/cycle]
    int64_t den
    int64_t weight            # W: sum of the members' weights
    slot_t first              # its list of member nodes
    int32_t members
    bint used                 # some started transfer is routed over it
    bint dirty                # membership changed since the last P4
    cycle_t since             # the counters hold up to this cycle
    int64_t busy              # cycles with a member
    int64_t member_cycles
    nbytes_t bytes            # of flows that have finished

cdef struct Route:
    int32_t first             # in Share.path
    int32_t length

cdef struct Flow:             # the bytes of one transfer on one DRAM channel
    int64_t whole             # carry, whole bytes
    int64_t frac              # carry, the rest in units of 1/den: frac < den
    int64_t rate_whole        # rate: (rate_whole + rate_frac / den) [B/cycle]
    int64_t rate_frac
    int64_t den               # of the rate, and the unit of the carry also while no member
    nbytes_t piece            # [B] to the end of the scratchpad line or run: less carry than that asks nothing
    nbytes_t asked            # [B] of the request of this cycle, or of the held one
    nbytes_t left             # [B] not yet moved
    Cursor at                 # the next byte that no request has covered
    nbytes_t total            # [B]
    int32_t bank              # of the next line (interleaved map)
    int32_t channel           # DRAM channel
    int32_t weight
    slot_t job
    slot_t sibling            # next flow of the same job
    Route route
    int64_t raw_num           # the rate before it was brought to lowest terms
    int64_t raw_den
    bint entered              # past its head latency, not finished, not out: it may use its resources
    bint member               # of its resources
    bint frozen               # max_min_v1: its share is settled in this filling
    bint out                  # for backpressure
    cycle_t started           # fifo_v1: of its transfer; with `engine` and `job_seq` the order of the line
    int32_t engine
    int64_t job_seq
    slot_t line_next          # fifo_v1: the next in the line of its channel

cdef struct Share:
    int32_t rule              # Allocation
    Resource* res
    int32_t n_res
    int32_t channels          # res[0:channels] are the DRAM channels
    slot_t* path              # resources of all routes, one after the other
    Flow* flow
    slot_t* node_next         # member lists: node = flow * hops + position in its route
    slot_t* node_prev
    int32_t hops              # longest route
    slot_t* dirty             # resources whose membership changed
    int32_t n_dirty
    slot_t* line              # fifo_v1: per channel the first flow in line
    void* scratch             # max_min_v1: working space (maxmin.pyx)
    bint overflow             # a max-min share needed terms past 128 bits

cdef void share_join(Share* s, slot_t flow, cycle_t now) noexcept nogil
cdef void share_leave(Share* s, slot_t flow, cycle_t now) noexcept nogil
cdef void share_enter(Share* s, slot_t flow, cycle_t now) noexcept nogil
cdef void share_quit(Share* s, slot_t flow, cycle_t now) noexcept nogil
cdef void share_rates(Share* s, cycle_t now) noexcept nogil
cdef void share_accrue(Resource* r, cycle_t now) noexcept nogil
cdef void set_rate(Flow* f, int64_t num, int64_t den) noexcept nogil
