"""Plugged-in components in the phases of a cycle."""
from kernbench_core.plugin.cycle_heap cimport clock_next
from kernbench_core.plugin.component_tables cimport Plugs
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport NONE, cycle_t, int32_t, slot_t

cdef void component_members(Sim* s, cycle_t now) noexcept nogil
cdef void component_wake(Sim* s, cycle_t now) noexcept nogil
cdef bint component_offer(Sim* s, int32_t engine, cycle_t now) noexcept nogil
cdef void component_complete(Sim* s, cycle_t now) noexcept nogil

cdef inline int32_t component_in_place_of(Sim* s, int32_t engine) noexcept nogil:
    """The component that takes the jobs of an engine: DMA engines, TEs and VEs, then components themselves; NONE: the engine itself."""
    if engine < s.n_dma:
        return s.plugs.dma_by[engine]
    if engine < s.n_dma + s.n_compute:
        return s.plugs.compute_by[engine - s.n_dma]
    return engine - s.n_dma - s.n_compute

cdef inline bint component_takes(Sim* s, int32_t engine) noexcept nogil:
    return component_in_place_of(s, engine) != NONE

cdef inline bint component_due(Sim* s, cycle_t now) noexcept nogil:
    """Whether P1 has work."""
    return s.plugs != NULL and clock_next(&s.plugs.wakes) <= now

cdef inline bint component_ends(Plugs* p, cycle_t now) noexcept nogil:
    """Whether P7 has work."""
    return p.n_touched or p.n_done or p.n_notices or p.n_served or clock_next(&p.ends) <= now

cdef inline cycle_t component_next(Plugs* p) noexcept nogil:
    """No component acts in an earlier cycle; NEVER: no component acts."""
    if p.n_touched or p.n_done or p.n_notices:
        return 0
    return min(clock_next(&p.wakes), clock_next(&p.ends))

cdef inline void component_flow_changed(Sim* s, slot_t slot) noexcept nogil:
    """The end of the flow must be computed again."""
    cdef Plugs* p = s.plugs
    cdef slot_t k = slot - p.first_flow
    if not p.flow[k].touched:
        p.flow[k].touched = True
        p.touched[p.n_touched] = k
        p.n_touched += 1
