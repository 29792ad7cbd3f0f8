"""The parts of the walk over a block that are done for many cycles at once, if the processor supports it."""
from kernbench_core.types cimport int8_t, int32_t, int64_t, uint8_t, uint64_t

ctypedef int64_t (*take_fn)(uint64_t* taken, const uint64_t* want, int64_t n) noexcept nogil
ctypedef void (*lines_fn)(
    uint64_t* want, int64_t n, int64_t bank, int64_t at, int64_t end, int64_t q, int64_t nbytes, int64_t shift, int64_t banks,
    uint64_t full) noexcept nogil

ctypedef int32_t (*lanes_fn)(
    int32_t* lanes, int64_t n, int64_t size, int32_t begin, int32_t end, int32_t hop, int32_t chunk, int32_t banks,
    uint8_t* asked) noexcept nogil
ctypedef void (*due_fn)(const int32_t* at, int64_t n, int64_t size, int32_t now, int8_t* due) noexcept nogil
ctypedef void (*repace_fn)(
    int32_t* lanes, uint8_t which, int32_t now, int32_t line, const int32_t* terms, int64_t size) noexcept nogil
ctypedef void (*copy_fn)(int32_t* to, const int32_t* lanes, int64_t n, int64_t size) noexcept nogil
ctypedef int32_t (*granted_fn)(const uint8_t* asked, int32_t cycles, int32_t ports) noexcept nogil
ctypedef void (*count_fn)(uint8_t* asked, int32_t cycles, int64_t* count, int32_t banks) noexcept nogil
ctypedef int32_t (*least_fn)(const int32_t* field, int64_t n, int64_t size) noexcept nogil

cdef struct Vectors:          # NULL: plain code
    int32_t level             # 0: plain, 1: AVX2
    take_fn take[2]           # for one and for two ports of a bank: the cycles until a request is denied
    lines_fn add_lines        # the banks of a stream's lines, cycle by cycle
    lanes_fn run_lanes        # the lines of lanes in a window
    copy_fn copy_lanes        # the fields of lanes that a window changes
    granted_fn granted_cycles  # the cycles of a window before the first one with too few ports
    count_fn count_grants     # the ports that were taken in a window
    due_fn due                # the lanes that are due in a cycle
    repace_fn repace          # lanes get the rates of their routes
    least_fn least            # the smallest number of a field of lanes

cdef Vectors vectors
