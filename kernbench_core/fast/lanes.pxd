"""Lanes: the coming requests of flows that rolling runs, in a form in which a line costs few instructions."""
from kernbench_core.fast.lane_table cimport FAR, Lanes
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.division cimport divided
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, int64_t, slot_t, uint64_t

cdef enum:
    MOST_LINES = 1 << 20      # of a lane
    MOST_CYCLES = 1 << 28     # between two lines of a lane, and up to its first one
    MOST_CREDIT = 1 << 28     # of a line, and of a cycle: with MOST_DEN, products of a credit and a denominator are exact as doubles
    MOST_DEN = 1 << 22        # denominator of a rate

cdef inline bint fits(int64_t num, int64_t den, int64_t cost, int64_t every) noexcept nogil:
    """Whether a lane can have this rate."""
    return 0 < every < MOST_CYCLES and num < MOST_CREDIT and den < MOST_DEN and cost < MOST_CREDIT

cdef inline void set_until(Lanes* g, int32_t j, int64_t num, int64_t cost, uint64_t inverse) noexcept nogil:
    """Compute the cycle of the first request after the lines of the lane, which may have none left."""
    cdef int64_t waits = divided(g.lines[j] * cost - g.carry[j] - 1, num, inverse) + 1 if g.lines[j] else 0
    g.until[j] = <int32_t>min(g.at[j] + waits, FAR)

cdef void fill_lanes(Sim* s, Spm* p) noexcept nogil
cdef void place_moved(Sim* s, Spm* p) noexcept nogil
cdef void place_requester(Sim* s, Spm* p, slot_t requester) noexcept nogil
cdef bint open_lane(Sim* s, Spm* p, slot_t requester) noexcept nogil
cdef void close_lane(Sim* s, slot_t requester, cycle_t now) noexcept nogil
cdef void close_lanes(Sim* s, Spm* p) noexcept nogil
cdef void stop_rolling(Sim* s, Spm* p) noexcept nogil
cdef void touch_lane(Sim* s, slot_t flow) noexcept nogil
cdef void count_ports(Sim* s, Spm* p) noexcept nogil
cdef bint repace_lane(void* sim, slot_t flow, cycle_t now) noexcept nogil
