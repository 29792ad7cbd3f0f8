"""Transfers of a machine over its routers."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.types cimport cycle_t, int32_t, nbytes_t, slot_t, uint64_t

cdef void interface_open(Sim* s, slot_t flow) noexcept nogil
cdef void interface_join(Sim* s, slot_t flow) noexcept nogil
cdef void interface_close(Sim* s, slot_t flow) noexcept nogil
cdef bint routed_want(Sim* s, Spm* p, slot_t flow, cycle_t now, uint64_t* mask) noexcept nogil
cdef bint may_request_both(Sim* s, slot_t flow) noexcept nogil
cdef void routers_phase(Sim* s, cycle_t now) noexcept nogil
