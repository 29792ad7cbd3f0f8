"""Scratchpad banks: masks, ports, and who was granted or denied (MODEL section 5)."""
from kernbench_core.model.masks cimport set_run
from kernbench_core.model.tally cimport Tally, tally_done, tally_word
from kernbench_core.types cimport NEVER, cycle_t, int8_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t

cdef enum:
    BLOCK = 32                # cycles that a scratchpad's requesters are walked for at once, at most
    CALM = 16                 # cycles for which it is counted how often a bank may be asked (fast/skip.pyx)
    DENIED = 64               # denials that are noted before they are counted: more than a requester has in a block

# A flow, a TE or VE, or a component's request. What a block changes stands first (fast/speculative.pyx).
cdef struct Requester:
    cycle_t next_at           # @next? asks in no earlier cycle (penalty, period, start of body); NEVER: no member
    cycle_t first_denied      # @past? its request was first denied then; NEVER: not held
    cycle_t backpressure_at   # leaves its resources in P7 of that cycle; NEVER: not held, or left already
    uint64_t reads            # what its held request lacks, where one word holds all banks (else Sim.mask)
    uint64_t writes
    int32_t spm
    int32_t rounds            # a flow: takes a port of one bank at most so often in CALM cycles, while its rate stays
    int8_t compute            # TE or VE, else a flow
    int8_t to_writes          # a flow's request is for write ports
    int8_t paired             # a flow between two scratchpads has a requester in each (model/pair.pyx)
    int64_t key_engine        # engine type << 32 | engine id: first tie-break
    int64_t key_seq           # submission number << 20 | DRAM channel: second tie-break
    cycle_t ends_at           # its work ends in no earlier cycle, while its rate stays; 0: not known, as in a run that is taken up

cdef struct Spm:              # up to `banks` it is state; behind that what is constant, or set anew by each run
    int32_t n_order           # requesters that may ask
    int32_t n_held
    int32_t n_out             # flows out for backpressure
    int32_t n_pairs           # requesters of flows between scratchpads
    int32_t n_asks            # requests of components among the requesters
    int32_t n_watch           # DMA engines whose activity may have changed
    cycle_t oldest            # no held requester was first denied earlier
    int64_t often             # asks for one bank by its TEs and VEs in CALM cycles, at most
    cycle_t done              # the cycles before it have been run; it may lie behind the run's cycle
    bint uncontended          # no bank can have more askers than ports until `order` changes
    bint judge                # `uncontended` is to be decided again
    int32_t banks
    int32_t words, requesters      # 64-bit words of a mask of banks; requesters that there is room for
    nbytes_t line             # [B] bank_width_bytes
    int32_t line_shift        # log2(line), or -1
    int64_t bank_lines        # lines of one bank
    bint blocked              # map: bank = addr // bank_size
    bint nowhere              # stands for what has no banks: its addresses mean nothing
    bint split                # read_ports + write_ports; else everything asks for read ports
    int32_t ports[2], given[2]  # read (or shared), write: no more than there are requesters; as the machine says
    cycle_t penalty           # conflict_penalty_cycles
    cycle_t max_wait
    cycle_t backpressure
    nbytes_t row              # [B] one row of banks: the most a flow keeps unspent
    uint64_t* free[2]         # [ports][words]: banks with more than that many ports left in this cycle
    bint narrow               # one word and at most seven ports of a kind: fast/block.pyx
    uint64_t full             # narrow: all banks
    Tally grants
    Tally denials
    slot_t* order             # the requesters that may ask, in tie-break order
    slot_t* turn              # the same in the order of a cycle with aged requests
    slot_t* asking            # those that ask in this cycle, in tie-break order
    int32_t n_asking
    int32_t arbiter           # ArbiterRule
    int32_t* pointer          # [banks] the client that an arbiter with pointers begins with: model state (model/arbiter/arbiter.pxd)
    slot_t* due               # narrow: those with something to do in a block
    int32_t* watch            # the engines to be watched
    uint64_t* denied          # narrow: [DENIED] masks of denials that are not counted yet, during a turn (fast/block.pyx),
    uint64_t[7] left          # and between two turns
    int32_t n_denied          # so many
    cycle_t calm              # no request that is first denied from then on comes of age, while nothing changes; NEVER: not known
    bint touched              # what it does next has changed: its horizon is to be found again
    cycle_t conflict_free     # no request is denied in an earlier cycle, while nothing changes (fast/conflict_free.pyx)
    cycle_t back_off             # that is not looked for in an earlier cycle,
    int32_t back_offs            # so often it was found to be soon
    cycle_t pair_back_off, looked     # a scratchpad with flows to others is looked at in no earlier cycle, and was last in that one,
    int32_t pair_back_offs            # and so often that did not pay (fast/pair_conflict_free.pyx)
    int32_t step              # 1 + its place among those that are run cycle by cycle; 0: it is none
    bint rolls                # it is run up to what it brings next (fast/rolling.pyx), so it has no horizon,
    bint laid                 # and its requesters stand on the wheel

cdef void order_insert(Spm* p, Requester* requesters, slot_t requester) noexcept nogil
cdef void order_remove(Spm* p, slot_t requester) noexcept nogil

cdef inline void requester_held(Spm* p, Requester* a, cycle_t since) noexcept nogil:
    """The request of a requester has been denied since then; NEVER: it has none that was."""
    p.n_held += (since != NEVER) - (a.first_denied != NEVER)
    a.first_denied = since
    if since < p.oldest:
        p.oldest = since
    if p.n_held == 0:
        p.oldest = NEVER
        p.judge = True

cdef inline int64_t line_of(Spm* p, nbytes_t addr) noexcept nogil:
    return addr >> p.line_shift if p.line_shift >= 0 else addr // p.line

cdef inline int32_t bank_of(Spm* p, int64_t line) noexcept nogil:
    return <int32_t>(line // p.bank_lines if p.blocked else line % p.banks)

cdef inline void set_banks(Spm* p, uint64_t* mask, int32_t bank, int64_t n) noexcept nogil:
    """Add the banks of `n` consecutive lines of the interleaved map, the first on `bank`."""
    cdef uint64_t run
    cdef int32_t head
    if p.words == 1 and n < p.banks:
        run = (<uint64_t>1 << n) - 1
        mask[0] |= (run << bank | (run >> 1) >> (p.banks - 1 - bank)) & p.full
    elif n >= p.banks:
        set_run(mask, 0, p.banks)
    elif bank + n <= p.banks:
        set_run(mask, bank, <int32_t>n)
    else:
        head = p.banks - bank
        set_run(mask, bank, head)
        set_run(mask, 0, <int32_t>n - head)

cdef inline void open_ports(Spm* p) noexcept nogil:
    """A new cycle: every bank has all its ports."""
    cdef int32_t k, w, side
    for side in range(1 + p.split):
        for k in range(p.ports[side]):
            for w in range(p.words):
                p.free[side][k * p.words + w] = <uint64_t>-1

cdef inline void take_ports(uint64_t* free, int32_t ports, int32_t words, int32_t w, uint64_t granted) noexcept nogil:
    cdef int32_t k
    for k in range(ports - 1):
        free[k * words + w] = (free[k * words + w] & ~granted) | (free[(k + 1) * words + w] & granted)
    free[(ports - 1) * words + w] &= ~granted

cdef inline bint grant(Spm* p, uint64_t* reads, uint64_t* writes) noexcept nogil:
    """Grant every bank that still has its ports; leave in the masks what is missing; true where nothing is."""
    cdef uint64_t need, got, denied, missing = 0
    cdef int32_t w
    for w in range(p.words):
        need = reads[w] | writes[w]
        got = need & (~reads[w] | p.free[0][w])
        if p.split:
            got &= ~writes[w] | p.free[1][w]
            take_ports(p.free[1], p.ports[1], p.words, w, got & writes[w])
        take_ports(p.free[0], p.ports[0], p.words, w, got & reads[w])
        tally_word(&p.grants, w, got)
        denied = need & ~got
        missing |= denied
        if denied:
            tally_word(&p.denials, w, denied)
        reads[w] &= denied
        writes[w] &= denied
    tally_done(&p.grants, 1)
    if missing:
        tally_done(&p.denials, 1)
    return missing == 0
