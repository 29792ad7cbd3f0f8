"""Requests of flows that are not regular, or are denied (fast/block_flow.pyx handles the others)."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, int64_t, slot_t, uint64_t
from kernbench_core.fast.block_ports cimport Walk

cdef uint64_t request_once(Sim* s, Spm* p, Walk* w, slot_t requester, cycle_t now) noexcept nogil
cdef int64_t wait_for_bank(Sim* s, Spm* p, Walk* w, slot_t requester, int64_t c, uint64_t* taken, int32_t each) noexcept nogil
cdef int64_t request_slowly(Sim* s, Spm* p, Walk* w, slot_t requester, int64_t c, int32_t ports) noexcept nogil
cdef int64_t request_slowly_traced(Sim* s, Spm* p, Walk* w, slot_t requester, int64_t c) noexcept nogil
cdef void note_request(
    Sim* s, Spm* p, Walk* w, slot_t requester, int64_t c, uint64_t reads, uint64_t writes, uint64_t denied, cycle_t since) noexcept nogil
