"""The two requesters of a flow between two scratchpads, one in each scratchpad."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport slot_t

cdef inline slot_t far_requester(Sim* s, slot_t flow) noexcept nogil:
    """The requester of a flow in the scratchpad at the far end."""
    return s.n_flows + s.n_compute + s.n_component_requests + flow

cdef inline slot_t flow_of(Sim* s, slot_t requester) noexcept nogil:
    """The flow of one of its two requesters."""
    return requester if requester < s.n_flows else requester - far_requester(s, 0)
