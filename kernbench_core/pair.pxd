"""Transfers between two scratchpads: one flow that asks both (FORMATS, `kernbench/system/1`)."""
from kernbench_core.sim cimport Sim
from kernbench_core.types cimport cycle_t, slot_t

cdef inline slot_t far_lane(Sim* s, slot_t flow) noexcept nogil:
    """The lane of a flow in its peer's scratchpad."""
    return s.n_flows + s.n_compute + s.n_asks + flow

cdef void pair_open(Sim* s, slot_t flow) noexcept nogil
cdef void pair_close(Sim* s, slot_t flow, cycle_t now) noexcept nogil
cdef void paired_cycle(Sim* s, cycle_t now) noexcept nogil
