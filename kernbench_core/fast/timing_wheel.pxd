"""The requesters of a scratchpad that are due in each of the next cycles."""
from libc.string cimport memset

from kernbench_core.model.bank cimport Requester, Spm
from kernbench_core.types cimport cycle_t, int32_t, int64_t, uint64_t

cdef enum:
    SPOKES = 64               # cycles
    RIMS = 64                 # words for the requesters of a cycle: with more than 64 * RIMS requesters there is no wheel

cdef struct Wheel:            # made again when requesters come, leave or change their rates (`Spm.laid`)
    cycle_t first             # the cycle of the first column
    uint64_t busy             # one bit for each cycle from `first` on in which a requester is due
    int32_t rims              # words in use
    uint64_t[SPOKES] rim      # a bit for each word of the cycle that is not 0
    uint64_t[RIMS][SPOKES] due  # one bit for each position in `Spm.order`, with 64 positions in a word

cdef inline void wheel_put(Wheel* x, Requester* a, int32_t place) noexcept nogil:
    """Add a requester at the cycle of its next request, or in which it leaves its resources."""
    cdef int64_t spoke = min(a.next_at, a.backpressure_at) - x.first
    if spoke < SPOKES:
        x.due[place >> 6][spoke] |= <uint64_t>1 << (place & 63)
        x.rim[spoke] |= <uint64_t>1 << (place >> 6)
        x.busy |= <uint64_t>1 << spoke

cdef inline void wheel_lay(Wheel* x, Spm* p, Requester* requesters) noexcept nogil:
    """Add all requesters, from the scratchpad's next cycle on."""
    cdef int32_t k
    x.first = p.done
    x.busy = 0
    x.rims = (p.n_order + 63) >> 6
    memset(x.rim, 0, sizeof(x.rim))
    memset(x.due, 0, x.rims * SPOKES * sizeof(uint64_t))
    for k in range(p.n_order):
        wheel_put(x, &requesters[p.order[k]], k)
    p.look.laid = True
