"""The requesters of a scratchpad that are due in each of the next cycles, and the lanes of its flows."""
from kernbench_core.types cimport NEVER, cycle_t, int16_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t

cdef enum:
    BUCKETS = 64              # cycles: the wheel has one bucket for each, and continues with the first bucket after the last
    DUE_WORDS = 64            # words for the requesters of a cycle: with more than 64 * DUE_WORDS requesters there is no wheel
    BANKS = 64                # room for banks: rolling needs a mask of banks of one word
    RUNS = 16                 # lines of a run, at most: lanes end with a longer run
    WORDS = 64                # words of ports before they are counted
    CYCLE = 24                # more than the words of a cycle, and those that SIMD instructions load after them

# The coming requests of a flow, one line each, in the form that fast/rolling.pyx needs. While a lane is open, it is valid in place of the
# flow's carry, cursor and bytes. The struct fits into one line of the processor's cache.
cdef struct Lane:
    cycle_t at                # cycle of the next request; if the lane is closed: the cycle at which the wheel has the requester
    int64_t carry             # the carry after that request
    int64_t num               # numerator of the rate, as in Flow
    int64_t rest              # `Flow.rest`: remainder of the cost of a line divided by `num`
    int32_t every             # `Flow.every`: whole cycles in which a line is earned
    int32_t place             # the bank of the next request, plus BANKS for each further line of its run
    int32_t lines             # lines that the lane can still request; 0: also if it is paused
    int32_t opened            # `lines` when the lane was opened; 0: the lane is closed
    int32_t paused            # `lines` when the lane was paused; 0: not paused. While it is paused, the Flow has the current credit
    int32_t side              # offset of its ports among the words of a cycle: those of writes come before those of reads
    int32_t position          # position of the requester on the wheel

cdef struct Wheel:            # made again when requesters come; a requester that leaves only has no next cycle
    int32_t n                 # number of requesters when the wheel was made
    int32_t due_words         # number of words of `due` that are in use
    cycle_t next_far          # the cycle in which `far` is examined again
    uint64_t[BUCKETS] nonempty  # a bit for each word of the bucket that may be nonzero
    uint64_t[DUE_WORDS][BUCKETS] due  # one bit for each position, with 64 positions in a word
    uint64_t[DUE_WORDS] far   # requesters that are due BUCKETS cycles later, or more
    uint64_t[DUE_WORDS] moved  # requesters whose flow was changed: their next cycle must be read again
    bint any_moved            # whether `moved` has a requester
    bint any_open             # whether a lane may be open
    slot_t[64 * DUE_WORDS] order  # [n] requesters in tie-break order
    uint64_t[WORDS + CYCLE] word  # ports taken in cycles that are not counted yet, one cycle after another
    int32_t words             # number of words of `word` that are in use
    nbytes_t line             # [B] a line; -1 for a blocked map, whose flows have no lanes
    int32_t shift             # log2(line)
    nbytes_t interleave       # [B] the length of a whole run
    nbytes_t gap              # [B] from the end of a run to the beginning of the next one of the flow; 0: lanes end with their run
    int32_t chunk             # lines of a whole run; 0: lanes end with their run
    int16_t[BANKS * RUNS] next  # the place (`Lane.place`) of the line after a line at each place

cdef inline void wheel_insert(Wheel* x, Lane* g, int32_t position, cycle_t now) noexcept nogil:
    """Add a requester at the cycle `at` of its lane; `now`: the cycle that the wheel has reached."""
    cdef int32_t bucket = g.at & (BUCKETS - 1)
    if g.at - now < BUCKETS:
        x.due[position >> 6][bucket] |= <uint64_t>1 << (position & 63)
        x.nonempty[bucket] |= <uint64_t>1 << (position >> 6)
    elif g.at != NEVER:
        x.far[position >> 6] |= <uint64_t>1 << (position & 63)

cdef inline void wheel_remove(Wheel* x, Lane* g) noexcept nogil:
    """Remove a requester; words in which it was alone keep their marks."""
    cdef uint64_t mine = <uint64_t>1 << (g.position & 63)
    x.due[g.position >> 6][g.at & (BUCKETS - 1)] &= ~mine
    x.far[g.position >> 6] &= ~mine
