"""The page policy of docs/model/dram_rows.md, R6."""
from kernbench_core.types cimport NEVER, NONE


cdef int32_t keep_open(Devices* d, Controller* c, cycle_t now, cycle_t* soonest) noexcept nogil:
    """Nothing is closed."""
    soonest[0] = NEVER
    return NONE
