"""The lanes of flows, eight in a struct, so that one instruction can handle the same field of eight lanes (fast/lane_windows.pyx)."""
from kernbench_core.model.share.membership cimport Pace
from kernbench_core.types cimport cycle_t, int32_t, nbytes_t, slot_t, uint8_t, uint64_t

cdef enum:
    LANES = 8                 # lanes in a struct
    DUE_WORDS = 256           # room for a bit for each lane: in machines with more flows and engines there is no rolling
    TURN_WORDS = 64           # room for a bit for each requester of the scratchpad: with more requesters there is no rolling
    WINDOW = 64               # cycles of a window, at most
    BANKS = 64                # room for banks: rolling needs a mask of banks of one word
    FAR = 1 << 30             # a cycle of a lane that is never reached, because the table is filled again every EPOCH cycles
    EPOCH = 1 << 28
    WORDS = 64                # words of ports before they are counted
    CYCLE = 24                # more than the words of a cycle, and those that SIMD instructions load after them

# The coming requests of eight flows, one line each, in the form that rolling needs. While a lane is open, it is valid in place of the
# flow's carry, cursor and bytes. A requester without an open lane has a lane as well, with the cycle of its next request in `at` and
# `until`. Cycles count from `LaneTable.epoch`. The order of the fields up to `route` is known to fast/simd.h. A window changes the fields
# from `at` to `run`.
cdef struct Lanes:
    int32_t[LANES] num        # numerator of the rate, as in Flow
    int32_t[LANES] rest       # `Flow.rest`: remainder of the cost of a line divided by `num`
    int32_t[LANES] every      # `Flow.every`: whole cycles in which a line is earned
    int32_t[LANES] at         # cycle of the next request; FAR: none is known
    int32_t[LANES] carry      # the carry after that request
    int32_t[LANES] lines      # lines that the lane can still request; 0: it is not open
    int32_t[LANES] bank       # the bank of the next request
    int32_t[LANES] run        # lines of its address run after this one; 0 if lanes end with their run
    int32_t[LANES] side       # index in `Walk.taken` of the ports that it takes
    int32_t[LANES] until      # the first cycle in which the requester may make a request of another kind
    int32_t[LANES] den        # denominator of the rate, as in Flow; after a change of the rate, the Flow gets it when the lane is closed
    int32_t[LANES] route      # of an open lane: the route of the flow, by its index in `Sim.route_rate`
    int32_t[LANES] opened     # `lines` when the lane was opened; 0: the Flow is up to date
    int32_t[LANES] position   # position of the requester in `LaneTable.order`
    slot_t[LANES] owner       # the requester that has the lane, also after it has left until the table is filled again; NONE: it is free

cdef struct RouteRate:        # the rate of the flows of a route that have open lanes, which is the same for all of them
    int32_t[4] terms          # numerator, denominator, `every` and `rest` of the rate; this order is known to fast/simd.h
    int32_t n_open            # number of these flows
    Pace pace                 # the rate as P4 last changed it, if it did since the first of the lanes was opened; else only its raw terms

cdef struct LaneTable:        # filled again when requesters come; a requester that leaves only has no next cycle
    int32_t n                 # number of requesters when the table was filled
    int32_t blocks            # the first structs of `Sim.lane`, up to the last one in which a requester has a lane
    uint64_t[DUE_WORDS] used  # a bit for each lane that a requester had when the table was filled
    cycle_t epoch             # the cycle from which lanes count theirs
    int32_t window            # [cycle] length of the next window: short after a window in which a request would have been denied
    uint64_t[DUE_WORDS] due   # a bit for each lane that is due in a cycle
    uint64_t[TURN_WORDS] turn  # a bit for the position of each requester that is due in a cycle
    uint64_t[TURN_WORDS] moved  # requesters whose flow was changed: their next cycle must be read again, by position
    bint any_moved            # whether `moved` has a requester
    bint any_open             # whether a lane may be open
    int32_t route_words       # words with a bit for each route
    int32_t lane_words        # words with a bit for each lane
    uint64_t[DUE_WORDS] open  # a bit for each open lane
    uint64_t[DUE_WORDS] repaced  # during P4: a bit for each lane that gets another rate
    slot_t[64 * TURN_WORDS] order  # [n] requesters in tie-break order
    uint64_t[WORDS + CYCLE] word  # ports taken in single cycles that are not counted yet, one cycle after another
    int32_t words             # number of words of `word` that are in use
    # For each side, cycle of a window and bank: how many lines ask for a port; zero between windows. The last row has no meaning
    uint8_t[2][WINDOW + 1][BANKS] asked
    nbytes_t line             # [B] a line; -1 for a blocked map, whose flows have no lanes
    int32_t shift             # log2(line)
    nbytes_t interleave       # [B] the length of a whole run
    nbytes_t gap              # [B] from the end of a run to the beginning of the next one of the flow; 0: lanes end with their run
    int32_t chunk             # lines of a whole run; 1: lanes end with their run
    int32_t hop               # banks from the end of a run to the beginning of the next one
    int32_t banks             # number of banks

cdef inline int32_t block_of(int32_t lane) noexcept nogil:
    """The struct of a lane."""
    return lane >> 3

cdef inline void next_line(LaneTable* x, Lanes* g, int32_t j) noexcept nogil:
    """The request of an open lane was granted: go on to the next. There is no branch, as it could not be predicted."""
    cdef int32_t carry = g.carry[j] - g.rest[j], late = carry >> 31         # all ones, or zero
    cdef int32_t over = -<int32_t>(g.run[j] == 0), bank = g.bank[j] + 1 + (x.hop & over)
    g.carry[j] = carry + (g.num[j] & late)
    g.at[j] += g.every[j] - late
    g.lines[j] -= 1
    g.bank[j] = bank - (x.banks & -<int32_t>(bank >= x.banks))
    g.run[j] += (x.chunk & over) - 1
