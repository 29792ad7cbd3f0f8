"""Scratchpad banks: masks, ports, and who was granted or denied (docs/model/banks_and_arbiters.md, P5)."""
from libc.string cimport memset

from kernbench_core.fast.fast_state cimport Lookahead, requests_changed
from kernbench_core.model.bank_mask cimport set_run
from kernbench_core.model.bank_counters cimport Tally, tally_done, tally_note, tally_noted_all, tally_word
from kernbench_core.types cimport NEVER, cycle_t, int8_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t

cdef enum:
    BLOCK = 32                # cycles that a scratchpad's requesters are walked for at once, at most
    CALM = 16                 # cycles for which it is counted how often a bank may be asked (fast/horizon.pyx)
    DENIED = 64               # denials that are noted before they are counted: more than a requester has in a block

cdef struct TieBreak:         # the place of a requester in tie-break order; read only where one comes or goes
    int64_t engine            # first: engine type << 32 | engine id
    int64_t seq               # second: submission number << 20 | DRAM channel

# A flow, a TE or VE, or a component's request. The fields up to `writes` are what a block changes (fast/speculative.pxd). It has
# 64 bytes, a line of the processor's cache: every walk goes over all requesters of a scratchpad.
cdef struct Requester:
    cycle_t next_at           # @next? it asks in no earlier cycle (penalty, period, start of its body); NEVER: it does not ask
    cycle_t first_denied      # @past? the cycle in which its request was first denied; NEVER: it is not held
    cycle_t backpressure_at   # it leaves its resources in P7 of that cycle; NEVER: it is not held, or has left
    uint64_t reads            # banks whose read ports its request lacks, where one word holds all banks (else Sim.mask)
    uint64_t writes           # banks whose write ports it lacks
    int32_t spm               # its scratchpad
    int32_t rounds            # look-ahead: a flow takes a port of one bank at most so often in CALM cycles, while its rate stays
    int8_t compute            # it is a TE or VE
    int8_t to_writes          # it is a flow whose requests are for write ports
    int8_t paired             # it is one of the two requesters of a flow between scratchpads (model/pair.pyx)
    cycle_t ends_at           # look-ahead: its work ends in no earlier cycle, while its rate stays; 0: not known

cdef struct Spm:              # a scratchpad; the fields before `banks` are state, the others are constant or set again by each run
    int32_t n_order           # requesters that may ask
    int32_t n_held            # requesters whose request was denied and is not served yet
    int32_t n_out             # flows out for backpressure
    int32_t n_pairs           # requesters of flows between scratchpads
    int32_t n_asks            # requests of components among the requesters
    int32_t n_watch           # DMA engines whose activity may have changed
    cycle_t oldest            # no held request was first denied earlier; NEVER: none is held
    cycle_t done              # the cycles before it have been run; it may lie behind the run's cycle
    int32_t banks             # num_banks
    int32_t words             # 64-bit words of a mask of banks
    int32_t requesters        # requesters that there is room for
    nbytes_t line             # [B] bank_width_bytes
    int32_t line_shift        # log2(line), or -1 where the line is not a power of two
    int64_t bank_lines        # lines of one bank
    bint blocked              # map: blocked, where bank = addr // bank_size; else interleaved
    bint nowhere              # it stands for what has no banks: its addresses mean nothing
    bint split                # it has read ports and write ports; else every request is for read ports
    int32_t ports[2]          # ports a bank: of reads (or shared), of writes; no more than there are requesters
    int32_t given[2]          # the same as the machine says
    cycle_t penalty           # [cycle] conflict_penalty_cycles
    cycle_t max_wait          # [cycle] max_wait_cycles
    cycle_t backpressure      # [cycle] backpressure_cycles
    nbytes_t row              # [B] one line in each bank: the most that a flow keeps unspent
    uint64_t* free[2]         # [ports][words]: banks with more than that many ports left in this cycle
    bint narrow               # one word holds all banks, and there are at most seven ports of a kind: what blocks need
    uint64_t full             # the mask of all banks, where one word holds them
    Tally grants              # how often each bank was granted
    Tally denials             # how often each bank was denied
    slot_t* order             # the requesters that may ask, in tie-break order
    slot_t* turn              # the same in the order of a cycle with aged requests
    slot_t* asking            # those that ask in this cycle, in tie-break order
    int32_t n_asking          # how many ask in this cycle
    int32_t arbiter           # ArbiterRule
    int32_t* pointer          # [banks] state of an arbiter with pointers: the client that it begins with (model/arbiter/arbiter.pxd)
    int32_t* watch            # [n_watch] the engines to be looked at after P6
    Lookahead look            # what fast paths know of it: no state

cdef void order_insert(Spm* p, TieBreak* tie_break, slot_t requester) noexcept nogil
cdef void order_remove(Spm* p, slot_t requester) noexcept nogil

cdef inline void nobody_held(Spm* p) noexcept nogil:
    """The last request that was held is served."""
    p.oldest = NEVER
    requests_changed(&p.look)

cdef inline void requester_held(Spm* p, Requester* a, cycle_t since) noexcept nogil:
    """The request of a requester has been denied since then; NEVER: it has none that was."""
    p.n_held += (since != NEVER) - (a.first_denied != NEVER)
    a.first_denied = since
    if since < p.oldest:
        p.oldest = since
    if p.n_held == 0:
        nobody_held(p)

cdef inline int64_t line_of(Spm* p, nbytes_t addr) noexcept nogil:
    return addr >> p.line_shift if p.line_shift >= 0 else addr // p.line

cdef inline int32_t bank_of(Spm* p, int64_t line) noexcept nogil:
    return <int32_t>(line // p.bank_lines if p.blocked else line % p.banks)

cdef inline uint64_t turned(Spm* p, uint64_t mask, int64_t bank) noexcept nogil:
    """One word holds all banks: those of `mask`, counted from `bank` on instead of from bank 0."""
    return (mask << bank | (mask >> 1) >> (p.banks - 1 - bank)) & p.full

cdef inline uint64_t banks_from(Spm* p, int64_t bank, int64_t n) noexcept nogil:
    """One word holds all banks: those of `n` consecutive lines of the interleaved map, the first on `bank`."""
    return turned(p, (<uint64_t>1 << n) - 1, bank) if n < p.banks else p.full

cdef inline void set_banks(Spm* p, uint64_t* mask, int32_t bank, int64_t n) noexcept nogil:
    """Add the banks of `n` consecutive lines of the interleaved map, the first on `bank`."""
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
    """A new cycle: every bank has all its ports."""
    cdef int32_t side
    for side in range(1 + p.split):
        memset(p.free[side], 0xff, p.ports[side] * p.words * sizeof(uint64_t))

cdef inline void take_ports(uint64_t* free, int32_t ports, int32_t words, int32_t w, uint64_t granted) noexcept nogil:
    cdef int32_t k
    for k in range(ports - 1):
        free[k * words + w] = (free[k * words + w] & ~granted) | (free[(k + 1) * words + w] & granted)
    free[(ports - 1) * words + w] &= ~granted

cdef inline bint grant_words(Spm* p, uint64_t* reads, uint64_t* writes, int32_t words) noexcept nogil:
    """The same of masks of so many words: inlined, where that is a constant."""
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
    """Grant every bank that still has its ports; leave in the masks what is missing; true where nothing is."""
    return grant_words(p, reads, writes, 1) if p.words == 1 else grant_words(p, reads, writes, p.words)
