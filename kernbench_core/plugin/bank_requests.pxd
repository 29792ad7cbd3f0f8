"""A component's request for banks as a requester of a scratchpad."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, int64_t, uint64_t

cdef int64_t ask_open(Sim* s, int32_t c, int32_t spm, const uint64_t* reads, const uint64_t* writes, int32_t words,
                      cycle_t at) noexcept nogil
