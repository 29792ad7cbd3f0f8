"""Shared bandwidth: resources, their members, and the rate of each member (docs/model/sharing.md, P4)."""
from kernbench_core.model.division cimport divided, quotient
from kernbench_core.model.bank cimport Requester
from kernbench_core.model.dram.extent cimport Cursor
from kernbench_core.types cimport NEVER, NONE, cycle_t, int8_t, int32_t, int64_t, nbytes_t, slot_t, uint32_t, uint64_t

cdef enum:
    MANY = 1 << 20            # requests for one bank: more than can matter

cdef struct Resource:         # a DRAM channel, or one direction of a link
    int64_t weight            # sum of the weights of its members
    slot_t first              # the first node of its list of members; NONE: it has no members
    int32_t members           # number of flows that share it now
    bint dirty                # whether its membership changed since the last P4
    cycle_t since             # the counters are valid up to this cycle
    int64_t busy              # @past number of cycles before `since` with a member
    int64_t member_cycles     # @count number of members, summed over the cycles before `since`
    nbytes_t bytes            # [B] moved by flows that have ended
    nbytes_t stored           # [B] of `bytes` that moved to DRAM
    int64_t num               # numerator of its capacity [B/cycle]; constant
    int64_t den               # denominator of its capacity
    bint binds                # derived: whether it may limit the rate of a member that is also on a channel (shared_bw.pxd)
    int32_t off_channels      # derived: members that are on no channel

cdef struct Route:
    int32_t first             # index of its first resource in Share.path
    int32_t length            # number of resources of which flows are members
    int32_t more              # number of resources after these: links between routers, over which flits move
    int32_t segment           # index of its first segment (model/noc/interface.pxd)
    int32_t segments          # number of its segments

cdef struct Routes:            # all routes; their number may grow (model/routes.pyx)
    int32_t* memory           # [n] for the first route of a transfer, the index of its memory; else NONE
    int32_t n                 # number of routes
    int32_t n_path            # number of resources in Share.path
    int32_t room, max_path    # room for routes; the second field is the room for the resources of all routes. Both grow
    bint grown                # whether routes were added at run time

cdef struct Pace:             # a rate, and the values that follow from it
    int64_t raw_num           # numerator of the rate before it was reduced to lowest terms
    int64_t raw_den           # denominator of that rate
    nbytes_t line             # [B] length of a line of the scratchpad
    nbytes_t row              # [B] one line in each bank of the scratchpad
    int64_t num               # numerator of the rate in lowest terms [B/cycle]
    int64_t den               # denominator of the rate in lowest terms
    uint64_t inverse          # `Flow.inverse` at this rate
    int64_t cost              # `Flow.cost` at this rate
    int64_t every             # `Flow.every` at this rate
    int64_t rest              # `Flow.rest` at this rate
    int32_t rounds            # `Requester.rounds` at this rate
    uint64_t span             # `Flow.span` at this rate

cdef struct Flow:  # the bytes of one transfer on one DRAM channel; a block changes the fields from `carry` on (fast/speculative.pxd)
    int64_t raw_num, raw_den  # numerator and denominator of the rate before it was reduced to lowest terms
    nbytes_t total            # [B] that the flow moves
    slot_t job                # index of its DMA job
    slot_t sibling, line_next  # the next flow of the same job; the second field is the next flow in the waiting line of its channel
    int8_t entered            # @flag whether it may use its resources: it is past its head latency, has not ended, and is not out
    int8_t member             # @flag whether it is a member of its resources
    int8_t frozen             # max_min_v1: whether the current filling has fixed its rate
    int8_t out                # @flag whether it has left its resources because of backpressure
    int64_t carry             # @count [1/den B] bandwidth credit: what it has earned and not yet requested
    cycle_t seen              # the cycle up to which `carry` is computed; cycles from this one on are not included
    nbytes_t piece            # [B] to the end of the scratchpad line or run; with less carry than this, no request is made
    nbytes_t requested        # @count [B] of the request of this cycle, or of the held request
    nbytes_t left             # @count [B] that it has not yet moved
    Cursor at                 # the next byte that is not yet part of a request
    int32_t bank              # bank of the next line (interleaved map)
    int32_t channel           # index of its channel in the memory
    int64_t num               # @term numerator of the rate in lowest terms [B/cycle]; the fields below follow from those above
    uint64_t inverse          # reciprocal(num), for division without a division instruction
    int64_t den               # @term denominator of the rate, and of `carry` also while it is no member
    int64_t cost              # [1/den B] credit that a scratchpad line costs
    int64_t every             # whole cycles in which the credit for a line is earned: cost // num
    int64_t rest              # remainder of that division: cost % num
    uint64_t span             # a bit for each line that it may take in BOUNDED_CYCLES cycles, except for lines that it is denied now
    nbytes_t line             # [B] length of a line of its scratchpad
    nbytes_t row              # [B] one line in each bank of its scratchpad
    slot_t bus                # index of the resource of its DRAM channel; NONE: it has no channel
    int32_t weight            # its weight: its number of shares of a resource
    bint compressed  # whether its bytes here are the bytes between codec and scratchpad: ratio_num for ratio_den bytes on its resources
    int64_t ratio_num, ratio_den  # expanded bytes for `ratio_den` compressed bytes, as in Dram
    Route route               # the resources from its memory to its scratchpad
    cycle_t rated             # the cycle in whose P4 its rate was computed
    cycle_t started           # start of its transfer; started, engine and job_seq are its order in the waiting line of its channel
    int32_t engine            # index of the DMA engine of its job
    int64_t job_seq           # submission number of its job

ctypedef void (*touch_fn)(void* sim, slot_t flow, cycle_t now) noexcept nogil
ctypedef bint (*repace_fn)(void* sim, slot_t flow, cycle_t now) noexcept nogil
ctypedef bint (*rates_fn)(void* sim, int32_t n, cycle_t now) noexcept nogil

cdef struct Share:
    int32_t rule              # Allocation: the rule that sets the rates
    bint queues               # whether entering flows wait in the line of their channel (ShareRule.queues)
    Resource* res             # [n_res] all resources
    int32_t n_res             # number of resources
    int32_t channels          # number of DRAM channels: res[0:channels]
    slot_t* path              # the resources of all routes, one route after another
    Flow* flow                # [Sim.n_flows] all flow slots
    Requester* requester                # the requester of each flow, with the cycle of its next request
    slot_t* node_next         # next node in the list of members of a resource; node = (flow << hop_shift) + position in its route
    slot_t* node_prev         # previous node in the same list
    int32_t hop_shift         # log2 of the number of nodes for each flow, which is at least the length of the longest route
    slot_t* dirty             # resources whose membership changed
    int32_t n_dirty           # number of these resources
    slot_t* line              # fifo_v1, row_buffer_v1: the first flow in the waiting line of each channel
    void* scratch             # max_min_v1: working space (model/share/max_min.pxd)
    void* devices             # row_buffer_v1: its Devices (model/dram/devices.pxd), row_buffer_v2: its Controllers, else NULL
    cycle_t devices_next      # none of these DRAM channels has work in an earlier cycle; P4 writes this field
    touch_fn touch            # called with `sim` before the state of a flow changes in a cycle; NULL: no callback
    repace_fn repace  # a fast path that gives a flow the rate `pace`, or returns false, and has changed nothing; NULL: no fast path
    # A fast path of shared_bw_v1 that sets the rates of all members of the first `n` resources in `dirty`, or returns false, and has
    # set the rates of some of them; NULL: no fast path
    rates_fn set_rates
    void* sim                 # the run: the first argument of `touch`, `repace` and `set_rates`
    Pace pace                 # the pace that was computed last
    bint whole                # whether all resources belong to one group of a fast run: nothing else changes them (fast/groups.pyx)
    bint plain                # whether the plain model runs: flows test their carry in every cycle
    bint overflow             # @flag a max-min share needed terms of more than 128 bits, or was below 2^-31 B/cycle

cdef void share_touch(Share* s, slot_t res) noexcept nogil
cdef inline bint waits_in_line(Share* s, slot_t flow) noexcept nogil:
    """Whether a flow that enters waits in a line, and `share_rates` makes it a member."""
    return s.queues and s.devices == NULL and s.flow[flow].bus != NONE

cdef void share_join(Share* s, slot_t flow, cycle_t now) noexcept nogil
cdef void share_leave(Share* s, slot_t flow, cycle_t now) noexcept nogil
cdef void share_enter(Share* s, slot_t flow, cycle_t now) noexcept nogil
cdef void share_quit(Share* s, slot_t flow, cycle_t now) noexcept nogil
cdef void share_accrue(Resource* r, cycle_t now) noexcept nogil
cdef void share_rebuild(Share* s) noexcept nogil
cdef void find_pace(Pace* t, int64_t num, int64_t den, nbytes_t line, nbytes_t row) noexcept nogil
cdef void pace_rebuild(Flow* f) noexcept nogil
cdef void set_rate(Share* s, slot_t flow, int64_t num, int64_t den, cycle_t now) noexcept nogil

cdef inline void take_pace(Flow* f, Pace* t) noexcept nogil:
    f.num = t.num
    f.inverse = t.inverse
    f.den = t.den
    f.cost = t.cost
    f.every = t.every
    f.rest = t.rest
    f.span = t.span

cdef inline int64_t credit_in(Flow* f, int64_t carry, int64_t den) noexcept nogil:
    """A carry of the flow in the unit of another rate: it keeps its value in bytes, rounded down."""
    cdef int64_t whole
    if (carry | den) >> 31 == 0:                # the product fits
        return quotient(carry * den, f.den)
    whole = quotient(carry, f.den)
    return whole * den + quotient((carry - whole * f.den) * den, f.den)

cdef inline nbytes_t on_resources(Flow* f, nbytes_t nbytes) noexcept nogil:
    """Bytes of a flow as its resources count them (docs/model/compressed.md)."""
    return nbytes * f.ratio_den // f.ratio_num if f.compressed else nbytes

cdef inline void flow_accrue(Flow* f, int64_t cycles) noexcept nogil:
    """Earn the share of a number of cycles."""
    f.carry += cycles * f.num

cdef inline cycle_t flow_next(Flow* f) noexcept nogil:
    """The first cycle in which the carry reaches the next piece; the flow makes no request before."""
    cdef int64_t gap = f.piece * f.den - f.carry
    return f.seen if gap <= f.num else f.seen + divided(gap - 1, f.num, f.inverse)

cdef inline cycle_t next_request_cycle(Share* s, Flow* f) noexcept nogil:
    """The next cycle in which a flow of a DMA engine tests its carry."""
    return f.seen if s.plain and f.line else flow_next(f)

cdef inline int64_t flow_cycles(Flow* f, nbytes_t nbytes) noexcept nogil:
    """The number of cycles from `seen` on until the carry reaches `nbytes`: exact below 2 GiB, else a lower bound."""
    cdef int64_t gap
    if nbytes >> 31 == 0:                       # the product fits in 62 bits
        gap = nbytes * f.den - f.carry
        return divided(gap - 1, f.num, f.inverse) + 1 if gap > 0 else 0
    gap = nbytes - quotient(f.carry, f.den)
    return quotient(gap - 1, quotient(f.num + f.den - 1, f.den)) + 1 if gap > 0 else 0
