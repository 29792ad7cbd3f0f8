"""The next cycle in which each scratchpad may have an event that other parts of the machine observe, and P5 and P6 of the scratchpads that
are due."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, slot_t

cdef void touch_flow(void* sim, slot_t flow, cycle_t now) noexcept nogil
cdef void find_touched(Sim* s) noexcept nogil
cdef void scratchpad_phase(Sim* s, cycle_t now) noexcept nogil

cdef inline void find_horizons(Sim* s) noexcept nogil:
    """Bring `horizon` up to date; in most cycles it is up to date already."""
    if s.n_touched:
        find_touched(s)
