"""On which side of the routers a flow asks its scratchpad, and whether it has something to do at its resources."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport slot_t

cdef inline bint gives(Sim* s, slot_t flow) noexcept nogil:
    """The flow's bytes go through routers before its scratchpad is asked."""
    return s.noc != NULL and s.noc.at[flow].gives

cdef inline bint takes(Sim* s, slot_t flow) noexcept nogil:
    """They go through routers after that."""
    return s.noc != NULL and not s.noc.at[flow].gives

cdef inline bint is_full(Sim* s, slot_t flow) noexcept nogil:
    """The window of the flow has no room for a packet."""
    return s.noc != NULL and s.noc.at[flow].full

cdef inline bint enters_again(Sim* s, slot_t flow) noexcept nogil:
    """A flow that was out for backpressure, and has more to request, has something to do at its resources."""
    return s.noc == NULL or not s.noc.at[flow].full and (takes(s, flow) or s.noc.at[flow].entered < s.share.flow[flow].total)
