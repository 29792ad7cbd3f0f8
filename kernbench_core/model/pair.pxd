"""Transfers between two scratchpads: one flow that requests banks of both (docs/model/systems.md)."""
from kernbench_core.model.pair_requesters cimport far_requester
from kernbench_core.model.sim cimport Sim, lacks_banks
from kernbench_core.types cimport cycle_t, slot_t

cdef void pair_open(Sim* s, slot_t flow) noexcept nogil
cdef void pair_close(Sim* s, slot_t flow, cycle_t now) noexcept nogil
cdef void pair_request(Sim* s, slot_t flow, cycle_t now) noexcept nogil
cdef void pair_decide(Sim* s, slot_t flow, cycle_t now) noexcept nogil

cdef inline bint pair_lacks(Sim* s, slot_t flow) noexcept nogil:
    """Whether a bank is missing on either side."""
    return lacks_banks(s, flow) or lacks_banks(s, far_requester(s, flow))
