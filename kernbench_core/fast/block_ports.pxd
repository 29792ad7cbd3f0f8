"""A block of cycles of a scratchpad whose banks fit into one word, and the use of its ports."""
from kernbench_core.model.bank cimport BLOCK, DENIED, Spm
from kernbench_core.trace.events cimport FlowTrace, Tracer
from kernbench_core.model.bank_counters cimport tally_noted, tally_times
from kernbench_core.types cimport cycle_t, int32_t, int64_t, nbytes_t, uint64_t

cdef extern from *:
    """
    /* The walks are written once and compiled for one port, for two and for any number: inlining makes `ports` a constant. */
    #undef CYTHON_INLINE
    #define CYTHON_INLINE __inline__ __attribute__((always_inline))
    """

cdef enum:
    PORTS = 7                 # largest number of ports of one kind (state/layout.pyx)

cdef struct Walk:             # a block of cycles, with frequently used fields of its scratchpad
    cycle_t begin             # the first cycle of the block
    int64_t n                 # [cycle] length of the block
    nbytes_t line             # [B] a line of the scratchpad
    nbytes_t piece            # [B] a line of the scratchpad; -1 for a blocked map, so that no request counts as a whole line
    int32_t shift             # log2(line), or -1 if the line is not a power of two
    int32_t banks             # number of banks of the scratchpad
    uint64_t full             # the mask of all banks
    bint split                # whether banks have separate read and write ports
    cycle_t max_wait          # [cycle] max_wait_cycles
    bint order_changed        # whether a requester made a request when it was aged: the block had the wrong order and must be undone
    int32_t ports[2]          # ports of a bank: for reads (or shared), for writes
    uint64_t* taken[2]  # [cycles][ports] for reads (or shared ports) and for writes: the banks with more than this number of ports taken
    Tracer* trace             # the records of a traced run; else NULL
    FlowTrace* flow_trace     # [n_flows] trace data of the flows of a traced run; else NULL

cdef inline uint64_t run_of(Walk* w, int64_t bank, int64_t n) noexcept nogil:
    """The banks of `n` consecutive lines of the interleaved map, or of `n` consecutive banks, beginning at `bank`."""
    cdef uint64_t m
    if n >= w.banks:
        return w.full
    m = (<uint64_t>1 << n) - 1
    return (m << bank | (m >> 1) >> (w.banks - 1 - bank)) & w.full

cdef inline void note_denial(Spm* p, uint64_t denied) noexcept nogil:
    """Note a denial, to be counted together with others."""
    p.lookahead.denied[p.lookahead.n_denied] = denied
    p.lookahead.n_denied += 1
    if p.lookahead.n_denied >= DENIED - BLOCK:
        p.lookahead.n_denied = tally_noted(&p.denials, p.lookahead.denied, p.lookahead.n_denied)

cdef inline uint64_t take(uint64_t* taken, int32_t ports, uint64_t need) noexcept nogil:
    """Grant the banks that still have a port in this cycle."""
    cdef uint64_t got
    cdef int32_t k
    if ports == 1:
        got = need & ~taken[0]
        taken[0] |= got
        return got
    if ports == 2:
        got = need & ~taken[1]
        taken[1] |= got & taken[0]
        taken[0] |= got
        return got
    got = need & ~taken[ports - 1]
    for k in range(ports - 1, 0, -1):
        taken[k] |= got & taken[k - 1]
    taken[0] |= got
    return got

cdef inline uint64_t grant(Spm* p, Walk* w, int64_t c, int32_t ports, uint64_t reads, uint64_t writes) noexcept nogil:
    """Arbitrate one request in cycle `c` of the block; return the denied banks."""
    cdef uint64_t got
    if ports:
        return reads & ~take(w.taken[0] + c * ports, ports, reads)
    got = reads | writes
    if w.split:
        got &= ~(reads & w.taken[0][(c + 1) * w.ports[0] - 1]) & ~(writes & w.taken[1][(c + 1) * w.ports[1] - 1])
        take(w.taken[1] + c * w.ports[1], w.ports[1], got & writes)
        take(w.taken[0] + c * w.ports[0], w.ports[0], got & reads)
        if got & reads & writes:                    # counted once (fast/block.pyx counts both sides)
            tally_times(&p.grants, got & reads & writes, -1)
    else:
        got = take(w.taken[0] + c * w.ports[0], w.ports[0], got)
    return (reads | writes) & ~got
