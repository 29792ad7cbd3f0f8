"""Functions that record the requests of a traced scratchpad: requested banks, denials and moved bytes (levels `full` and `access`)."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, slot_t, uint64_t

cdef void open_traced_request(Sim* s, Spm* p, slot_t requester, uint64_t* reads, uint64_t* writes, cycle_t now) noexcept nogil
cdef void record_denied(Sim* s, Spm* p, int32_t asking, int32_t bank, bint no_read, bint no_write) noexcept nogil
cdef void record_request(Sim* s, Spm* p, slot_t requester, uint64_t* reads, uint64_t* writes, cycle_t now) noexcept nogil
cdef void add_read_banks(Sim* s, Spm* p, slot_t requester, uint64_t* mask) noexcept nogil
cdef void record_served(Sim* s, Spm* p, slot_t requester, cycle_t since, cycle_t now) noexcept nogil
cdef void record_conflicts(Sim* s, Spm* p, cycle_t now) noexcept nogil
