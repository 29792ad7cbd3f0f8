"""A flow of a scratchpad whose banks fit into one word, over a block of cycles: variants for one shared port of a bank, for two, for any
number, and for a run that traces requests."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport slot_t
from kernbench_core.fast.block_ports cimport Walk

cdef void walk_flow_1(Sim* s, Spm* p, Walk* w, slot_t requester) noexcept nogil
cdef void walk_flow_2(Sim* s, Spm* p, Walk* w, slot_t requester) noexcept nogil
cdef void walk_flow_any(Sim* s, Spm* p, Walk* w, slot_t requester) noexcept nogil
cdef void walk_flow_traced(Sim* s, Spm* p, Walk* w, slot_t requester) noexcept nogil
