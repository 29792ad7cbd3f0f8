"""P4 for flows with open lanes: the rates of all lanes whose routes are concerned, eight lanes at a time."""
from kernbench_core.types cimport cycle_t, int32_t

cdef bint set_lane_rates(void* sim, int32_t n, cycle_t now) noexcept nogil
