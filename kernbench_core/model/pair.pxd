"""Transfers between two scratchpads: one flow that asks both (docs/model/systems.md)."""
from kernbench_core.model.sim cimport Sim, lacks_banks
from kernbench_core.types cimport cycle_t, slot_t

cdef void pair_open(Sim* s, slot_t flow) noexcept nogil
cdef void pair_close(Sim* s, slot_t flow, cycle_t now) noexcept nogil
cdef void pair_ask(Sim* s, slot_t flow, cycle_t now) noexcept nogil
cdef void pair_judge(Sim* s, slot_t flow, cycle_t now) noexcept nogil

cdef inline slot_t far_requester(Sim* s, slot_t flow) noexcept nogil:
    """The requester of a flow in its peer's scratchpad."""
    return s.n_flows + s.n_compute + s.n_asks + flow

cdef inline slot_t flow_of(Sim* s, slot_t requester) noexcept nogil:
    """The flow of one of its two requesters."""
    return requester if requester < s.n_flows else requester - far_requester(s, 0)

cdef inline bint pair_lacks(Sim* s, slot_t flow) noexcept nogil:
    """Either side lacks a bank."""
    return lacks_banks(s, flow) or lacks_banks(s, far_requester(s, flow))
