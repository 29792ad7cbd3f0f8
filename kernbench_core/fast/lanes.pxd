"""Lanes: the coming requests of flows that rolling runs, in a form in which a line costs few instructions."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, slot_t

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
cdef bint repace_members(void* sim, slot_t channel, cycle_t now) noexcept nogil
