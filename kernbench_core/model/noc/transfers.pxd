"""Transfers of a machine over its routers."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.types cimport cycle_t, int32_t, nbytes_t, slot_t, uint64_t

cdef void interface_open(Sim* s, slot_t flow) noexcept nogil
cdef void interface_join(Sim* s, slot_t flow) noexcept nogil
cdef void interface_close(Sim* s, slot_t flow) noexcept nogil
cdef bint routed_want(Sim* s, Spm* p, slot_t flow, cycle_t now, uint64_t* mask) noexcept nogil
cdef bint may_ask_both(Sim* s, slot_t flow) noexcept nogil
cdef void routers_phase(Sim* s, cycle_t now) noexcept nogil

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
