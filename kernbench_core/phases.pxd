"""The phases around the scratchpads: start (P3), share (P4), complete (P7)."""
from kernbench_core.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, int64_t, slot_t

cdef void submit_entry(void* sim, int32_t entry, int64_t seq) noexcept nogil
cdef void start_transfer(Sim* s, slot_t job, cycle_t now) noexcept nogil
cdef void start_phase(Sim* s, cycle_t now) noexcept nogil
cdef void share_phase(Sim* s, cycle_t now) noexcept nogil
cdef void complete_phase(Sim* s, cycle_t now) noexcept nogil
