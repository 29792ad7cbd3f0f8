"""Shared bandwidth: resources, who is a member of them, and each member's rate (docs/model/sharing.md, P4)."""
from kernbench_core.model.division cimport divided, quotient
from kernbench_core.model.bank cimport Requester
from kernbench_core.model.dram.extent cimport Cursor
from kernbench_core.types cimport NEVER, cycle_t, int8_t, int32_t, int64_t, nbytes_t, slot_t, uint32_t, uint64_t

cdef struct Resource:         # a DRAM channel, or one direction of a link
    int64_t weight            # W: sum of the members' weights
    slot_t first              # its list of member nodes
    int32_t members           # flows that share it now
    bint dirty                # membership changed since the last P4
    cycle_t since             # the counters hold up to this cycle
    int64_t busy              # @past cycles with a member
    int64_t member_cycles     # @count
    nbytes_t bytes            # of flows that have finished,
    nbytes_t stored           # of those, towards DRAM
    int64_t num               # capacity num/den [B/cycle], constant
    int64_t den               # the denominator of that capacity

cdef struct Route:
    int32_t first             # in Share.path
    int32_t length            # resources that flows are members of
    int32_t more              # behind these: links between routers, which flits move over
    int32_t segment           # the first of its segments (model/noc/interface.pxd),
    int32_t segments          # and how many it has

cdef struct Routes:            # of all routes; they may grow in number (model/routes.pyx)
    int32_t* memory           # [n] the memory where a transfer's first one is, else NONE
    int32_t n                 # routes
    int32_t n_path            # resources in Share.path
    int32_t room, path_room   # for routes and for what is in their paths, once they have grown
    bint grown                # routes were added at run time

cdef struct Pace:             # a rate, and what follows from it
    int64_t raw_num           # before it was brought to lowest terms
    int64_t raw_den           # the denominator of that rate
    nbytes_t line             # [B] a line of the scratchpad
    nbytes_t row              # [B] a row of its banks
    int64_t num               # num/den [B/cycle]
    int64_t den               # the denominator of that rate
    uint64_t inverse          # and the others, as in Flow
    int64_t cost              # as in Flow
    int64_t every             # as in Flow
    int64_t rest              # as in Flow
    int32_t rounds            # as in Requester
    uint64_t span             # as in Flow

cdef struct Flow:             # the bytes of one transfer on one DRAM channel; what a block changes: from `carry` on (fast/speculative.pxd)
    int64_t raw_num, raw_den  # the rate before it was brought to lowest terms
    nbytes_t total            # [B]
    slot_t job                # whose bytes these are
    slot_t sibling, line_next  # the next flow of its job, and in the line of its channel
    int8_t entered            # @flag past its head latency, not finished, not out: it may use its resources
    int8_t member             # @flag of its resources
    int8_t frozen             # max_min_v1: its share is settled in this filling
    int8_t out                # @flag for backpressure
    int64_t carry             # @count [1/den B] share that no request has spent
    cycle_t seen              # the carry holds every cycle before this one
    nbytes_t piece            # [B] to the end of the scratchpad line or run: less carry than that asks nothing
    nbytes_t asked            # @count [B] of the request of this cycle, or of the held one
    nbytes_t left             # @count [B] not yet moved
    Cursor at                 # the next byte that no request has covered
    int32_t bank              # of the next line (interleaved map)
    int32_t channel           # of its memory
    int64_t num               # @term rate num/den [B/cycle], lowest terms; from here on all follows from the above
    uint64_t inverse          # reciprocal(num)
    int64_t den               # @term also the unit of the carry, while no member too
    int64_t cost              # [1/den B] of a scratchpad line
    int64_t every             # cost // num: a line's worth is earned in so many cycles,
    int64_t rest              # and cost % num more
    uint64_t span             # a bit for each line that it may take in CALM cycles, but for those that it is denied now
    nbytes_t line             # [B] bank_width of its scratchpad
    nbytes_t row              # [B] and a row of its banks
    slot_t bus                # the resource of that channel; NONE: it has none
    int32_t weight            # shares that it has of a resource
    bint compressed           # its bytes here are those between codec and scratchpad: ratio_num for ratio_den on its resources
    int64_t ratio_num, ratio_den  # as in Dram
    Route route               # resources from its memory to its scratchpad
    cycle_t rated             # its rate was found in P4 of that cycle
    cycle_t started           # of its transfer; with `engine` and `job_seq` the order of the line
    int32_t engine            # DMA engine of its job
    int64_t job_seq           # submission number of its job

ctypedef void (*touch_fn)(void* sim, slot_t flow, cycle_t now) noexcept nogil

cdef struct Share:
    int32_t rule              # Allocation
    bint queues               # who enters stands in the line of its channel (ShareRule.queues)
    Resource* res             # [n_res] all resources
    int32_t n_res             # how many these are
    int32_t channels          # res[0:channels] are the DRAM channels
    slot_t* path              # resources of all routes, one after the other
    Flow* flow                # [Sim.n_flows] all flow slots
    Requester* requester                # of each flow: when it asks next
    slot_t* node_next         # member lists: node = (flow << hop_shift) + position in its route
    slot_t* node_prev         # the same backwards
    int32_t hop_shift         # 1 << hop_shift: room for the longest route
    slot_t* dirty             # resources whose membership changed
    int32_t n_dirty           # how many these are
    slot_t* line              # fifo_v1, row_buffer_v1: per channel the first flow in line
    void* scratch             # max_min_v1: working space (model/share/max_min.pxd)
    void* devices             # row_buffer_v1: its Devices (model/dram/devices.pxd), row_buffer_v2: its Controllers, else NULL
    cycle_t devices_next      # no DRAM channel of these has something to do in an earlier cycle; P4 writes it
    touch_fn touch            # called with `sim` before a flow's state is changed in a cycle; NULL: nobody wants to know
    void* sim                 # the run: the first argument of `touch`
    Pace pace                 # that was found last
    bint plain                # the run is walked by the plain model: flows ask in every cycle, paid or not
    bint overflow             # @flag a max-min share needed terms past 128 bits, or was below 2^-31 B/cycle

cdef void share_touch(Share* s, slot_t res) noexcept nogil
cdef void share_join(Share* s, slot_t flow, cycle_t now) noexcept nogil
cdef void share_leave(Share* s, slot_t flow, cycle_t now) noexcept nogil
cdef void share_enter(Share* s, slot_t flow, cycle_t now) noexcept nogil
cdef void share_quit(Share* s, slot_t flow, cycle_t now) noexcept nogil
cdef void share_accrue(Resource* r, cycle_t now) noexcept nogil
cdef void share_rebuild(Share* s) noexcept nogil
cdef void pace_rebuild(Flow* f) noexcept nogil
cdef void set_rate(Share* s, slot_t flow, int64_t num, int64_t den, cycle_t now) noexcept nogil

cdef inline nbytes_t on_resources(Flow* f, nbytes_t nbytes) noexcept nogil:
    """Bytes of a flow as its resources count them (docs/model/compressed.md)."""
    return nbytes * f.ratio_den // f.ratio_num if f.compressed else nbytes

cdef inline void flow_accrue(Flow* f, int64_t cycles) noexcept nogil:
    """Earn the share of some cycles."""
    f.carry += cycles * f.num

cdef inline cycle_t flow_next(Flow* f) noexcept nogil:
    """The first cycle in which the carry reaches the next piece; it asks nothing before."""
    cdef int64_t gap = f.piece * f.den - f.carry
    return f.seen if gap <= f.num else f.seen + divided(gap - 1, f.num, f.inverse)

cdef inline cycle_t next_ask(Share* s, Flow* f) noexcept nogil:
    """When a flow of a DMA engine looks at its carry again."""
    return f.seen if s.plain and f.line else flow_next(f)

cdef inline int64_t flow_cycles(Flow* f, nbytes_t nbytes) noexcept nogil:
    """In how many cycles from `seen` on the carry reaches `nbytes` at the earliest: exact where the rate is whole, else not above."""
    cdef int64_t gap = nbytes - quotient(f.carry, f.den)
    return quotient(gap - 1, quotient(f.num + f.den - 1, f.den)) + 1 if gap > 0 else 0
