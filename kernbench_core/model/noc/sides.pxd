"""The order in which a flow uses the routers and requests its scratchpad, and whether the flow has work at its resources."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport slot_t

cdef inline bint gives(Sim* s, slot_t flow) noexcept nogil:
    """Whether the flow's bytes go through routers before the request to its scratchpad."""
    return s.noc != NULL and s.noc.at[flow].gives

cdef inline bint takes(Sim* s, slot_t flow) noexcept nogil:
    """Whether the flow's bytes go through routers after the request to its scratchpad."""
    return s.noc != NULL and not s.noc.at[flow].gives

cdef inline bint is_full(Sim* s, slot_t flow) noexcept nogil:
    """Whether the window of the flow has no room for a packet."""
    return s.noc != NULL and s.noc.at[flow].full

cdef inline bint enters_again(Sim* s, slot_t flow) noexcept nogil:
    """Whether a flow that was out for backpressure has more bytes to request, and thus work at its resources."""
    return s.noc == NULL or not s.noc.at[flow].full and (takes(s, flow) or s.noc.at[flow].entered < s.share.flow[flow].total)
