"""The parts of the walk over a block that are done for many cycles at once, if the processor supports it."""
from kernbench_core.types cimport int32_t, int64_t, uint64_t

ctypedef int64_t (*take_fn)(uint64_t* taken, const uint64_t* want, int64_t n) noexcept nogil
ctypedef void (*lines_fn)(
    uint64_t* want, int64_t n, int64_t bank, int64_t at, int64_t end, int64_t q, int64_t nbytes, int64_t shift, int64_t banks,
    uint64_t full) noexcept nogil

cdef struct Vectors:          # NULL: plain code
    int32_t level             # 0: plain, 1: AVX2
    take_fn take[2]           # for one and for two ports of a bank: the cycles until a request is denied
    lines_fn add_lines        # the banks of a stream's lines, cycle by cycle

cdef Vectors vectors
