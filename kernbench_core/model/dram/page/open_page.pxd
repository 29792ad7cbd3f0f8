"""`open` of docs/model/dram_rows.md, R6: a row stays open until a burst needs another row of its bank, or a refresh is due."""
from kernbench_core.model.dram.devices cimport Controller, Devices
from kernbench_core.types cimport NEVER, NONE, cycle_t, int32_t

cdef inline int32_t keep_open(Devices* d, Controller* c, cycle_t now, cycle_t* soonest) noexcept nogil:
    """Never close a row."""
    soonest[0] = NEVER
    return NONE
