"""Scratchpad banks: masks, ports, grants and denials (docs/model/banks_and_arbiters.md, P5)."""
from libc.string cimport memset

from kernbench_core.fast.fast_state cimport Lookahead, requests_changed
from kernbench_core.model.bank_mask cimport set_run
from kernbench_core.model.bank_counters cimport Tally, tally_done, tally_note, tally_noted_all, tally_word
from kernbench_core.types cimport NEVER, cycle_t, int8_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t

cdef enum:
    BLOCK = 32                # largest number of cycles for which a scratchpad's requesters are simulated together
    BOUNDED_CYCLES = 16       # number of cycles for which the requests to a bank are bounded (fast/horizon.pyx)
    DENIED = 64               # denials that are noted before they are counted: more than a requester has in a block

cdef struct TieBreak:         # the position of a requester in tie-break order; read only when a requester is added or removed
    int64_t engine            # first key: engine type << 32 | engine id
    int64_t seq               # second key: submission number << 20 | DRAM channel

# A flow, a TE or VE, or a request of a component. A block changes the fields up to `writes` (fast/speculative.pxd). The struct
# has 64 bytes, one line of the processor's cache, because every walk visits all requesters of a scratchpad.
cdef struct Requester:
    cycle_t next_at  # @next? it makes no request in an earlier cycle (penalty, period, start of its body); NEVER: it makes no requests
    cycle_t first_denied      # @past? the cycle in which its request was first denied; NEVER: it is not held
    cycle_t backpressure_at   # in P7 of this cycle it leaves its resources; NEVER: it is not held, or has left already
    uint64_t reads            # banks whose read ports its request lacks, if one word has all banks (else Sim.mask)
    uint64_t writes           # banks whose write ports it lacks
    int32_t spm               # index of its scratchpad
    int32_t rounds            # look-ahead: the most ports of a bank that a flow takes in BOUNDED_CYCLES cycles, while its rate is the same
    int8_t compute            # whether it is a TE or VE
    int8_t to_writes          # whether it is a flow whose requests are for write ports
    int8_t paired             # whether it is one of the two requesters of a flow between scratchpads (model/pair.pyx)
    int8_t listed             # whether it is in `Spm.order`; a flow in the line of its DRAM channel is not, before it is first served
    cycle_t ends_at           # look-ahead: its work ends in no earlier cycle, while its rate stays the same; 0: not known

cdef struct Spm:  # a scratchpad; the fields before `banks` are state, the others are constant or are recomputed by each run
    int32_t n_order           # requesters that may make requests
    int32_t n_held            # requesters whose request was denied and is not yet served
    int32_t n_out             # flows that have left their resources because of backpressure
    int32_t n_pairs           # number of requesters that belong to flows between two scratchpads
    int32_t n_component_requests  # number of requesters that are requests of components
    int32_t n_watch           # length of `watch`: DMA engines whose activity may have changed
    cycle_t oldest            # the earliest cycle in which a held request was first denied; NEVER: no request is held
    cycle_t done              # the cycles before this cycle have been simulated; it may be earlier than the run's cycle
    int32_t banks             # number of banks (num_banks)
    int32_t words             # number of 64-bit words of a mask of banks
    int32_t requesters        # capacity of `order`, `turn` and `requesting`
    nbytes_t line             # [B] width of a bank (bank_width_bytes)
    int32_t line_shift        # log2(line), or -1 if the line is not a power of two
    int64_t bank_lines        # number of lines of one bank
    bint blocked              # address map: true is blocked, where bank = addr // bank_size; false is interleaved
    bint nowhere              # whether it is a placeholder for a memory without banks, whose addresses have no meaning
    bint split                # whether banks have separate read and write ports; if not, every request is for a read port
    int32_t ports[2]          # ports of a bank: for reads (or shared), for writes; limited to the number of requesters
    int32_t given[2]          # ports of a bank as the machine file states them: for reads (or shared), for writes
    cycle_t penalty           # [cycle] from a denied request to its next try (conflict_penalty_cycles)
    cycle_t max_wait          # [cycle] age at which a held request comes before all others (max_wait_cycles)
    cycle_t backpressure      # [cycle] after which the flow of a held request leaves its resources (backpressure_cycles)
    nbytes_t row              # [B] one line in each bank: the largest amount that a flow keeps unspent
    uint64_t* free[2]         # [ports][words]: the banks with more than this number of ports left in this cycle
    bint narrow               # whether one word has all banks, and there are at most seven ports of a kind, as blocks require
    uint64_t full             # the mask of all banks, if one word has them
    Tally grants              # grants of each bank
    Tally denials             # denials of each bank
    slot_t* order             # the requesters that may make requests, in tie-break order
    slot_t* turn              # the same requesters, in the order of a cycle with aged requests
    slot_t* requesting        # the requesters with a request in this cycle, in tie-break order
    int32_t n_requesting      # number of requesters with a request in this cycle
    int32_t arbiter           # ArbiterRule: the order in which banks are granted
    int32_t* pointer          # [banks] state of an arbiter with pointers: the first client (model/arbiter/arbiter.pxd)
    int32_t* watch            # [n_watch] the DMA engines whose activity is computed after P6
    Lookahead lookahead       # data of fast paths about the scratchpad; not part of the state

cdef void order_insert(Spm* p, TieBreak* tie_break, slot_t requester) noexcept nogil
cdef void order_remove(Spm* p, TieBreak* tie_break, slot_t requester) noexcept nogil

cdef inline void nobody_held(Spm* p) noexcept nogil:
    """Called when the last held request has been served."""
    p.oldest = NEVER
    requests_changed(&p.lookahead)

cdef inline void requester_held(Spm* p, Requester* a, cycle_t since) noexcept nogil:
    """The cycle in which the request of a requester was first denied; NEVER: it has no such request."""
    p.n_held += (since != NEVER) - (a.first_denied != NEVER)
    a.first_denied = since
    if since < p.oldest:
        p.oldest = since
    if p.n_held == 0:
        nobody_held(p)

cdef inline bint may_request(Requester* a) noexcept nogil:
    """Whether the requester may make requests before another event: false for a flow that waits in the line of its DRAM channel."""
    return a.next_at != NEVER or a.first_denied != NEVER

cdef inline int64_t line_of(Spm* p, nbytes_t addr) noexcept nogil:
    return addr >> p.line_shift if p.line_shift >= 0 else addr // p.line

cdef inline int32_t bank_of(Spm* p, int64_t line) noexcept nogil:
    return <int32_t>(line // p.bank_lines if p.blocked else line % p.banks)

cdef inline uint64_t turned(Spm* p, uint64_t mask, int64_t bank) noexcept nogil:
    """If one word has all banks: the banks of `mask`, rotated so that they count from `bank` instead of from bank 0."""
    return (mask << bank | (mask >> 1) >> (p.banks - 1 - bank)) & p.full

cdef inline uint64_t banks_from(Spm* p, int64_t bank, int64_t n) noexcept nogil:
    """If one word has all banks: the banks of `n` consecutive lines of the interleaved map; the first line is in `bank`."""
    return turned(p, (<uint64_t>1 << n) - 1, bank) if n < p.banks else p.full

cdef inline void set_banks(Spm* p, uint64_t* mask, int32_t bank, int64_t n) noexcept nogil:
    """Add the banks of `n` consecutive lines of the interleaved map; the first line is in `bank`."""
    cdef int32_t head
    if p.words == 1:
        mask[0] |= banks_from(p, bank, n)
    elif n >= p.banks:
        set_run(mask, 0, p.banks)
    elif bank + n <= p.banks:
        set_run(mask, bank, <int32_t>n)
    else:
        head = p.banks - bank
        set_run(mask, bank, head)
        set_run(mask, 0, <int32_t>n - head)

cdef inline void open_ports(Spm* p) noexcept nogil:
    """Begin a cycle: all ports of every bank are free."""
    cdef int32_t side
    for side in range(1 + p.split):
        memset(p.free[side], 0xff, p.ports[side] * p.words * sizeof(uint64_t))

cdef inline void take_ports(uint64_t* free, int32_t ports, int32_t words, int32_t w, uint64_t granted) noexcept nogil:
    cdef int32_t k
    for k in range(ports - 1):
        free[k * words + w] = (free[k * words + w] & ~granted) | (free[(k + 1) * words + w] & granted)
    free[(ports - 1) * words + w] &= ~granted

cdef inline bint grant_words(Spm* p, uint64_t* reads, uint64_t* writes, int32_t words) noexcept nogil:
    """The same as `grant` for masks of `words` words: inlined where the number is a constant."""
    cdef uint64_t need, got, denied, missing = 0
    cdef int32_t w
    for w in range(words):
        need = reads[w] | writes[w]
        got = need & (~reads[w] | p.free[0][w])
        if p.split:
            got &= ~writes[w] | p.free[1][w]
            take_ports(p.free[1], p.ports[1], words, w, got & writes[w])
        take_ports(p.free[0], p.ports[0], words, w, got & reads[w])
        tally_note(&p.grants, w, got)
        denied = need & ~got
        missing |= denied
        if denied:
            tally_word(&p.denials, w, denied)
        reads[w] &= denied
        writes[w] &= denied
    tally_noted_all(&p.grants)
    if missing:
        tally_done(&p.denials, 1)
    return missing == 0

cdef inline bint grant(Spm* p, uint64_t* reads, uint64_t* writes) noexcept nogil:
    """Grant every bank that still has its ports; the masks keep the missing banks. Return true if no bank is missing."""
    return grant_words(p, reads, writes, 1) if p.words == 1 else grant_words(p, reads, writes, p.words)
