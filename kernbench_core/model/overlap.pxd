"""`check_overlap`: scratchpad ranges of concurrent jobs (docs/model/banks_and_arbiters.md)."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport int32_t

cdef bint overlap_allows(Sim* s, int32_t entry) noexcept nogil
cdef void overlap_started(Sim* s, int32_t entry) noexcept nogil
cdef void overlap_ended(Sim* s, int32_t entry) noexcept nogil
