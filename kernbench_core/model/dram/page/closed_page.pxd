"""`closed` of docs/model/dram_rows.md, R6: a row is closed as soon as no burst in the queue needs it."""
from kernbench_core.model.dram.device cimport PRE, device_ready
from kernbench_core.model.dram.devices cimport Controller, Devices
from kernbench_core.model.dram.page.needed_rows cimport mark_needed_rows, row_unneeded
from kernbench_core.types cimport NEVER, NONE, cycle_t, int32_t

cdef inline int32_t close_unwanted(Devices* d, Controller* c, cycle_t now, cycle_t* soonest) noexcept nogil:
    """The first bank that may be closed among the banks whose open row no queued burst needs."""
    cdef int32_t k
    cdef cycle_t at
    soonest[0] = NEVER
    mark_needed_rows(d, c)
    for k in range(d.timing.banks):
        if not row_unneeded(d, &c.device.bank[k]):
            continue
        at = device_ready(&c.device, &d.timing, k, PRE)
        if at <= now:
            return k
        soonest[0] = min(soonest[0], at)
    return NONE
