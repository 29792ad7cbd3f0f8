"""`closed` of docs/model/dram_rows.md, R6: a row is closed as soon as no burst in the queue needs it."""
from kernbench_core.model.dram.device cimport PRE, Bank, device_ready
from kernbench_core.model.dram.devices cimport Controller, Devices
from kernbench_core.types cimport NEVER, NONE, cycle_t, int32_t

cdef inline int32_t close_unwanted(Devices* d, Controller* c, cycle_t now, cycle_t* soonest) noexcept nogil:
    """The first bank that may be closed among the banks whose open row no queued burst needs."""
    cdef int32_t k
    cdef Bank* b
    cdef cycle_t at
    soonest[0] = NEVER
    for k in range(c.queued):
        b = &c.device.bank[c.queue[k].bank]
        if b.row == c.queue[k].row:
            b.open_row_scan = d.scans
    for k in range(d.timing.banks):
        b = &c.device.bank[k]
        if b.row == NONE or b.open_row_scan == d.scans:
            continue
        at = device_ready(&c.device, &d.timing, k, PRE)
        if at <= now:
            return k
        soonest[0] = min(soonest[0], at)
    return NONE
