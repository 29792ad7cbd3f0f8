"""Functions of the page policies: the banks whose open row no queued burst needs."""
from kernbench_core.model.dram.device cimport Bank
from kernbench_core.model.dram.devices cimport Controller, Devices
from kernbench_core.types cimport NONE, int32_t

cdef inline void mark_needed_rows(Devices* d, Controller* c) noexcept nogil:
    """Mark the banks whose open row a queued burst needs."""
    cdef int32_t k
    cdef Bank* b
    for k in range(c.queued):
        b = &c.device.bank[c.queue[k].bank]
        if b.row == c.queue[k].row:
            b.open_row_scan = d.scans

cdef inline bint row_unneeded(Devices* d, Bank* b) noexcept nogil:
    """The bank has an open row, and `mark_needed_rows` did not mark the bank in this scan."""
    return b.row != NONE and b.open_row_scan != d.scans
