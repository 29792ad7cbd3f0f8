"""Many cycles of one requester at once, which nobody can deny."""
from kernbench_core.fast.request_table cimport Ahead
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.compute cimport Compute, ComputeJob
from kernbench_core.model.dram.extent cimport Dram, Extent
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.types cimport cycle_t, int64_t, uint64_t

cdef bint banks_differ(Spm* p, Dram* d, int64_t lines) noexcept nogil
cdef void flow_jump(Flow* f, Spm* p, Dram* d, Extent* x, uint64_t* mask, int64_t cycles) noexcept nogil
cdef cycle_t compute_jump(Compute* e, Spm* p, uint64_t* reads, uint64_t* writes, cycle_t at, cycle_t end) noexcept nogil
cdef cycle_t dense_jump(Compute* e, Ahead* x, ComputeJob* jobs, Spm* p, cycle_t at, cycle_t end) noexcept nogil
