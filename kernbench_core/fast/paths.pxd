"""Fast paths, and the advance of a scratchpad through time."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, slot_t

cdef enum FastPath:           # bits of `paths`
    UNCONTENDED_PATH = 1
    CONFLICT_FREE_PATH = 2
    SPECULATIVE_PATH = 4
    BLOCK_PATH = 8
    ROLLING_PATH = 16

cdef int32_t paths            # paths that may be used: all, unless a test leaves some out

cdef void scratchpad_advance(Sim* s, int32_t spm, cycle_t to) noexcept nogil
cdef void scratchpad_due(Sim* s, int32_t spm, cycle_t to) noexcept nogil
cdef void scratchpad_touch(void* sim, int32_t spm, cycle_t now) noexcept nogil
cdef void settle_dense(Sim* s, Spm* p) noexcept nogil
